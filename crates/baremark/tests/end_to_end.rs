//! The program as its users meet it: one binary, real agents, a real store, and everything that can go wrong.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::allow_attributes,
    unsafe_code,
    missing_docs,
    reason = "a test crate"
)]

#[path = "end_to_end/ab.rs"]
mod ab;
#[path = "end_to_end/around.rs"]
mod around;
#[path = "end_to_end/audit.rs"]
mod audit;
#[path = "end_to_end/before_work.rs"]
mod before_work;
#[path = "end_to_end/bench.rs"]
mod bench;
#[path = "end_to_end/bundles.rs"]
mod bundles;
#[path = "end_to_end/causes.rs"]
mod causes;
#[path = "end_to_end/changes.rs"]
mod changes;
#[path = "end_to_end/ci.rs"]
mod ci;
#[path = "end_to_end/comparing.rs"]
mod comparing;
#[path = "end_to_end/concurrent.rs"]
mod concurrent;
#[path = "end_to_end/consolidation.rs"]
mod consolidation;
#[path = "end_to_end/database_settings.rs"]
mod database_settings;
#[path = "end_to_end/databases.rs"]
mod databases;
#[path = "end_to_end/elsewhere.rs"]
mod elsewhere;
#[path = "end_to_end/emulated.rs"]
mod emulated;
#[path = "end_to_end/environments.rs"]
mod environments;
#[path = "end_to_end/failover.rs"]
mod failover;
#[path = "end_to_end/faults.rs"]
mod faults;
#[path = "end_to_end/gate.rs"]
mod gate;
#[path = "end_to_end/golden.rs"]
mod golden;
#[path = "end_to_end/gpu.rs"]
mod gpu;
#[path = "end_to_end/guest.rs"]
mod guest;
#[path = "end_to_end/guide.rs"]
mod guide;
#[path = "end_to_end/host.rs"]
mod host;
#[path = "end_to_end/import.rs"]
mod import;
#[path = "end_to_end/input.rs"]
mod input;
#[path = "end_to_end/kills.rs"]
mod kills;
#[path = "end_to_end/load.rs"]
mod load;
#[path = "end_to_end/nodes.rs"]
mod nodes;
#[path = "end_to_end/pages.rs"]
mod pages;
#[path = "end_to_end/predict.rs"]
mod predict;
#[path = "end_to_end/programs.rs"]
mod programs;
#[path = "end_to_end/protection.rs"]
mod protection;
#[path = "end_to_end/results.rs"]
mod results;
#[path = "end_to_end/run_in.rs"]
mod run_in;
#[path = "end_to_end/scale.rs"]
mod scale;
#[path = "end_to_end/schemas.rs"]
mod schemas;
#[path = "end_to_end/serving.rs"]
mod serving;
#[path = "end_to_end/setup.rs"]
mod setup;
#[path = "end_to_end/shipped.rs"]
mod shipped;
#[path = "end_to_end/sites.rs"]
mod sites;
#[path = "end_to_end/supervision.rs"]
mod supervision;
#[path = "end_to_end/tiers.rs"]
mod tiers;
#[path = "end_to_end/tracing.rs"]
mod tracing;
#[path = "end_to_end/turns.rs"]
mod turns;
#[path = "end_to_end/verify_host.rs"]
mod verify_host;
#[path = "end_to_end/workloads.rs"]
mod workloads;
