//! Processes: forks, vforks, programs that follow, how they end, and what is not there inside.

use super::call;
use std::arch::asm;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::ptr;

/// Much memory that is used and given back, and then a child that has little.
pub fn backed() {
    const BYTES: u64 = 64 << 20;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let none = u64::MAX;
    let at = call(libc::SYS_mmap, &[0, BYTES, protection as u64, flags as u64, none, 0]) as u64;
    for page in (at..at + BYTES).step_by(4096) {
        // SAFETY: memory that was just mapped.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(page as usize).write(1) };
    }
    println!("unmapped {}", call(libc::SYS_munmap, &[at, BYTES]));
    let child = fork(|| end(7));
    println!("child {}", wait(child));
}

/// How a child ended.
pub fn wait(pid: i64) -> String {
    let mut status = 0;
    // SAFETY: the kernel writes one number.
    let waited = unsafe { libc::waitpid(pid as i32, &raw mut status, 0) };
    assert_eq!(i64::from(waited), pid);
    if libc::WIFSIGNALED(status) {
        format!("signal {}", libc::WTERMSIG(status))
    } else {
        format!("status {}", libc::WEXITSTATUS(status))
    }
}

/// A child that runs its part and ends with status 99; gives its number.
pub fn fork(child: impl FnOnce()) -> i64 {
    // SAFETY: the child runs its part and ends.
    match unsafe { libc::fork() } {
        0 => {
            child();
            // SAFETY: ends the child.
            unsafe { libc::_exit(99) }
        }
        pid => i64::from(pid),
    }
}

/// Ends this process.
pub fn end(status: i32) -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(status) }
}

pub fn run() {
    println!("fork: {}", wait(fork(|| end(7))));
    let mut memory = vec![1u8; 1 << 20];
    let pid = fork(|| {
        memory.fill(2);
        end(i32::from(memory[12345]) + 40);
    });
    println!("copy: {}, {}", wait(pid), memory[12345]);
    println!(
        "killed: {}",
        wait(fork(|| assert_eq!(call(libc::SYS_kill, &[call(libc::SYS_getpid, &[]) as u64, 9]), 0)))
    );
    println!("aborted: {}", wait(fork(|| std::process::abort())));
    // SAFETY: a store that fails on purpose.
    println!("fault: {}", wait(fork(|| unsafe { ptr::without_provenance_mut::<u8>(8).write_volatile(1) })));
    println!("grandchild: {}", wait(fork(|| end(wait(fork(|| end(3))).len() as i32))));
    threads_and_forks();
    limit_of_a_vfork();
    programs();
    own_paths();
}

/// A fork while other threads compute, and a thread in the child.
fn threads_and_forks() {
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let pid = fork(|| end(std::thread::spawn(|| 5).join().unwrap()));
        println!("thread in a child: {}", wait(pid));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// The child of a vfork shares all memory, but its limits are its own: Go's runtime sets that of open files in each such child.
fn limit_of_a_vfork() {
    let files = || {
        let mut limit = [0u64; 2];
        call(libc::SYS_getrlimit, &[libc::RLIMIT_NOFILE.into(), limit.as_mut_ptr() as u64]);
        limit
    };
    let before = files();
    let fewer = [64, before[1]];
    let child: i64;
    // SAFETY: the child uses registers alone, sets a limit and ends; the parent goes on behind the second call.
    unsafe {
        asm!(
            "syscall", "test rax, rax", "jnz 2f",
            "mov eax, 160", "mov edi, 7", "syscall",
            "neg eax", "mov edi, eax", "mov eax, 60", "syscall",
            "2:",
            inout("rax") libc::SYS_vfork => child, in("rsi") &raw const fewer, out("rdi") _, out("rcx") _, out("r11") _,
        );
    }
    println!("limit of a vfork: {}, {}", wait(child), files() == before);
}

fn programs() {
    let run = |command: &mut Command| match command.output() {
        Ok(output) => format!("{:?} {:?}", output.status.code(), String::from_utf8_lossy(&output.stdout)),
        Err(error) => format!("error {:?}", error.raw_os_error()),
    };
    println!("shell: {}", run(Command::new("sh").args(["-c", "echo one | tr a-z A-Z; exit 4"])));
    println!("none: {}", run(&mut Command::new("/nonexistent")));
    println!("folder: {}", run(&mut Command::new("/tmp")));
    println!("text: {}", run(&mut Command::new("/etc/passwd")));
    println!(
        "environment: {}",
        run(Command::new("sh").args(["-c", "echo $A$B"]).env_clear().env("A", "1").env("B", "2"))
    );
    println!("name: {}", run(Command::new("sh").arg0("other").args(["-c", "echo $0"])));
    // SAFETY: a function of one call, for which the library forks.
    let forked = unsafe { run(Command::new("sh").args(["-c", "echo forked"]).pre_exec(|| Ok(()))) };
    println!("forked: {forked}");
    let folder = std::env::temp_dir().join(format!("guest-probe-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let script = folder.join("script");
    std::fs::write(&script, "#!/bin/sh -e\necho \"$#\" \"$1\"\nfalse\necho never\n").unwrap();
    println!("script: {}", run(Command::new("chmod").arg("755").arg(&script)));
    println!("script: {}", run(Command::new(&script).arg("a b")));
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdin.take());
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    println!("pipes: {:?} {text:?}", child.wait().unwrap().code());
    // One that is killed before its first call has not shown where it ran: it is killed when it has answered.
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"here").unwrap();
    let mut answer = [0; 4];
    child.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
    child.kill().unwrap();
    println!("killed: {:?} {answer:?}", child.wait().unwrap().signal());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What a process finds of itself in `/proc`.
fn own_paths() {
    let name = |path: std::path::PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    println!("exe: {:?}", name(std::fs::read_link("/proc/self/exe").unwrap()));
    let own = format!("/proc/{}/exe", std::process::id());
    println!("exe: {:?}", name(std::fs::read_link(own).unwrap()));
    println!(
        "file: {}",
        std::fs::read("/proc/self/exe").unwrap().len() == std::fs::metadata("/proc/self/exe").unwrap().len() as usize
    );
    let line = std::fs::read("/proc/self/cmdline").unwrap();
    let words: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    println!("cmdline: {:?}", &words[1..]);
    println!("comm: {:?}", std::fs::read_to_string("/proc/self/comm").unwrap());
    let environment = std::fs::read("/proc/self/environ").unwrap();
    println!("environ: {}", environment.windows(5).any(|bytes| bytes == b"PATH="));
    let mut files: Vec<u32> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().parse().unwrap())
        .collect();
    files.sort_unstable();
    println!("descriptors: {files:?}");
    let out = Command::new("/proc/self/exe").args(["exit", "12"]).status().unwrap();
    println!("again: {:?}", out.code());
}

/// What does not exist inside, each refused by name.
pub fn unsupported() {
    let vm = libc::CLONE_VM as u64;
    println!("clone {}", call(libc::SYS_clone, &[vm, 0, 0, 0, 0]));
    println!("ptrace {}", call(libc::SYS_ptrace, &[0, 0, 0, 0]));
    println!("seccomp {}", call(libc::SYS_seccomp, &[1, 0, 8]));
    println!("prctl {}", call(libc::SYS_prctl, &[libc::PR_SET_TSC as u64, libc::PR_TSC_SIGSEGV as u64]));
    println!("uring {}", call(libc::SYS_io_uring_setup, &[1, 0]));
    // KVM_RUN, of no device that would know it.
    println!("ioctl {}", call(libc::SYS_ioctl, &[1, 0xae80, 0]));
}
