//! A program for the tests of this crate, run natively and in the guest: what it prints must be the same.
//!
//! `guest-probe NAME [ARGUMENT]`. Each part prints results of calls, numbers of errors and what handlers were told, and no
//! address, number of a process or time.
#![expect(unsafe_code, reason = "system calls, signal handlers, accesses that fail on purpose")]
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program whose output is compared")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "x86-64 only; numbers of system calls and their arguments are registers"
)]

mod accidents;
mod counting;
mod faults;
mod own_files;
mod polling;
mod processes;
mod random;
mod sequences;
mod signals;
mod threads;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let part = arguments.next().unwrap_or_default();
    let number = |text: Option<String>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
    match part.as_str() {
        "accidents" => accidents::run(),
        "backed" => processes::backed(),
        "counting" => counting::run(number(arguments.next()), number(arguments.next())),
        "alone" => counting::alone(number(arguments.next())),
        "forbidden" => counting::forbidden(),
        "own-files" => own_files::run(),
        "faults" => faults::run(),
        "polling" => polling::run(number(arguments.next()), number(arguments.next())),
        "polling-alone" => polling::alone(),
        "polling-forever" => polling::forever(),
        "polling-last" => polling::last(number(arguments.next())),
        "polling-signals" => polling::signals(),
        "processes" => processes::run(),
        "random" => random::run(number(arguments.next()), number(arguments.next())),
        "sequences" => sequences::run(number(arguments.next()), number(arguments.next())),
        "sequence" => sequences::one(number(arguments.next()), &arguments.next().unwrap_or_default()),
        "never" => sequences::never(),
        "signals" => signals::run(),
        "threads" => threads::run(number(arguments.next())),
        "sleepers" => threads::sleepers(number(arguments.next())),
        "spinners" => threads::spinners(number(arguments.next())),
        "stall" => threads::stall(),
        "exit" => std::process::exit(i32::try_from(number(arguments.next())).unwrap_or(0)),
        "unsupported" => processes::unsupported(),
        "pipe" => {
            for line in 0.. {
                println!("{line}");
            }
        }
        _ => println!("{part}?"),
    }
}

/// The result of a system call: its value, or the negative number of its error.
pub fn call(number: i64, arguments: &[u64]) -> i64 {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: callers pass calls and arguments that do no harm, or that are meant to fail.
    let result = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    if result == -1 { -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap()) } else { result }
}
