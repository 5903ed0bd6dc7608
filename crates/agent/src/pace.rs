//! How many repetitions make a phase long enough.

use crate::ensemble::{Ensemble, joint_run};
use baremark_model::seam::{Body, Fault, TickRate};

/// The longest that pacing doubles before it gives up on a body that takes no time.
const MOST_REPS: u64 = 1 << 40;
/// Repetitions of another comparison that last longer than this many phases are too many for this one.
const TOO_LONG: f64 = 1.5;

/// Where finding begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Nothing is known.
    One,
    /// With those of another comparison of the same work. Where they last too long here, there are fewer.
    Like(u64),
    /// With those that another arm of this trial has: this arm has no fewer.
    Least(u64),
}

/// Repetitions after which one run of an arm's `bodies` lasts at least `target_ns`. Running them is also the warm-in.
pub fn reps_for(
    ensemble: &mut Ensemble,
    bodies: &[&dyn Body],
    (target_ns, from): (u64, Begin),
    rate: TickRate,
) -> Result<u64, Fault> {
    #[expect(clippy::cast_precision_loss, reason = "a target of 104 days is still exact")]
    let target = target_ns as f64 / 1e9;
    if !ensemble.facts().runs_body {
        ensemble.run_each(bodies, 1)?;
        return Ok(1);
    }
    found(target, from, &mut |reps| Ok(rate.span(&joint_run(&ensemble.run_each(bodies, reps)?).times).unwrap_or(0.0)))
}

/// Repetitions of which a run lasts at least `target` seconds; `run` runs so many and returns the seconds.
fn found(target: f64, from: Begin, run: &mut dyn FnMut(u64) -> Result<f64, Fault>) -> Result<u64, Fault> {
    let (mut reps, mut may_be_too_many) = match from {
        Begin::One => (1, false),
        Begin::Like(reps) => (reps.clamp(1, MOST_REPS), true),
        Begin::Least(reps) => (reps.clamp(1, MOST_REPS), false),
    };
    loop {
        let seconds = run(reps)?;
        if may_be_too_many && reps > 1 && seconds > TOO_LONG * target {
            reps = scaled(reps, 1.05 * target / seconds).min(reps - 1);
        } else if seconds >= target || reps >= MOST_REPS {
            return Ok(reps);
        } else {
            // From a run that lasted a twentieth of the target its rate can be trusted; before that, double.
            let more = if seconds > target / 20.0 { scaled(reps, 1.05 * target / seconds) } else { 2 * reps };
            reps = more.max(reps + 1);
        }
        may_be_too_many = false;
    }
}

/// `reps` times `factor`.
fn scaled(reps: u64, factor: f64) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small and positive"
    )]
    let scaled = (reps as f64 * factor).ceil() as u64;
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found where a repetition takes so many milliseconds and a phase 100, and the runs that it took.
    fn paced(from: Begin, millis: f64) -> (u64, Vec<u64>) {
        let mut runs = Vec::new();
        let found = found(0.1, from, &mut |reps| {
            runs.push(reps);
            #[expect(clippy::cast_precision_loss, reason = "few")]
            Ok(reps as f64 * millis / 1e3)
        });
        (found.expect("no fault"), runs)
    }

    #[test]
    fn from_one_they_double_until_the_rate_can_be_trusted() {
        assert_eq!(paced(Begin::One, 1.0), (106, vec![1, 2, 4, 8, 106]));
        assert_eq!(paced(Begin::One, 500.0), (1, vec![1]), "work that takes longer than a phase");
    }

    #[test]
    fn those_of_another_comparison_need_one_run_where_they_fit() {
        assert_eq!(paced(Begin::Like(105), 1.0), (105, vec![105]));
        assert_eq!(paced(Begin::Like(105), 1.4), (105, vec![105]), "somewhat long");
        // Three times as many, and a third of what is needed.
        assert_eq!(paced(Begin::Like(315), 1.0), (106, vec![315, 106]));
        assert_eq!(paced(Begin::Like(35), 1.0), (105, vec![35, 105]));
        assert_eq!(paced(Begin::Like(0), 500.0), (1, vec![1]));
        assert_eq!(paced(Begin::Like(2), 500.0), (1, vec![2, 1]));
    }

    #[test]
    fn an_arm_has_no_fewer_than_the_one_before_it() {
        assert_eq!(paced(Begin::Least(315), 1.0), (315, vec![315]));
        assert_eq!(paced(Begin::Least(105), 0.5), (211, vec![105, 211]));
    }

    #[test]
    fn work_that_takes_no_time_is_given_up() {
        assert_eq!(paced(Begin::One, 0.0).0, MOST_REPS);
    }
}
