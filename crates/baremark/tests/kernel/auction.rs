//! Pressure by tier, where control groups of version 2 can be made.

use crate::common::bench::{Bench, root};
use crate::common::tiers::{document, ran, sound};
use std::path::Path;

#[test]
fn the_pressure_of_a_tier_is_reported() {
    if !root() {
        return;
    }
    if !["/sys/fs/cgroup/unified/io.pressure", "/sys/fs/cgroup/io.pressure"].iter().any(|file| Path::new(file).exists())
    {
        return eprintln!("skipped: no control groups of version 2 that know pressure");
    }
    let few = ["load.users=10", "load.warm_up=1 s", "load.duration=3 s", "limits.mix=900 %"];
    let result = document(&ran(&Bench::new(), &few, &[]));
    let waits = &sound(&result)["load"]["waits"];
    for key in ["app.cpu_stall", "app.memory_stall", "app.io_stall"] {
        let share = waits[key].as_f64().unwrap_or(-1.0);
        assert!((0.0..=1.0).contains(&share), "{key}: {waits}");
    }
}
