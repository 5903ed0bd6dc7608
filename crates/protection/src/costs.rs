//! What protection costs here: the constants of the prediction, `pages x cost + epochs x pause + stops x cost`.
//!
//! Programs run without and with protection in turns, on the CPUs of the work, with as many threads as the work keeps busy. What is added to
//! their run time, divided by the number of pages, checkpoints or stops, is the cost of one. So a cost contains the fault at a page's first
//! write, the time until a stopped program runs again, the caches that it finds empty then, and the CPU time that sending and the secondary
//! take from it where no CPU is idle. Costs are measured in every trial, so that the noise of one measurement is not that of all.
//!
//! For a program in the microVM the programs run there, too. They use fewer pages there: each checkpoint takes the program's memory out of the
//! microVM's tables, so that after it a page that is only read is a fault, too.

use baremark_model::protection::{Costs, Report};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Turns, of which each cost is the median.
const ROUNDS: usize = 3;
/// An epoch of programs that write few pages: a short one, so that pauses are a large part of the time.
const SHORT_US: u64 = 2_000;
/// An epoch of programs that write many.
const LONG_US: u64 = 10_000;
/// An epoch that no program reaches.
const NEVER_US: u64 = 60_000_000;
/// Processes that wait next to a program.
const WAITING: u32 = 8;

/// A program that is measured with.
struct Program {
    /// The arguments of `baremark protect` without those of its threads.
    arguments: &'static [&'static str],
    /// The shortest epoch.
    epoch_us: u64,
    /// Pages that it uses again after a checkpoint.
    pages: u64,
}

const fn program(arguments: &'static [&'static str], epoch_us: u64, pages: u64) -> Program {
    Program { arguments, epoch_us, pages }
}

/// The programs that costs are measured with.
struct Programs {
    /// Writes few pages again and again: its epochs cost their pause.
    few: Program,
    /// Many pages again and again.
    many: Program,
    /// Few pages, and reads many that it does not write again.
    holding: Program,
    /// Pages that it never wrote before.
    new: Program,
    /// Starts processes.
    starting: Program,
}

/// Those that run natively.
static NATIVE: Programs = Programs {
    few: program(&["--write", "16", "--passes", "3000"], SHORT_US, 16),
    many: program(&["--write", "2048", "--passes", "1500"], LONG_US, 2048),
    holding: program(&["--write", "16", "--passes", "1500", "--held", "8192"], SHORT_US, 16),
    new: program(&["--write", "20", "--passes", "1500", "--new"], LONG_US, 20),
    starting: program(&["--start", "60"], NEVER_US, 0),
};

/// Those that run in the microVM. Their epochs are longer where a fault takes long ([`Place::epoch_us`]).
static IN_GUEST: Programs = Programs {
    few: program(&["--write", "16", "--passes", "2000"], SHORT_US, 16),
    many: program(&["--write", "256", "--passes", "1500"], LONG_US, 256),
    holding: program(&["--write", "16", "--passes", "1500", "--held", "512"], LONG_US, 528),
    new: program(&["--write", "20", "--passes", "1000", "--new"], LONG_US, 20),
    starting: program(&["--start", "8"], NEVER_US, 0),
};

/// The CPUs of the programs, and their threads.
struct Place<'p> {
    baremark: &'p Path,
    cpus: &'p [usize],
    threads: usize,
    /// The words before each program; none natively.
    before: &'p [OsString],
    /// What the first use of a page after a checkpoint takes at most, where it is that long that epochs must be longer.
    fault_us: u64,
}

/// Measures them with so many threads on these CPUs (none for any); `baremark` is this program, and `before` are the words that have a program
/// run in the microVM, such as `baremark guest --`, or none.
///
/// # Errors
/// When the programs cannot be run or protected.
pub fn measure(baremark: &Path, cpus: &[usize], threads: usize, before: &[OsString]) -> io::Result<Costs> {
    let mut place = Place { baremark, cpus, threads, before, fault_us: 0 };
    if !before.is_empty() {
        place.fault_us = place.fault_in_guest_us()?;
    }
    let rounds: Vec<Costs> = (0..ROUNDS).map(|_| place.round()).collect::<io::Result<_>>()?;
    let median = |of: fn(&Costs) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        // Below zero is noise about nothing.
        values.get(values.len() / 2).copied().unwrap_or_default().max(0.0)
    };
    Ok(Costs {
        new_page_ns: median(|costs| costs.new_page_ns),
        page_ns: median(|costs| costs.page_ns),
        pause_ns: median(|costs| costs.pause_ns),
        process_ns: median(|costs| costs.process_ns),
        held_page_ns: median(|costs| costs.held_page_ns),
        event_ns: median(|costs| costs.event_ns),
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of short runs")]
impl Place<'_> {
    fn round(&self) -> io::Result<Costs> {
        let in_guest = !self.before.is_empty();
        let programs = if in_guest { &IN_GUEST } else { &NATIVE };
        let per = |nanos: f64, count: u64| nanos / count.max(1) as f64;
        let (few, added) = self.pair(&programs.few)?;
        let pause_ns = per(added, few.epochs);
        // Of most pauses, for the first one has all pages of all processes.
        let pause_of = |report: &Report| report.pause_p50_ns.map_or(0.0, |pause| pause as f64);
        let few_us = self.epoch_us(&programs.few);
        let waiting = self.run(programs.few.arguments, few_us, &["--waiting", &WAITING.to_string()])?;
        let without_pauses = |report: &Report, added: f64| added - report.epochs as f64 * pause_ns;
        let (holding, added) = self.pair(&programs.holding)?;
        let held_page_ns = per(without_pauses(&holding, added), holding.held_pages);
        let by_page = |program, new: bool| {
            let (report, added) = self.pair(program)?;
            let pages = if new { report.new_pages } else { report.pages - report.new_pages };
            // In the microVM that is what a page costs that is read again, and those of these programs are not.
            let holding = if in_guest { 0.0 } else { report.held_pages as f64 * held_page_ns };
            io::Result::Ok(per(without_pauses(&report, added) - holding, pages))
        };
        let (starting, added) = self.pair(&programs.starting)?;
        Ok(Costs {
            new_page_ns: by_page(&programs.new, true)?,
            page_ns: by_page(&programs.many, false)?,
            pause_ns,
            process_ns: (pause_of(&waiting) - pause_of(&few)) / f64::from(WAITING),
            held_page_ns,
            event_ns: per(added, starting.events),
        })
    }

    /// An epoch of which faults leave half for the work: where all of it went into faults, a program would fault on every page that it uses, and not end.
    fn epoch_us(&self, program: &Program) -> u64 {
        program.epoch_us.max(2 * program.pages * self.fault_us)
    }

    /// What a page that is copied adds to the run time of the program that writes few, its share of the pauses included. Of so many pages that the noise of one run is little.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a second")]
    fn fault_in_guest_us(&self) -> io::Result<u64> {
        let (report, added_ns) = self.pair(&IN_GUEST.few)?;
        Ok((added_ns / report.pages.max(1) as f64 / 1000.0).clamp(0.0, 1e6) as u64)
    }

    /// What was counted of a program under protection, and how many nanoseconds that added to its run time.
    fn pair(&self, program: &Program) -> io::Result<(Report, f64)> {
        let without = self.run(program.arguments, 0, &[])?;
        let report = self.run(program.arguments, self.epoch_us(program), &[])?;
        let added = report.wall_ns as f64 - without.wall_ns as f64;
        Ok((report, added))
    }

    fn run(&self, arguments: &[&str], epoch_us: u64, further: &[&str]) -> io::Result<Report> {
        let mut command = Command::new(self.baremark);
        command.args(["protect", "--epoch-us", &epoch_us.to_string(), "--stats", "-"]);
        if !self.cpus.is_empty() {
            let list = self.cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            command.args(["--cpus", &list]);
        }
        command.arg("--").args(self.before).arg(self.baremark).arg("protect").args(arguments);
        command.args(["--workers", &self.threads.to_string()]).args(further);
        let output = command.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: ").to_owned();
            return Err(io::Error::other(why));
        }
        serde_json::from_slice(&output.stdout).map_err(io::Error::other)
    }
}
