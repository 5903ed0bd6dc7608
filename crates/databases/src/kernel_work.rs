//! What the kernel did for the server in the measured time: page faults, context switches, and TLB shootdowns on its CPUs.
//!
//! Of a server these are the counts of its processes; of an embedded database those of the process that drives it, which has the
//! load's own in them. What cannot be counted is not 0: it has no value, and a flag says why.

use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Sample;
use baremark_observe::shootdowns;
use baremark_sys::clock;
use baremark_sys::process_tree::{self, KernelWork};
use std::fs;

/// Page faults and context switches.
const WORK: [Metric; 3] = [
    Metric::lower("server_minor_faults_per_s", "1/s", Aggregate::Sum).help(
        "page faults per second of the server that read nothing from a disk; with sqlite of the driver's \
         process",
    ),
    Metric::lower("server_major_faults_per_s", "1/s", Aggregate::Sum)
        .help("page faults per second of it that read from a disk"),
    Metric::lower("server_context_switches_per_s", "1/s", Aggregate::Sum)
        .help("context switches per second of its threads"),
];
/// TLB shootdowns.
const SHOOTDOWNS: Metric = Metric::lower("tlb_shootdowns_per_s", "1/s", Aggregate::Sum)
    .help("TLB shootdowns per second that the server's CPUs received, whoever caused them (/proc/interrupts)");
/// All of them.
pub(crate) const METRICS: [Metric; 4] = [WORK[0], WORK[1], WORK[2], SHOOTDOWNS];

/// Whose work is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose {
    /// A server's: of this process and its descendants.
    Server(u32),
    /// This process's, in which an embedded database runs.
    Own,
    /// Nobody's that is known here, for this reason.
    Unknown(&'static str),
}

/// The counters at both ends of the measured time.
pub(crate) struct KernelCounters {
    whose: Whose,
    cpus: Vec<usize>,
    first: Option<Mark>,
    last: Option<Mark>,
}

struct Mark {
    at_ns: u64,
    work: Result<KernelWork, String>,
    shootdowns: Result<u64, String>,
}

impl KernelCounters {
    /// Of this server, which runs on these CPUs; on any where none is named.
    pub(crate) fn of(whose: Whose, cpus: &[usize]) -> KernelCounters {
        KernelCounters { whose, cpus: cpus.to_vec(), first: None, last: None }
    }

    /// Reads the counters.
    pub(crate) fn mark(&mut self) {
        let work = match self.whose {
            Whose::Server(root) => process_tree::kernel_work(root).map_err(|why| why.to_string()),
            Whose::Own => process_tree::own_kernel_work().map_err(|why| why.to_string()),
            Whose::Unknown(why) => Err(why.to_owned()),
        };
        let shootdowns = match self.whose {
            Whose::Unknown(why) => Err(why.to_owned()),
            _ => fs::read_to_string("/proc/interrupts")
                .map_err(|why| format!("/proc/interrupts: {why}"))
                .and_then(|text| shootdowns(&text, &self.cpus).map_err(|why| why.to_string())),
        };
        let mark = Mark { at_ns: clock::monotonic_ns(), work, shootdowns };
        match self.first {
            None => self.first = Some(mark),
            Some(_) => self.last = Some(mark),
        }
    }

    /// What grew between the first and the last mark, per second.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let Some((first, last)) = self.first.as_ref().zip(self.last.as_ref()) else { return Vec::new() };
        let seconds = last.at_ns.saturating_sub(first.at_ns) as f64 / 1e9;
        if seconds <= 0.0 {
            return Vec::new();
        }
        let mut samples = Vec::new();
        let mut add = |metric: &Metric, before: u64, after: u64| {
            let value = after.saturating_sub(before) as f64 / seconds;
            samples.push(Sample::new(metric.key, value));
        };
        if let (Ok(before), Ok(after)) = (&first.work, &last.work) {
            add(&WORK[0], before.minor_faults, after.minor_faults);
            add(&WORK[1], before.major_faults, after.major_faults);
            add(&WORK[2], before.context_switches, after.context_switches);
        }
        if let (Ok(before), Ok(after)) = (&first.shootdowns, &last.shootdowns) {
            add(&SHOOTDOWNS, *before, *after);
        }
        samples
    }

    /// What could not be counted, with the reason.
    pub(crate) fn flags(&self) -> Vec<String> {
        let marks = || self.first.iter().chain(&self.last);
        let work = marks().find_map(|mark| mark.work.as_ref().err());
        let shootdowns = marks().find_map(|mark| mark.shootdowns.as_ref().err());
        let work = work.map(|why| format!("page faults and context switches of the server: not available: {why}"));
        work.into_iter().chain(shootdowns.map(|why| format!("TLB shootdowns: not available: {why}"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at_ns: u64, faults: u64, shootdowns: Result<u64, String>) -> Mark {
        let work = KernelWork { minor_faults: faults, major_faults: faults / 10, context_switches: 2 * faults };
        Mark { at_ns, work: Ok(work), shootdowns }
    }

    #[test]
    fn what_grew_between_two_marks_is_by_second_and_what_is_not_counted_has_its_reason() {
        let why = || Err("no row".to_owned());
        let mut counters = KernelCounters::of(Whose::Own, &[]);
        (counters.first, counters.last) = (Some(mark(0, 100, Ok(7))), Some(mark(2_000_000_000, 300, Ok(27))));
        let values: Vec<(String, f64)> =
            counters.samples().into_iter().map(|sample| (sample.metric, sample.value)).collect();
        let expected = [100.0, 10.0, 200.0, 10.0];
        assert_eq!(
            values,
            METRICS.iter().zip(expected).map(|(of, value)| (of.key.to_owned(), value)).collect::<Vec<_>>()
        );
        assert_eq!(counters.flags(), [""; 0]);
        counters.last = Some(mark(2_000_000_000, 300, why()));
        assert_eq!(counters.samples().len(), 3);
        assert_eq!(counters.flags(), ["TLB shootdowns: not available: no row"]);
    }

    #[test]
    fn an_external_server_has_no_counts_and_two_reasons() {
        let mut counters = KernelCounters::of(Whose::Unknown("the server is an external one"), &[0]);
        counters.mark();
        counters.mark();
        assert!(counters.samples().is_empty());
        assert_eq!(counters.flags().len(), 2);
    }

    #[test]
    fn this_process_is_counted() {
        let mut counters = KernelCounters::of(Whose::Own, &[]);
        counters.mark();
        let touched = vec![1_u8; 8 << 20];
        assert_eq!(touched.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 8 << 20);
        counters.mark();
        let faults = counters.samples().into_iter().find(|sample| sample.metric == WORK[0].key);
        assert!(faults.is_some_and(|sample| sample.value > 0.0));
    }
}
