//! Programs as workloads: jobs that need an operating system and are run as a whole.
//!
//! `command` is any external program that a study describes; the others bring their own. All of them run in a private
//! folder under a keeper, which times them, bounds their output and leaves nothing behind. To add one, write its module
//! and add it to [`ALL`]; nothing else knows jobs by name.
#![forbid(unsafe_code)]

mod carried;
pub mod command;
pub mod compile;
mod counts;
pub mod density;
pub mod desktop;
pub mod echo;
pub mod executable;
pub mod heard;
mod inside;
pub mod keeper;
pub mod loader;
pub mod ping_pong;
pub mod protected;
pub mod reading;
pub mod run_folder;
pub mod runs;
mod server_failure;
pub mod sessions;
pub mod setup;
mod small_guest;
pub mod small_server;
pub mod start_up;
pub mod verified;
pub mod wakeup;
pub mod warehouse;
pub mod workshop;

use baremark_model::job::Job;

/// Every job that can be run in an agent.
pub const ALL: &[&dyn Job] = &[
    &command::Command,
    &compile::Compile,
    &warehouse::JvmWarehouse,
    &sessions::Sessions,
    &ping_pong::PingPong,
    &wakeup::Wakeup,
    &start_up::StartUp,
    &density::Density,
];
