//! Latencies of a guest's disks as its hypervisor counts them, phase by phase, put into the result of the trial.

use baremark_model::disk_latency::{DiskLatency, document, points, samples};
use baremark_model::site::Site;
use baremark_model::wire::TrialResult;

/// The key of a phase's detail under which they are.
const KEY: &str = "qemu";

/// What was counted in the phases of a trial; nothing where the site has no hypervisor that counts.
#[derive(Default)]
pub(crate) struct DiskCounts {
    counts: bool,
    phases: Vec<(usize, Vec<DiskLatency>)>,
    failure: Option<String>,
}

impl DiskCounts {
    /// The data are written, and the phases begin.
    pub(crate) fn begin(&mut self, site: &mut dyn Site) {
        match site.count_disks() {
            Ok(counts) => self.counts = counts,
            Err(why) => self.failure = Some(why.to_string()),
        }
    }

    /// The phase at `position` is over.
    pub(crate) fn phase_done(&mut self, site: &mut dyn Site, position: usize) {
        if !self.counts {
            return;
        }
        match site.disks_counted() {
            Ok(counted) => self.phases.push((position, counted)),
            Err(why) => (self.counts, self.failure) = (false, Some(why.to_string())),
        }
    }

    /// Metrics and bins of each phase; why there are none where counting failed.
    pub(crate) fn put_into(self, result: &mut TrialResult) {
        for (position, counted) in &self.phases {
            let Some(series) = result.series.iter_mut().find(|series| series.phase == *position) else { continue };
            series.samples.extend(samples(counted));
            series.points.extend(points(counted, series.end_ns.saturating_sub(series.begin_ns)));
            if let Some(detail) = series.detail.as_mut().and_then(|detail| detail.document.as_object_mut()) {
                detail.insert(KEY.to_owned(), document(counted));
            }
        }
        let why =
            self.failure.map(|why| format!("latencies of disks as the hypervisor counts them are missing: {why}"));
        result.flags.extend(why);
    }
}
