//! Arms that carry a blinded cost: opened here, inside the agent, and disclosed to nobody.

use crate::trial_error::TrialError;
use baremark_model::arm::ResolvedArm;
use baremark_model::scale::{InjectedCosts, PARAMETER, VARIABLE};
use baremark_model::units::Share;
use baremark_model::value::Value;

/// The share of uncounted repetitions of each arm; none where an arm carries no label.
///
/// # Errors
/// When an arm is blinded and this agent was not given the injected cost of its label.
pub fn costs(arms: &[&ResolvedArm]) -> Result<Vec<Share>, TrialError> {
    let wanting = |what: String| TrialError::Spec { what, remedy: "start it with `baremark verify-scale`".to_owned() };
    let label = |arm: &ResolvedArm| match arm.parameters.get(PARAMETER) {
        Some(Value::Text(label)) => Some(label.clone()),
        _ => None,
    };
    let labels: Vec<Option<String>> = arms.iter().map(|arm| label(arm)).collect();
    if labels.iter().all(Option::is_none) {
        return Ok(vec![Share(0.0); arms.len()]);
    }
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let InjectedCosts(costs) = text.parse().map_err(|why| wanting(format!("labels of the blinded arms: {why}")))?;
    let cost = |label: Option<String>| match label {
        None => Ok(Share(0.0)),
        Some(label) => costs.get(&label).copied().ok_or_else(|| wanting(format!("arm '{label}' is blinded"))),
    };
    labels.into_iter().map(cost).collect()
}

/// Repetitions of which every per cent is a whole number, where an arm is blinded; else just these.
pub fn whole(reps: u64, arms: &[&ResolvedArm]) -> u64 {
    let blinded = arms.iter().any(|arm| arm.parameters.contains_key(PARAMETER));
    if blinded { reps.next_multiple_of(100) } else { reps }
}

/// Of each arm the one whose executor runs it: an arm with a blinded cost is run by that of the first arm which is the same but
/// for the cost, so that injected and uninjected phases of one machine alternate; every other arm has its own.
pub fn executor_of(arms: &[&ResolvedArm]) -> Vec<usize> {
    let is_blinded = |arm: &ResolvedArm| arm.parameters.contains_key(PARAMETER);
    let open = |arm: &ResolvedArm| {
        let mut open = arm.clone();
        open.parameters.remove(PARAMETER);
        open
    };
    let first = |(index, arm): (usize, &&ResolvedArm)| {
        let same = |other: &&ResolvedArm| (is_blinded(arm) || is_blinded(other)) && open(arm) == open(other);
        arms[..index].iter().position(same).unwrap_or(index)
    };
    arms.iter().enumerate().map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;

    #[test]
    fn blinded_arms_are_run_by_the_machine_of_the_arm_that_they_copy() {
        let plain = ResolvedArm::native(2, PageSize::Small);
        let blinded = |label: &str| plain.clone().with(PARAMETER, Value::Text(label.to_owned()));
        let other = ResolvedArm::native(1, PageSize::Small);
        assert_eq!(executor_of(&[&plain, &blinded("a"), &other, &blinded("b")]), [0, 0, 2, 0]);
        assert_eq!(executor_of(&[&blinded("a"), &plain]), [0, 0]);
        assert_eq!(executor_of(&[&plain, &plain]), [0, 1], "a self-check has two machines");
    }
}
