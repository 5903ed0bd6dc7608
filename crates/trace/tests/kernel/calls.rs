//! System calls of a process's descendants, compared with what a program is known to make.

use baremark_sys::namespace::FIRST_PROCESSES;
use baremark_sys::paging::{empty_call, identify};
use baremark_trace::calls::CallTrace;
use std::process::Command;

/// By which this process identifies itself.
const ARGUMENT: u32 = 0x5a17_0b3d;
/// What a shell writes, a call each.
const WRITES: u64 = 50;

#[test]
fn calls_of_descendants_are_counted_by_number_and_no_others() {
    let trace = match CallTrace::start(ARGUMENT) {
        Ok(trace) => trace,
        Err(why) => return println!("skipped: {why}"),
    };
    let calls_often = || (0..20_000).for_each(|_| empty_call());
    calls_often();
    assert_eq!(trace.choose().unwrap(), None, "nobody has identified itself");
    identify(ARGUMENT + 1);
    assert_eq!(trace.choose().unwrap(), None, "that was somebody else's");
    identify(ARGUMENT);
    let chosen = trace.choose().unwrap().unwrap();
    // Programs of the kernel know a process by its number in the machine's own namespace, which a test apart from it does not.
    let of_machine = std::fs::read_link("/proc/self/ns/pid").unwrap().as_os_str() == FIRST_PROCESSES;
    assert!(!of_machine || chosen == std::process::id(), "{chosen}");
    calls_often();
    assert_eq!(
        trace.counts().unwrap().get(&number(libc::SYS_getppid)),
        None,
        "the chosen process's own are not counted"
    );
    let script = format!("i=0; while [ $i -lt {WRITES} ]; do echo x; i=$((i + 1)); done");
    let output = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.stdout.len() as u64, 2 * WRITES);
    let counts = trace.counts().unwrap();
    let of = |call: i64| counts.get(&number(call)).copied().unwrap_or(0);
    assert_eq!(of(libc::SYS_write), WRITES, "{counts:?}");
    assert_eq!(of(libc::SYS_execve), 1, "{counts:?}");
    drop(trace);
}

fn number(call: i64) -> u32 {
    u32::try_from(call).unwrap()
}
