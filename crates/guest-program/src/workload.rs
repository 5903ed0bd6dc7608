//! `vm-exit` as a workload of studies: what leaving a guest and entering it again costs here.

use crate::costs::{Cost, Costs};
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::Descriptor;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Sample;

/// The jobs of this crate.
pub const ALL: &[&dyn Job] = &[&VmExit];

const fn metric(key: &'static str, help: &'static str) -> Metric {
    Metric::lower(key, "ns", Aggregate::Mean).help(help)
}

static METRICS: [Metric; 3] = [
    metric("exit_ns", "leaving the guest and entering it again: a forwarded system call less the same call natively"),
    metric("forwarded_call_ns", "a system call (getppid) of a program in the microVM, carried out by the host"),
    metric("native_call_ns", "the same call natively"),
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "vm-exit",
    help: "cost of an exit from a virtual machine to this program and back, which /dev/kvm makes",
    source: "this program",
    parameters: &[],
    metrics: &METRICS,
    ..Descriptor::JOB
};

/// The cost of an exit.
#[derive(Clone, Copy, Debug)]
pub struct VmExit;

impl Job for VmExit {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, _: &'s ResolvedArm, _: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        Ok(Box::new(PreparedCosts))
    }
}

struct PreparedCosts;

impl ReadyJob for PreparedCosts {
    fn run(&mut self) -> Result<JobRun, JobError> {
        let costs = Costs::measure().map_err(|why| JobError::Missing {
            what: why.to_string(),
            remedy: "run it where /dev/kvm can be opened, which a container or an unprivileged user may not have"
                .to_owned(),
        })?;
        let sample = |metric: &str, cost: Cost| Sample::new(metric, cost.ns);
        Ok(JobRun {
            samples: vec![
                sample("exit_ns", costs.exit),
                sample("forwarded_call_ns", costs.call),
                sample("native_call_ns", costs.native_call),
            ],
            checked: "a program of its own ran in the guest and natively".to_owned(),
            ..JobRun::default()
        })
    }
}
