//! `baremark guest`: a program in the microVM.
//!
//! Without a file for its counters this process becomes the program. With one it waits for the program, writes the counters,
//! and ends as the program has ended.

use crate::exit::{Exit, Refusal};
use baremark_guest_program::{Command, Costs, Error};
use baremark_model::page_size::PageSize;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark guest -- gzip -9 -c data > /dev/null
  baremark guest --stats counters.json -- ./prog   # calls, exits, faults
  baremark run --in native,microvm -- ./prog       # compared with native";

#[derive(Args)]
pub struct GuestArgs {
    /// Page size of the guest's leaf entries: 4k or 2m
    #[arg(long, value_name = "SIZE", default_value = "2m", value_parser = page_size)]
    guest_page: PageSize,
    /// Page size by which the host backs the program's memory: 4k or 2m [default: the kernel's and the program's own choice]
    #[arg(long, value_name = "SIZE", value_parser = page_size)]
    host_backing: Option<PageSize>,
    /// The most virtual processors of a process [default: as many as KVM gives]
    #[arg(long, value_name = "COUNT")]
    vcpus: Option<u32>,
    /// Answer system calls by a polling thread on a CPU of its own, without an exit: off or on
    #[arg(long, value_name = "STATE", default_value = "off", value_parser = ["off", "on"])]
    exitless: String,
    /// Give the program private memory when it maps it, not when it first touches it: off or on
    #[arg(long, value_name = "STATE", default_value = "off", value_parser = ["off", "on"])]
    prefault: String,
    /// Write counters to this file as JSON when the program has ended
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// With --stats: kill the program when it has not ended after this many seconds and report where its threads stood
    #[arg(long, value_name = "SECONDS", requires = "stats", value_parser = seconds)]
    time_limit: Option<Duration>,
    /// Instead: print what a forwarded system call and another exit cost here, as JSON
    #[arg(long)]
    pub costs: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required_unless_present = "costs")]
    program: Vec<OsString>,
}

fn page_size(text: &str) -> Result<PageSize, String> {
    PageSize::from_label(text).ok_or_else(|| format!("no page size: '{text}'; use 4k or 2m"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|limit| !limit.is_zero()).ok_or_else(|| format!("no duration: '{text}'; use seconds such as 2.5"))
}

/// What leaving the guest costs, as a line of JSON.
pub fn costs(args: &GuestArgs) -> Result<(String, Exit), Refusal> {
    let missing = |why: Error| Refusal { exit: Exit::Missing, message: why.to_string() };
    let costs = Costs::measure_with(args.guest_page).map_err(missing)?;
    Ok((serde_json::to_string(&costs).map_err(Refusal::failure)? + "\n", Exit::Success))
}

/// Runs the program.
pub fn run(args: &GuestArgs) -> Result<Exit, Refusal> {
    let Some((program, arguments)) = args.program.split_first() else {
        return Err(Refusal::bad_input("no program: name one after --"));
    };
    let mut command = Command::new(program);
    command.args(arguments).guest_page(args.guest_page).exitless(args.exitless == "on");
    command.prefault(args.prefault == "on");
    if let Some(page) = args.host_backing {
        command.host_backing(page);
    }
    if let Some(most) = args.vcpus {
        command.most_vcpus(most);
    }
    let refused = |why: Error| match why {
        Error::Runner(_) | Error::NoCpuToPoll { .. } => Refusal { exit: Exit::Missing, message: why.to_string() },
        why => Refusal::failure(why),
    };
    let Some(stats) = &args.stats else { return Err(refused(command.exec())) };
    if let Some(limit) = args.time_limit {
        command.time_limit(limit);
    }
    let report = command.status().map_err(refused)?;
    let json = report.counters.to_json().map_err(Refusal::failure)?;
    std::fs::write(stats, json + "\n")
        .map_err(|why| Refusal::failure(format!("writing {}: {why}", stats.display())))?;
    Ok(Exit::Program(report.status.code().unwrap_or_else(|| 128 + report.status.signal().unwrap_or(0))))
}
