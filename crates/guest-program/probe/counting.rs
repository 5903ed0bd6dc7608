//! A program that counts in memory and says how far it is: what it prints follows from everything that it has computed before.

use std::io::{Read, Write};

/// Additions between two lines.
const ADDITIONS: u64 = 200_000;

/// Counts up to so many lines, with as many threads, each with memory of its own. A line waits for a byte of standard input.
pub fn run(lines: u64, threads: u64) {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut counted: Vec<Vec<u64>> = (0..threads.max(1)).map(|thread| vec![thread]).collect();
    let mut byte = [0];
    for line in 0..lines {
        let done: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let workers: Vec<_> = counted
                .drain(..)
                .map(|mut numbers| {
                    scope.spawn(move || {
                        let last = numbers.last().copied().unwrap_or(0);
                        numbers.push((0..ADDITIONS).fold(last, |sum, next| sum.wrapping_mul(31).wrapping_add(next)));
                        numbers
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        counted = done;
        let sum = counted.iter().flatten().fold(line, |sum, number| sum.rotate_left(5) ^ number);
        writeln!(output, "{line} {sum:016x}").unwrap();
        output.flush().unwrap();
        input.read_exact(&mut byte).unwrap();
    }
}

/// As many threads that count for themselves, and say so when one waits for another no more.
pub fn alone(lines: u64) {
    let mut output = std::io::stdout().lock();
    let (mut sum, mut vector) = (0_u64, [1.0_f64; 8]);
    for line in 0..lines {
        for next in 0..ADDITIONS {
            sum = sum.wrapping_mul(31).wrapping_add(next);
            vector.iter_mut().for_each(|value| *value = *value * 1.000_000_1 + 1e-9);
        }
        let float = vector.iter().sum::<f64>().to_bits();
        writeln!(output, "{line} {sum:016x} {float:016x}").unwrap();
    }
}

/// Makes calls that a protected program may not make, and prints what they give.
pub fn forbidden() {
    let file = |write: bool| std::fs::OpenOptions::new().read(!write).write(write).open("/etc/passwd");
    println!("write {:?}", file(true).err().and_then(|why| why.raw_os_error()));
    println!("read {:?}", file(false).map(|_| ()).map_err(|why| why.raw_os_error()));
    println!("udp {:?}", std::net::UdpSocket::bind("127.0.0.1:0").err().and_then(|why| why.raw_os_error()));
    println!("connect {:?}", std::net::TcpStream::connect("127.0.0.1:1").err().and_then(|why| why.raw_os_error()));
    println!("port 0 {:?}", std::net::TcpListener::bind("127.0.0.1:0").err().and_then(|why| why.raw_os_error()));
    println!("fork {}", crate::call(libc::SYS_fork, &[]));
    println!("exec {}", crate::call(libc::SYS_execve, &[0, 0, 0]));
    println!("shared {}", crate::call(libc::SYS_mmap, &[0, 4096, 3, libc::MAP_SHARED as u64 | 0x20, u64::MAX, 0]));
    println!("uring {}", crate::call(libc::SYS_io_uring_setup, &[1, 0]));
    println!("kill {}", crate::call(libc::SYS_kill, &[1, 0]));
    println!("timer {}", crate::call(libc::SYS_setitimer, &[0, 0, 0]));
}
