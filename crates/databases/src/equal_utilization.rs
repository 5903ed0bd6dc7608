//! Throughput at a CPU utilization: the load is stepped over numbers of connections, and interpolated between the steps.
//!
//! Two environments at their maximum are at different utilizations, perhaps, so that a ratio of maxima says nothing of what each does for the
//! same CPU time. A phase gives one value, so that its interval over blocks and the ratio's are those of every other metric.

use baremark_model::seam::Sample;

/// What the machine did at one number of connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// Connections.
    pub connections: usize,
    /// CPU utilization of the whole machine in the measured time, in percent.
    pub utilization: f64,
    /// Transactions per second.
    pub per_s: f64,
}

/// Numbers of connections: powers of two, and the most.
pub(crate) fn levels(most: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1_usize), |level| level.checked_mul(2)).take_while(|level| *level < most);
    doubled.chain([most]).collect()
}

/// Throughput at a utilization: linear between the first two successive steps that have it between them. `None` where no two have.
pub(crate) fn throughput_at(steps: &[Step], utilization: f64) -> Option<f64> {
    steps.windows(2).find_map(|pair| {
        let (a, b) = (pair[0], pair[1]);
        let (low, high) = (a.utilization.min(b.utilization), a.utilization.max(b.utilization));
        if !(low..=high).contains(&utilization) {
            return None;
        }
        let share = if high > low { (utilization - a.utilization) / (b.utilization - a.utilization) } else { 0.5 };
        Some(a.per_s + share * (b.per_s - a.per_s))
    })
}

/// The metrics of a load that was stepped.
pub(crate) fn samples(steps: &[Step], utilization: f64) -> Vec<Sample> {
    let fastest = steps.iter().max_by(|a, b| a.per_s.total_cmp(&b.per_s));
    let reached = fastest.map(|step| Sample::new("cpu_utilization", step.utilization));
    let interpolated = throughput_at(steps, utilization).map(|per_s| Sample::new("tx_per_s_at_utilization", per_s));
    reached.into_iter().chain(interpolated).collect()
}

/// What a reader should know of steps that do not have the utilization between them.
pub(crate) fn flag(steps: &[Step], utilization: f64) -> Option<String> {
    if throughput_at(steps, utilization).is_some() {
        return None;
    }
    let all: Vec<String> =
        steps.iter().map(|step| format!("{} connections {:.0} %", step.connections, step.utilization)).collect();
    let all = all.join(", ");
    Some(format!("no two steps have a CPU utilization of {utilization:.0} % between them ({all}); change connections"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(connections: usize, utilization: f64, per_s: f64) -> Step {
        Step { connections, utilization, per_s }
    }

    #[test]
    fn levels_double_up_to_the_most() {
        assert_eq!(levels(1), [1]);
        assert_eq!(levels(8), [1, 2, 4, 8]);
        assert_eq!(levels(12), [1, 2, 4, 8, 12]);
    }

    #[test]
    fn throughput_is_interpolated_and_never_extrapolated() {
        let steps = [step(1, 20.0, 100.0), step(2, 60.0, 300.0), step(4, 90.0, 330.0)];
        assert_eq!(throughput_at(&steps, 40.0), Some(200.0));
        assert_eq!(throughput_at(&steps, 75.0), Some(315.0));
        assert_eq!(throughput_at(&steps, 90.0), Some(330.0));
        assert_eq!((throughput_at(&steps, 91.0), throughput_at(&steps, 19.0)), (None, None));
        assert_eq!(throughput_at(&steps[..1], 20.0), None);
        // More connections may use less CPU time.
        assert_eq!(throughput_at(&[step(1, 90.0, 100.0), step(2, 70.0, 120.0)], 80.0), Some(110.0));
    }

    #[test]
    fn a_utilization_that_was_not_reached_is_said_and_gives_no_value() {
        let steps = [step(1, 20.0, 100.0), step(2, 60.0, 300.0)];
        assert_eq!(samples(&steps, 77.0), [Sample::new("cpu_utilization", 60.0)]);
        let said = flag(&steps, 77.0).unwrap_or_default();
        assert!(said.contains("77 %") && said.contains("1 connections 20 %, 2 connections 60 %"), "{said}");
        assert_eq!(flag(&steps, 50.0), None);
        assert_eq!(samples(&steps, 40.0)[1], Sample::new("tx_per_s_at_utilization", 200.0));
    }
}
