//! Every kind of workload that this program has, by the crate that provides it. A new crate is one line here.

use baremark_agent::runner::Runners;

/// What agents of this program run, and what studies can name.
pub const RUNNERS: Runners = Runners { workloads: baremark_workloads::ALL, jobs: &[baremark_programs::ALL] };
