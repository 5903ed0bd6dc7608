//! Protection of programs by checkpoints: what is asked, what a checkpoint costs, and what a run of `baremark protect` reports.

use crate::arm::ResolvedArm;
use crate::command::{LINK_DELAY, LINK_RATE, PROTECT};
use crate::knob::InvalidValue;
use crate::seam::Sample;
use crate::units::Nanos;
use crate::wire::Point;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Format and version of a report.
pub const FORMAT: (&str, u32) = ("baremark-protection", 2);
/// How much longer than requested an epoch may be on average before it counts as saturated.
const SATURATED: f64 = 1.1;

/// What is asked of protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The length of an epoch; `None` without protection.
    pub epoch: Option<Duration>,
    /// 10^6 bit/s of the link.
    pub link_mbit: u64,
    /// One-way delay of the link.
    pub link_delay: Duration,
}

impl Settings {
    /// Of an arm.
    ///
    /// # Errors
    /// When a parameter is of another kind than its row.
    pub fn of(arm: &ResolvedArm) -> Result<Settings, InvalidValue> {
        let epoch = match PROTECT.get::<String>(arm)?.as_str() {
            "none" => None,
            epoch => {
                let time =
                    epoch.parse::<Nanos>().map_err(|why| InvalidValue::new(why.to_string(), "write \"20 ms\""))?;
                Some(Duration::from_nanos(time.0))
            }
        };
        Ok(Settings { epoch, link_mbit: LINK_RATE.get(arm)?, link_delay: LINK_DELAY.get(arm)? })
    }
}

/// What protection costs here, in nanoseconds: the constants of the prediction, each of them measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// A changed page that no earlier checkpoint had: its copy, and what sending and applying it take from the program's CPUs and caches.
    pub new_page_ns: f64,
    /// A changed page that an earlier checkpoint had: the same, and the fault at its first write.
    pub page_ns: f64,
    /// A checkpoint of one process and few pages: the pause, and what the program loses before and after it.
    pub pause_ns: f64,
    /// Each further process of a checkpoint.
    pub process_ns: f64,
    /// A page that the copy has, changed or not, in each checkpoint: whether it was written is looked up, and its address translated anew.
    pub held_page_ns: f64,
    /// A stop of a thread between checkpoints, at which it waits for the primary: a process that begins, executes a program or gets a signal.
    pub event_ns: f64,
}

impl Costs {
    /// How many seconds protection has added to a run, by what was counted in it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of one run")]
    pub fn seconds(&self, report: &Report) -> f64 {
        let terms = [
            (report.new_pages, self.new_page_ns),
            (report.pages.saturating_sub(report.new_pages), self.page_ns),
            (report.epochs, self.pause_ns),
            (report.process_checkpoints.saturating_sub(report.epochs), self.process_ns),
            (report.held_pages, self.held_page_ns),
            (report.events, self.event_ns),
        ];
        terms.iter().map(|&(count, cost_ns)| count as f64 * cost_ns).sum::<f64>() * 1e-9
    }
}

/// What was counted while a program was protected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// Its version.
    pub version: u32,
    /// The requested length of an epoch; 0 without protection.
    pub requested_ns: u64,
    /// From the program's start to its end.
    pub wall_ns: u64,
    /// From the program's start to the end of its last checkpoint; what came after it is no whole epoch.
    pub checkpointed_ns: u64,
    /// Checkpoints.
    pub epochs: u64,
    /// Changed pages, the first checkpoint's, which has all, included.
    pub pages: u64,
    /// Pages of the first checkpoint.
    pub first_pages: u64,
    /// Changed pages that no earlier checkpoint had: they were not protected against writes.
    pub new_pages: u64,
    /// Pages that the copy has at each checkpoint, summed over checkpoints.
    pub held_pages: u64,
    /// Processes in each checkpoint, summed over checkpoints.
    pub process_checkpoints: u64,
    /// Stops of threads between checkpoints: processes and threads that began, executed programs, and signals.
    pub events: u64,
    /// Pages that could not be read.
    pub unreadable: u64,
    /// Processes whose memory was tracked.
    pub processes: u64,
    /// Processes that lived at a checkpoint and could not be tracked.
    pub untracked: u64,
    /// Bytes sent to the secondary.
    pub link_bytes: u64,
    /// How long the program stood, in all.
    pub paused_ns: u64,
    /// Median of the pauses; `None` without one.
    pub pause_p50_ns: Option<u64>,
    /// 99th percentile of the pauses; `None` below 368.
    pub pause_p99_ns: Option<u64>,
    /// The longest pause.
    pub pause_max_ns: u64,
    /// All pauses, as [`hdr::encoded`](crate::hdr::encoded) writes them; `None` without one.
    #[serde(default)]
    pub pauses: Option<String>,
    /// Time in which a checkpoint was due and the one before was not acknowledged.
    pub link_wait_ns: u64,
    /// Time in which a checkpoint was being sent.
    pub sending_ns: u64,
    /// From the beginning of a checkpoint's sending to its acknowledgement, in all.
    pub acknowledging_ns: u64,
    /// Processor time of the primary's side.
    pub cpu_ns: u64,
    /// Bytes of output that were released.
    pub released_bytes: u64,
    /// Checkpoints whose copy was compared with the program's memory.
    pub compared: u64,
    /// Those where it differed.
    pub different: u64,
}

impl Report {
    /// The mean time from one checkpoint to the next, in nanoseconds; `None` without one.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of one run")]
    pub fn period_ns(&self) -> Option<f64> {
        (self.epochs > 0).then(|| self.checkpointed_ns as f64 / self.epochs as f64)
    }

    /// Run time over that without protection, by the costs of pages and pauses; `None` where they are more than the run time.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of one run")]
    pub fn predicted_ratio(&self, costs: &Costs) -> Option<f64> {
        let wall_s = self.wall_ns as f64 * 1e-9;
        let without = wall_s - costs.seconds(self);
        (without > 0.0).then(|| wall_s / without)
    }

    /// The metrics of [`PROTECTED`](crate::command::PROTECTED); none without protection but the prediction, which is 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of one run")]
    pub fn samples(&self, costs: &Costs) -> Vec<Sample> {
        if self.requested_ns == 0 {
            return vec![Sample::new("predicted_ratio", 1.0)];
        }
        let (wall, epochs) = (self.wall_ns.max(1) as f64, self.epochs as f64);
        let mut samples = vec![
            Sample::new("epochs", epochs),
            Sample::new("paused_percent", 100.0 * self.paused_ns as f64 / wall),
            Sample::new("link_mbit_per_s", self.link_bytes as f64 * 8e3 / wall),
            Sample::new("link_use_percent", 100.0 * self.sending_ns as f64 / wall),
            Sample::new("protection_cpus", self.cpu_ns as f64 / wall),
        ];
        if let Some(period) = self.period_ns() {
            samples.push(Sample::new("pages_per_epoch", self.pages as f64 / epochs));
            samples.push(Sample::new("mb_per_epoch", self.link_bytes as f64 / epochs * 1e-6));
            samples.push(Sample::new("epoch_ms", period * 1e-6));
        }
        let pauses = [("pause_us", self.pause_p50_ns), ("pause_p99_us", self.pause_p99_ns)];
        samples
            .extend(pauses.iter().filter_map(|(key, pause)| pause.map(|pause| Sample::new(*key, pause as f64 * 1e-3))));
        samples.extend(self.predicted_ratio(costs).map(|ratio| Sample::new("predicted_ratio", ratio)));
        samples
    }

    /// The distribution of the pauses, of which the 99th percentile is a metric; `None` without protection.
    #[must_use]
    pub fn point(&self) -> Option<Point> {
        let pauses = self.pauses.clone().filter(|_| self.requested_ns > 0)?;
        Some(Point::new("pauses", (0, self.wall_ns), Vec::new(), Some(pauses)).of(&["pause_us"]))
    }

    /// What a reader should know though the run counts.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of an epoch")]
        let requested = self.requested_ns as f64;
        if self.requested_ns > 0 && self.epochs > 1 && self.period_ns().is_some_and(|is| is > requested * SATURATED) {
            let limit = if self.link_wait_ns > self.paused_ns { "the link saturates" } else { "the pauses saturate" };
            flags.push(format!("epochs are longer than {}: {limit}", Nanos(self.requested_ns)));
        }
        if self.untracked > 0 {
            flags.push(format!("{} processes could not be tracked and were not copied", self.untracked));
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percentile::Percentile;

    fn report() -> Report {
        Report {
            requested_ns: 20_000_000,
            wall_ns: 1_000_000_000,
            checkpointed_ns: 1_000_000_000,
            epochs: 40,
            pages: 100_000,
            paused_ns: 120_000_000,
            pause_p50_ns: Some(3_000_000),
            link_bytes: 400_000_000,
            ..Report::default()
        }
    }

    #[test]
    fn pages_times_their_cost_and_epochs_times_their_pause_are_the_predicted_time() {
        let costs = Costs {
            new_page_ns: 1_000.0,
            page_ns: 1_500.0,
            pause_ns: 250_000.0,
            process_ns: 100_000.0,
            held_page_ns: 20.0,
            event_ns: 40_000.0,
        };
        assert!((costs.seconds(&report()) - 0.16).abs() < 1e-12);
        // 0.16 s of 1 s: without protection 0.84 s.
        let ratio = report().predicted_ratio(&costs).expect("a ratio");
        assert!((ratio - 1.0 / 0.84).abs() < 1e-12, "{ratio}");
        // 20 ms less for new pages, 6 ms more for 60 further processes in checkpoints, 2 ms for pages that are held, 12 ms for stops.
        let busy = Report { new_pages: 40_000, process_checkpoints: 100, held_pages: 100_000, events: 300, ..report() };
        assert!((costs.seconds(&busy) - 0.16).abs() < 1e-12, "{}", costs.seconds(&busy));
        let impossible = Costs { page_ns: 15_000.0, ..costs };
        assert_eq!(report().predicted_ratio(&impossible), None);
    }

    #[test]
    fn samples_are_those_of_the_table_and_without_protection_only_the_prediction() {
        let costs = Costs::default();
        let samples = report().samples(&costs);
        let of = |key: &str| samples.iter().find(|sample| sample.metric == key).map(|sample| sample.value);
        assert_eq!((of("pages_per_epoch"), of("mb_per_epoch"), of("epoch_ms")), (Some(2500.0), Some(10.0), Some(25.0)));
        assert_eq!((of("link_mbit_per_s"), of("pause_us"), of("pause_p99_us")), (Some(3200.0), Some(3000.0), None));
        assert!(
            samples.iter().all(|sample| crate::command::PROTECTED.iter().any(|metric| metric.key == sample.metric))
        );
        let none = Report { requested_ns: 0, ..report() }.samples(&costs);
        assert_eq!((none.len(), none[0].value), (1, 1.0));
    }

    /// Percentiles of several trials are those of all their samples, for which each must be stored.
    #[test]
    fn the_percentile_of_pauses_has_its_distribution() {
        let report = Report { pauses: Some("pauses".to_owned()), pause_p99_ns: Some(5_000_000), ..report() };
        let point = report.point().expect("pauses");
        let samples = report.samples(&Costs::default());
        let percentiles: Vec<Percentile> = samples.iter().filter_map(|one| Percentile::of_key(&one.metric)).collect();
        assert_eq!(percentiles.len(), 1);
        assert_eq!((point.distributions, point.end_ns), (vec![percentiles[0].of.clone()], 1_000_000_000));
        assert_eq!(Report { requested_ns: 0, ..report }.point(), None);
    }

    #[test]
    fn an_epoch_that_cannot_be_kept_is_labelled_with_what_is_too_slow() {
        assert_eq!(report().flags(), ["epochs are longer than 20 ms: the pauses saturate"]);
        let link = Report { link_wait_ns: 500_000_000, untracked: 2, ..report() };
        let flags = link.flags();
        assert_eq!(flags[0], "epochs are longer than 20 ms: the link saturates");
        assert_eq!(flags[1], "2 processes could not be tracked and were not copied");
        assert_eq!(Report { epochs: 47, ..report() }.flags(), [""; 0]);
        // Two whole epochs of 20 ms, and then 18 ms until the program's end.
        let kept = Report { epochs: 2, checkpointed_ns: 41_000_000, wall_ns: 59_000_000, ..report() };
        assert_eq!(kept.flags(), [""; 0]);
    }
}
