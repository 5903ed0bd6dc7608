//! Waiting for a quiet machine before anything is measured (`--wait-quiet`).

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch::say;
use baremark_sys::cpu_time::CpuTime;
use baremark_sys::cpu_users::{CpuUsers, outermost_of_this_program};
use baremark_sys::wake::sleep_unless;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long CPUs are looked at at once.
const WINDOW: Duration = Duration::from_secs(1);
/// The machine is quiet after so many windows, one after the other, in which less than this share of all CPUs was used. What an idle desktop does is below it.
const WINDOWS: u32 = 3;
const QUIET: f64 = 0.05;
/// Programs that are named.
const NAMED: usize = 3;

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Quiet,
    /// The time is over; this share of the CPUs was used in the last window.
    Busy(f64),
    Interrupted,
}

/// Where the user wants it, waits until the CPUs of this machine are idle, for the time given at most. After that the run begins anyway, with a warning.
pub fn wait(context: &Context) -> Result<(), Refusal> {
    let Some(limit) = context.wait_quiet else { return Ok(()) };
    let (mut users, mut told) = (Vec::new(), false);
    let mut window = || {
        let (before, programs, begun) = (CpuTime::now().ok(), CpuUsers::now().ok(), Instant::now());
        if !sleep_unless(|| context.interrupt.load(Ordering::Relaxed), WINDOW) {
            return None;
        }
        let lasted = begun.elapsed();
        // Where the kernel does not count, nothing is known to be busy.
        let share = before.zip(CpuTime::now().ok()).and_then(|(before, now)| now.share_since(&before)).unwrap_or(0.0);
        let own = BTreeSet::from([outermost_of_this_program()]);
        let apart = programs.zip(CpuUsers::now().ok()).map(|(before, now)| now.apart_from(&before, &own));
        users = named(&apart.unwrap_or_default(), lasted);
        if share >= QUIET && !told {
            say(format_args!("waiting until the CPUs are idle, at most {limit}: {}", used(share, &users)));
            told = true;
        }
        Some((share, lasted))
    };
    let end = watched(Duration::from_nanos(limit.0), &mut window);
    match end {
        End::Quiet => Ok(()),
        End::Busy(share) => {
            say(format_args!(
                "warning: {} after {limit} of waiting (--wait-quiet); the run begins now",
                used(share, &users)
            ));
            Ok(())
        }
        End::Interrupted => {
            let message = "interrupted while waiting for idle CPUs".to_owned();
            Err(Refusal { exit: Exit::Interrupted, message })
        }
    }
}

/// Looks at windows until enough of them were quiet or `limit` is over; `window` says what share of the CPUs was used and how long it lasted, `None` when the user
/// interrupts.
fn watched(limit: Duration, window: &mut dyn FnMut() -> Option<(f64, Duration)>) -> End {
    let (mut quiet, mut waited) = (0, Duration::ZERO);
    loop {
        let Some((share, lasted)) = window() else { return End::Interrupted };
        waited += lasted;
        quiet = if share < QUIET { quiet + 1 } else { 0 };
        if quiet == WINDOWS {
            return End::Quiet;
        }
        // Windows that are quiet may be the last: at most two more.
        if waited >= limit && quiet == 0 {
            return End::Busy(share);
        }
    }
}

/// The programs that used most, with their shares of one CPU.
fn named(programs: &[(String, f64)], lasted: Duration) -> Vec<String> {
    let share = |seconds: f64| 100.0 * seconds / lasted.as_secs_f64().max(1e-9);
    programs.iter().take(NAMED).map(|(name, seconds)| format!("{name} {:.0} %", share(*seconds))).collect()
}

/// "37 % of the CPUs are in use (of one CPU: cc1 61 %, make 9 %)".
fn used(share: f64, programs: &[String]) -> String {
    let programs = if programs.is_empty() { String::new() } else { format!(" (of one CPU: {})", programs.join(", ")) };
    format!("{:.0} % of the CPUs are in use{programs}", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::units::Nanos;
    use clap::Parser;

    #[test]
    fn the_time_is_ten_minutes_unless_it_is_given_and_no_command_is_taken_for_it() {
        let of = |option: &str| {
            let cli = crate::Cli::try_parse_from(["baremark", option, "run", "standard"]).expect("a command line");
            assert!(cli.command.is_some(), "{option}");
            cli.common.wait_quiet
        };
        assert_eq!(of("--wait-quiet"), Some(Nanos(600_000_000_000)));
        assert_eq!(of("--wait-quiet=2min"), Some(Nanos(120_000_000_000)));
        assert_eq!(of("--quiet"), None);
    }

    /// How waiting for 10 s ends with windows of these shares, of a second each, and how many it took.
    fn ended(shares: &[f64]) -> (End, usize) {
        let mut taken = 0;
        let end = watched(Duration::from_secs(10), &mut || {
            taken += 1;
            shares.get(taken - 1).map(|share| (*share, WINDOW))
        });
        (end, taken)
    }

    #[test]
    fn three_quiet_windows_in_a_row_end_it() {
        assert_eq!(ended(&[0.0; 9]), (End::Quiet, 3));
        assert_eq!(ended(&[0.9, 0.04, 0.04, 0.5, 0.04, 0.04, 0.04, 0.9]), (End::Quiet, 7));
    }

    #[test]
    fn its_time_and_an_interrupt_end_it_too() {
        assert_eq!(ended(&[0.5; 20]), (End::Busy(0.5), 10));
        // What is quiet when the time is over is looked at until it is quiet for long enough, or no longer.
        let mut late = [0.5; 12];
        late[8..].fill(0.01);
        assert_eq!(ended(&late), (End::Quiet, 11));
        late[10] = 0.6;
        assert_eq!(ended(&late), (End::Busy(0.6), 11));
        assert_eq!(ended(&[0.5, 0.0]), (End::Interrupted, 3));
    }

    #[test]
    fn programs_are_named_with_what_they_use() {
        let programs =
            [("cc1", 1.22), ("make", 0.18), ("sh", 0.1), ("awk", 0.02)].map(|(name, s)| (name.to_owned(), s));
        let named = named(&programs, Duration::from_secs(2));
        assert_eq!(used(0.374, &named), "37 % of the CPUs are in use (of one CPU: cc1 61 %, make 9 %, sh 5 %)");
        assert_eq!(used(0.374, &[]), "37 % of the CPUs are in use");
    }
}
