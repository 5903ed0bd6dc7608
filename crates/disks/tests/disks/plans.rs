//! Plans and targets that the tests share.

use baremark_disks::access::{BlockShare, Mix, Pattern};
use baremark_disks::engine::{Engine, Outcome, Plan, Ramp, Stop, run};
use baremark_disks::pace::Load;
use baremark_disks::target::{Cache, Place, Target};
use baremark_disks::writable::Consent;
use std::sync::atomic::AtomicBool;

const SIZE: u64 = 8 << 20;
pub(crate) const MS: u64 = 1_000_000;
/// Whatever takes longer than this hangs.
pub(crate) const LIMIT_NS: u64 = 120_000 * MS;
/// Of what ends by its number of operations, however slow the machine is.
pub(crate) const NO_LIMIT_NS: u64 = u64::MAX / 2;

pub(crate) fn plan() -> Plan {
    Plan {
        mix: Mix {
            pattern: Pattern::Random,
            blocks: vec![BlockShare { bytes: 4096, weight: 1.0 }],
            align: None,
            read_share: 0.5,
        },
        load: Load { rate: None, poisson: false, bursts: None },
        depth: 8,
        jobs: 1,
        sync_every: 0,
        durable: false,
        engine: Engine::IoUring,
        ramp: Ramp { least_ns: 0, steady: None, limit_ns: 0 },
        stop: Stop::After(200 * MS),
        ramp_down_ns: 0,
        cpus: Vec::new(),
        seed: 1,
    }
}

/// A filled file in the folder of temporary files; `O_DIRECT` where that has it.
pub(crate) fn target() -> Target {
    let place = Place::Folder(std::env::temp_dir());
    let open = |cache| Target::open(&place, SIZE, cache, Consent::NONE);
    let target = open(Cache::Direct).or_else(|_| open(Cache::Buffered)).unwrap();
    target.fill(1, None, &AtomicBool::new(false)).unwrap();
    target
}

pub(crate) fn outcome(plan: &Plan) -> Option<Outcome> {
    let target = target();
    if plan.engine == Engine::IoUring && Engine::probe(&target).is_err() {
        println!("skipped: io_uring is forbidden here");
        return None;
    }
    Some(run(plan, &target, None, &AtomicBool::new(false)).unwrap())
}
