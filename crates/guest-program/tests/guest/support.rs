//! What the tests share: whether there is a KVM, and a program run natively and in the guest.

use baremark_guest_program::{Command, Report};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

/// The program of this crate's tests.
pub const PROBE: &str = env!("CARGO_BIN_EXE_guest-probe");
/// No program of a test stands still for so long.
pub const STALL: Duration = Duration::from_secs(120);

/// Whether programs can run here; if not that is printed.
pub fn has_kvm() -> bool {
    let Err(why) = std::fs::File::options().read(true).write(true).open("/dev/kvm") else { return true };
    assert!(std::env::var_os("BAREMARK_REQUIRE_KVM").is_none(), "/dev/kvm: {why}, and BAREMARK_REQUIRE_KVM is set");
    skip(&format!("/dev/kvm: {why}"));
    false
}

/// Whether a polling thread can have a CPU next to a program's; if not that is printed.
pub fn has_cpus() -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        skip("one CPU, and a polling thread needs another");
    }
    cpus >= 2 && has_kvm()
}

/// Prints that a test is skipped, and why.
pub fn skip(why: &str) {
    // Not by a macro: those are captured, and a skip must be seen.
    std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes()).unwrap();
}

/// How a program ended and what it wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: String,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn new(status: ExitStatus, stdout: &[u8], stderr: &[u8]) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let status = format!("{:?} {:?}", status.code(), status.signal());
        Ended { status, stdout: text(stdout), stderr: text(stderr) }
    }
}

/// Runs natively.
pub fn natively(program: &str, arguments: &[&str]) -> Ended {
    let output = std::process::Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    Ended::new(output.status, &output.stdout, &output.stderr)
}

/// A program in the guest, not yet started.
pub fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stall_limit(STALL);
    command
}

/// Runs in the guest.
pub fn inside(mut command: Command) -> (Ended, Report) {
    let output = command.output().unwrap();
    (Ended::new(output.report.status, &output.stdout, &output.stderr), output.report)
}

/// A program in the guest with a polling thread, not yet started.
pub fn polled(program: &str, arguments: &[&str]) -> Command {
    let mut polled = command(program, arguments);
    polled.exitless(true);
    polled
}

/// Runs natively and in the guest and demands the same.
pub fn same(program: &str, arguments: &[&str]) -> Report {
    let (found, report) = inside(command(program, arguments));
    let expected = natively(program, arguments);
    assert_eq!(found, expected, "left: in the guest, right: natively ({program} {arguments:?}) {report:?}");
    assert_eq!(report.counters.images, report.counters.images_in_guest, "every image was in the guest: {report:?}");
    report
}
