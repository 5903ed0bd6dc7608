//! What the tests share: whether there is a KVM, and a program run natively and in the guest.

use baremark_guest_program::{Command, Report};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The program of this crate's tests.
pub const PROBE: &str = env!("CARGO_BIN_EXE_guest-probe");
/// No program of a test stands still for so long.
pub const STALL: Duration = Duration::from_secs(120);

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Whether programs can run here; if not that is said and counted.
pub fn has_kvm() -> bool {
    static ABSENT: OnceLock<Option<String>> = OnceLock::new();
    let absent = ABSENT.get_or_init(|| match std::fs::File::options().read(true).write(true).open("/dev/kvm") {
        Ok(_) => None,
        Err(why) => Some(format!("/dev/kvm: {why}")),
    });
    let Some(why) = absent else { return true };
    assert!(std::env::var_os("BAREMARK_REQUIRE_KVM").is_none(), "{why}, and BAREMARK_REQUIRE_KVM is set");
    skip(why);
    false
}

/// Says that a test is skipped, and why.
pub fn skip(why: &str) {
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    // Not by a macro: those are captured, and a skip must be seen.
    std::io::stderr().write_all(format!("skipped: {why} ({count} so far: {name})\n").as_bytes()).unwrap();
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

/// Runs natively and in the guest and demands the same.
pub fn same(program: &str, arguments: &[&str]) -> Report {
    let (found, report) = inside(command(program, arguments));
    let expected = natively(program, arguments);
    assert_eq!(found, expected, "left: in the guest, right: natively ({program} {arguments:?}) {report:?}");
    assert_eq!(report.counters.images, report.counters.images_in_guest, "every image was in the guest: {report:?}");
    report
}
