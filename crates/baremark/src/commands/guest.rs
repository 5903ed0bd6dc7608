//! `baremark guest`: a program in the microVM.
//!
//! Without a file for its counters this process becomes the program. With one it waits for the program, writes the counters,
//! and ends as the program has ended.

use crate::exit::{Exit, Refusal};
use baremark_guest_program::{Command, Costs, Error};
use baremark_model::arm::PageSize;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub struct GuestArgs {
    /// Page size of the guest's leaf entries: 4k or 2m
    #[arg(long, value_name = "SIZE", default_value = "2m", value_parser = page_size)]
    guest_page: PageSize,
    /// The most virtual processors of a process [default: as many as KVM gives]
    #[arg(long, value_name = "COUNT")]
    vcpus: Option<u32>,
    /// Write counters to this file as JSON when the program has ended
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// With --stats: kill the program after this many seconds without progress and report where its threads stood
    #[arg(long, value_name = "SECONDS", requires = "stats")]
    stall_limit: Option<u64>,
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
    command.args(arguments).guest_page(args.guest_page);
    if let Some(most) = args.vcpus {
        command.most_vcpus(most);
    }
    let Some(stats) = &args.stats else { return Err(Refusal::failure(command.exec())) };
    if let Some(seconds) = args.stall_limit {
        command.stall_limit(Duration::from_secs(seconds));
    }
    let report = command.status().map_err(|why| match why {
        Error::Runner(_) => Refusal { exit: Exit::Missing, message: why.to_string() },
        why => Refusal::failure(why),
    })?;
    let json = report.counters.to_json().map_err(Refusal::failure)?;
    std::fs::write(stats, json + "\n")
        .map_err(|why| Refusal::failure(format!("writing {}: {why}", stats.display())))?;
    Ok(Exit::Program(report.status.code().unwrap_or_else(|| 128 + report.status.signal().unwrap_or(0))))
}
