//! Programs that are stopped, and continued by another process from their image.

use crate::support::{PROBE, has_kvm, natively};
use baremark_guest_program::Command;
use baremark_guest_program::image::{self, Description, Descriptor, Mapping, Target};
use baremark_guest_program::protected::{self, Protected};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const PAGE: usize = 4096;

/// The other ends of a program's standard input and output.
struct Ends {
    input: UnixStream,
    output: BufReader<UnixStream>,
}

/// Two pairs: what the program gets, and what is kept.
fn ends() -> ([UnixStream; 2], Ends) {
    let (input, programs_input) = UnixStream::pair().unwrap();
    let (output, programs_output) = UnixStream::pair().unwrap();
    keep_few(&programs_output);
    ([programs_input, programs_output], Ends { input, output: BufReader::new(output) })
}

/// Room for a few lines: a program that prints faster than somebody reads waits.
fn keep_few(output: &UnixStream) {
    let bytes: libc::c_int = 1;
    let bytes = (&raw const bytes).cast();
    // SAFETY: the kernel reads one number, and takes the least that it can.
    let set = unsafe { libc::setsockopt(output.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, bytes, 4) };
    assert_eq!(set, 0);
}

fn start(arguments: &[&str]) -> (Protected, Ends) {
    let ([input, output], ends) = ends();
    let mut command = Command::new(PROBE);
    command.args(arguments).stdin(OwnedFd::from(input)).stdout(OwnedFd::from(output)).stderr(Stdio::inherit());
    let mut program = command.protect().unwrap();
    assert!(program.stop(LIMIT).unwrap(), "{:?}", program.failure());
    (program, ends)
}

/// Everything that the stopped program has, with all of its pages.
fn write_image(program: &Protected, inherited: &[(u64, i32)]) -> fs::File {
    let maps = fs::read_to_string(format!("/proc/{}/maps", program.id())).unwrap();
    let memory = fs::File::open(format!("/proc/{}/mem", program.id())).unwrap();
    let own = program.own_memory();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    let mut description = Description { inherited: inherited.to_vec(), ..Description::default() };
    let mut pages = Vec::new();
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next().unwrap().split_once('-').unwrap();
        let (start, end, rights) = (number(start), number(end), fields.next().unwrap());
        if line.ends_with("[vdso]") {
            description.vdso = start;
        }
        let left_out = ["[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]", "[heap]"];
        if left_out.iter().any(|name| line.ends_with(name)) {
            continue;
        }
        let right = |sign, right| if rights.contains(sign) { right } else { 0 };
        let protection = right('r', libc::PROT_READ) | right('w', libc::PROT_WRITE) | right('x', libc::PROT_EXEC);
        // The kernel makes one mapping of neighbours that are alike, be they the program's or its runner's.
        let is_own = |page: &u64| own.iter().any(|(from, to)| (*from..*to).contains(page));
        for page in (start..end).step_by(PAGE).filter(|page| !is_own(page)) {
            let end = page + PAGE as u64;
            match description.mappings.last_mut() {
                Some(last) if last.end == page && last.protection == protection => last.end = end,
                _ => description.mappings.push(Mapping { start: page, end, protection, file: None }),
            }
            let mut bytes = vec![0; PAGE];
            if protection != 0 && memory.read_exact_at(&mut bytes, page).is_ok() && bytes.iter().any(|byte| *byte != 0)
            {
                pages.push((page, bytes));
            }
        }
    }
    for number in 0..2 {
        let target = Target::Channel(u64::try_from(number).unwrap());
        description.descriptors.push(Descriptor { number, flags: 0, close_on_exec: false, target });
    }
    let file = protected::image_file().unwrap();
    let pages: Vec<(u64, &[u8])> = pages.iter().map(|(start, bytes)| (*start, bytes.as_slice())).collect();
    image::write(&file, &description, &program.registers(), &pages).unwrap();
    file
}

/// Kills the stopped program and continues it in another process.
fn fail_over(mut program: Protected) -> (Protected, Ends) {
    let ([input, output], ends) = ends();
    let inherited = [input.as_raw_fd(), output.as_raw_fd()];
    let image = write_image(&program, &[(0, inherited[0]), (1, inherited[1])]);
    program.kill().unwrap();
    let mut command = Command::new(PROBE);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut program = command.continue_from(&image, &inherited).unwrap();
    assert!(program.stop(LIMIT).unwrap(), "{:?}", program.failure());
    (program, ends)
}

fn line(ends: &mut Ends) -> String {
    let mut line = String::new();
    ends.output.read_line(&mut line).unwrap();
    line
}

/// A program that somebody suspends while it stands does not stand for the next request: else nobody would notice that it has not gone on.
#[test]
fn a_program_that_is_suspended_at_a_checkpoint_does_not_stop_at_the_next() {
    if !has_kvm() {
        return;
    }
    let (mut program, _ends) = start(&["counting", "6", "1"]);
    let process = libc::pid_t::try_from(program.id()).unwrap();
    let signal = |signal| {
        // SAFETY: takes two numbers.
        assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    };
    signal(libc::SIGSTOP);
    let is_suspended = || {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    while !is_suspended() {
        std::thread::sleep(Duration::from_millis(1));
    }
    program.resume();
    let refused = program.stop(Duration::from_millis(300)).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::TimedOut);
    signal(libc::SIGCONT);
    assert!(program.stop(LIMIT).unwrap(), "{:?}", program.failure());
    program.kill().unwrap();
}

/// A program whose lines each wait for a byte, continued after every second line.
fn counts_on(threads: &str) {
    if !has_kvm() {
        return;
    }
    let lines = 6;
    let ([programs_input, _], mut native_ends) = ends();
    native_ends.input.write_all(&[0; 6]).unwrap();
    let mut native = std::process::Command::new(PROBE);
    let native = native.args(["counting", "6", threads]).stdin(OwnedFd::from(programs_input)).output().unwrap();
    let expected = String::from_utf8(native.stdout).unwrap();
    let (mut program, mut ends) = start(&["counting", "6", threads]);
    let mut found = String::new();
    program.resume();
    for number in 0..lines {
        found += &line(&mut ends);
        if number % 2 == 1 {
            assert!(program.stop(LIMIT).unwrap(), "{:?}", program.failure());
            (program, ends) = fail_over(program);
            program.resume();
        }
        ends.input.write_all(&[0]).unwrap();
    }
    assert_eq!(ends.output.read_line(&mut String::new()).unwrap(), 0, "the end");
    assert_eq!(found, expected);
}

#[test]
fn a_program_that_is_continued_by_another_process_goes_on_with_the_same_memory() {
    counts_on("1");
}

#[test]
fn threads_that_begin_and_end_are_continued_too() {
    counts_on("2");
    counts_on("4");
}

#[test]
fn what_could_not_be_continued_is_refused_by_name() {
    if !has_kvm() {
        return;
    }
    let (mut program, mut ends) = start(&["forbidden"]);
    program.resume();
    let mut said = String::new();
    ends.output.read_to_string(&mut said).unwrap();
    let expected = "write Some(30)\nread Ok(())\nudp Some(97)\nconnect Some(97)\nport 0 Some(99)\nfork -1\nexec -1\nshared -1\n\
                    uring -38\nkill -1\ntimer -38\n";
    assert_eq!(said, expected);
    let refused = program.refused().into_iter().map(|call| call.to_string().split(':').next().unwrap().to_owned());
    let calls =
        ["openat", "socket", "connect", "bind", "fork", "execve", "mmap", "io_uring_setup", "kill", "setitimer"];
    assert_eq!(refused.collect::<Vec<_>>(), calls);
    assert!(program.refused().is_empty(), "each is reported once");
}

#[test]
fn a_program_is_stopped_and_continued_while_it_computes() {
    if !has_kvm() {
        return;
    }
    let expected = natively(PROBE, &["alone", "400"]).stdout;
    let (mut program, mut ends) = start(&["alone", "400"]);
    let mut found = String::new();
    for _ in 0..3 {
        program.resume();
        for _ in 0..20 {
            found += &line(&mut ends);
        }
        assert!(program.stop(LIMIT).unwrap(), "{:?}", program.failure());
        // What was written before the stop lies in the stream, and is the first program's output.
        let other = fail_over(program);
        ends.output.read_to_string(&mut found).unwrap();
        (program, ends) = other;
    }
    program.resume();
    ends.output.read_to_string(&mut found).unwrap();
    assert_eq!(found, expected);
}
