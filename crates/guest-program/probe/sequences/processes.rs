//! Steps with other threads and processes, which make steps of their own: few, because each costs as much as many calls.

use super::{Sequence, events, files, memory};
use crate::processes::{end, fork};
use std::hash::Hasher;

/// Steps of a child or a thread.
const STEPS: u64 = 4;

pub fn step(s: &mut Sequence) {
    match s.below(16) {
        0 => executed(s),
        1..=3 => child(s),
        4..=6 => killed(s),
        _ => thread(s),
    }
}

/// How a child ended; one whose end nobody waits for is gone.
fn wait(child: i64) -> String {
    let mut status = 0u32;
    loop {
        match crate::call(libc::SYS_wait4, &[child.cast_unsigned(), (&raw mut status) as u64, 0, 0]) {
            interrupted if interrupted == -i64::from(libc::EINTR) => {}
            waited => return format!("{} {status:x}", if waited == child { 0 } else { waited }),
        }
    }
}

fn steps(s: &mut Sequence) -> u64 {
    for _ in 0..STEPS {
        let step = s.one_of::<fn(&mut Sequence)>(&[files::step, memory::step, events::step]);
        step(s);
    }
    s.trace.finish()
}

/// A child with a copy of the memory and of the descriptors; its own trace is in its status.
fn child(s: &mut Sequence) {
    let status = wait(fork(|| end((steps(s) & 0x7f) as i32)));
    s.contents("child", status.as_bytes());
    // What a child has shown is in its copy of the trace alone, and so are its descriptors.
    s.has_files = true;
}

/// A child that ends by a signal.
fn killed(s: &mut Sequence) {
    let signal = s.one_of(&[libc::SIGTERM, libc::SIGKILL, libc::SIGABRT, 41]) as u64;
    let status = wait(fork(|| {
        crate::call(libc::SYS_kill, &[u64::from(std::process::id()), signal]);
    }));
    s.contents("killed", status.as_bytes());
}

/// A child that becomes another program.
fn executed(s: &mut Sequence) {
    let status = wait(fork(|| {
        let arguments = [c"/proc/self/exe".as_ptr(), c"exit".as_ptr(), c"17".as_ptr(), std::ptr::null()];
        let empty = [0u64];
        crate::call(libc::SYS_execve, &[arguments[0] as u64, arguments.as_ptr() as u64, empty.as_ptr() as u64]);
    }));
    s.contents("executed", status.as_bytes());
}

/// Another thread makes the next steps, with the same memory and descriptors.
fn thread(s: &mut Sequence) {
    std::thread::scope(|scope| {
        scope.spawn(|| steps(s)).join().unwrap();
    });
}
