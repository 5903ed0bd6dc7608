//! Random sequences of system calls: short programs that are drawn from a seed, in which results of calls feed later ones.
//!
//! A sequence has 5 to 30 steps over files of the current folder, descriptors, pipes, sockets, memory, signals, events, timers, threads and child
//! processes. Its trace has the result of every call and the contents that it gave; it is the same in every run, so that a native run and one in the
//! guest can be compared. Each step is drawn from the seed and its own number alone: with some left out the others stay as they are, and a sequence
//! that differs can be made smaller.
//!
//! Nothing is drawn that could harm the machine: [`NEVER`] lists what is not called, and every call is held against it. The tests run sequences as
//! an unprivileged user in namespaces of their own.

mod events;
mod files;
mod memory;
mod processes;
mod signals;

use super::call;
use super::random::Random;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Calls that are never made, with the reason.
pub const NEVER: &[(&str, i64, &str)] = &[
    ("reboot", libc::SYS_reboot, "ends the machine"),
    ("kexec_load", libc::SYS_kexec_load, "replaces the kernel"),
    ("init_module", libc::SYS_init_module, "changes the kernel"),
    ("finit_module", libc::SYS_finit_module, "changes the kernel"),
    ("delete_module", libc::SYS_delete_module, "changes the kernel"),
    ("bpf", libc::SYS_bpf, "runs programs in the kernel"),
    ("swapon", libc::SYS_swapon, "changes the machine's memory"),
    ("swapoff", libc::SYS_swapoff, "changes the machine's memory"),
    ("settimeofday", libc::SYS_settimeofday, "sets the clock"),
    ("clock_settime", libc::SYS_clock_settime, "sets the clock"),
    ("adjtimex", libc::SYS_adjtimex, "sets the clock"),
    ("clock_adjtime", libc::SYS_clock_adjtime, "sets the clock"),
    ("sethostname", libc::SYS_sethostname, "renames the machine"),
    ("setdomainname", libc::SYS_setdomainname, "renames the machine"),
    ("mount", libc::SYS_mount, "changes file systems"),
    ("umount2", libc::SYS_umount2, "changes file systems"),
    ("pivot_root", libc::SYS_pivot_root, "changes file systems"),
    ("chroot", libc::SYS_chroot, "changes file systems"),
    ("quotactl", libc::SYS_quotactl, "changes file systems"),
    ("sync", libc::SYS_sync, "holds up every disk"),
    ("acct", libc::SYS_acct, "writes a log of the machine"),
    ("syslog", libc::SYS_syslog, "can empty the kernel's log"),
    ("vhangup", libc::SYS_vhangup, "ends a terminal"),
    ("iopl", libc::SYS_iopl, "gives access to devices"),
    ("ioperm", libc::SYS_ioperm, "gives access to devices"),
    ("ptrace", libc::SYS_ptrace, "changes other processes"),
    ("setns", libc::SYS_setns, "leaves the namespaces"),
    ("unshare", libc::SYS_unshare, "leaves the namespaces"),
    ("setsid", libc::SYS_setsid, "leaves the session, by which children are ended"),
    ("io_uring_setup", libc::SYS_io_uring_setup, "makes calls that are not held against this list"),
    ("perf_event_open", libc::SYS_perf_event_open, "looks at the whole machine"),
    ("fanotify_init", libc::SYS_fanotify_init, "holds up other processes' files"),
    ("setuid", libc::SYS_setuid, "changes the user"),
    ("setgid", libc::SYS_setgid, "changes the user"),
    ("setpriority", libc::SYS_setpriority, "cannot be undone for the sequences after it"),
];

/// Memory of the sequences, at the same address in every run.
const ARENA: u64 = 0x2_0000_0000;
const PAGES: u64 = 64;
const PAGE: u64 = 4096;
/// Bytes of the room for contents.
const ROOM: usize = 16 << 10;
/// Descriptors that a sequence remembers.
const SLOTS: usize = 8;
/// Steps of a sequence: most are short, and a few have up to 30.
const FEWEST: u64 = 5;
const FEW: u64 = 8;
const MORE: u64 = 26;
/// A family of steps: how often it is drawn, of all shares, and one of its steps.
type Family = (u64, fn(&mut Sequence));
const FAMILIES: [Family; 5] =
    [(400, files::step), (250, memory::step), (150, signals::step), (190, events::step), (10, processes::step)];

/// A sequence while it runs.
struct Sequence {
    random: Random,
    slots: [u64; SLOTS],
    /// Descriptors of signals, whose contents name processes.
    signal_fds: u64,
    room: Vec<u8>,
    trace: DefaultHasher,
    is_shown: bool,
    /// What has to be undone at its end.
    has_files: bool,
    has_signals: bool,
}

/// Runs sequences, and gives a number for each on standard output: in a file each is 8 bytes, which are there also when a later sequence ends the
/// process; elsewhere each is a line.
pub fn run(first: u64, count: u64) {
    prepare();
    let file = (call(libc::SYS_ftruncate, &[1, 8 * count]) == 0).then(|| {
        let shared = [0, 8 * count.max(1), 3, libc::MAP_SHARED as u64, 1, 0];
        std::ptr::with_exposed_provenance_mut::<u64>(call(libc::SYS_mmap, &shared) as usize)
    });
    for (index, seed) in (first..first + count).enumerate() {
        let trace = Sequence::new(seed, false).run(seed, &[]).max(1);
        match file {
            // SAFETY: inside the mapping made above, which has a word for each.
            Some(words) => unsafe { words.add(index).write_volatile(trace) },
            None => println!("{seed} {trace:x}"),
        }
    }
}

/// Runs one sequence without those of its steps that are listed, and prints its trace.
pub fn one(seed: u64, left_out: &str) {
    prepare();
    let left_out: Vec<u64> = left_out.split(',').filter_map(|step| step.parse().ok()).collect();
    let trace = Sequence::new(seed, true).run(seed, &left_out);
    println!("trace {trace:x}");
}

/// Prints what is never called.
pub fn never() {
    for (name, _, why) in NEVER {
        println!("{name}: {why}");
    }
}

fn prepare() {
    call(libc::SYS_close_range, &[3, u64::from(u32::MAX), 0]);
    renew_memory();
    signals::install();
}

/// The arena as every sequence finds it: readable and writable zeros in its first half, nothing in the other.
fn renew_memory() {
    let fixed = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
    assert_eq!(call(libc::SYS_mmap, &[ARENA, PAGES / 2 * PAGE, 3, fixed, u64::MAX, 0]), ARENA as i64);
    assert_eq!(call(libc::SYS_munmap, &[ARENA + PAGES / 2 * PAGE, PAGES / 2 * PAGE]), 0);
}

impl Sequence {
    fn new(seed: u64, is_shown: bool) -> Self {
        Sequence {
            random: Random(seed),
            slots: [1000; SLOTS],
            signal_fds: 0,
            room: vec![0; ROOM],
            trace: DefaultHasher::new(),
            is_shown,
            has_files: false,
            has_signals: false,
        }
    }

    /// Runs every step but those left out, and undoes what they have changed.
    fn run(mut self, seed: u64, left_out: &[u64]) -> u64 {
        let mut random = Random(seed ^ 0x5eed);
        let most = if random.next().is_multiple_of(10) { MORE } else { FEW };
        let steps = FEWEST + random.next() % most;
        for step in (0..steps).filter(|step| !left_out.contains(step)) {
            self.random = Random(random.0 ^ (step + 1).wrapping_mul(0x2545_f491_4f6c_dd1d));
            if self.is_shown {
                println!("step {step}");
            }
            self.step();
        }
        self.undo();
        self.trace.finish()
    }

    /// One step, of a family by its share.
    fn step(&mut self) {
        let mut share = self.below(FAMILIES.iter().map(|(share, _)| share).sum());
        for (own, step) in FAMILIES {
            if share < own {
                return step(self);
            }
            share -= own;
        }
    }

    fn undo(&mut self) {
        call(libc::SYS_close_range, &[3, u64::from(u32::MAX), 0]);
        renew_memory();
        if self.has_files {
            files::undo();
        }
        if self.has_signals {
            signals::undo();
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next() % end
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// A descriptor that an earlier step was given, or a number that is none.
    fn fd(&mut self) -> u64 {
        match self.below(20) {
            0 => self.one_of(&[900, u64::MAX, 1 << 32 | 900]),
            _ => {
                let slot = self.below(SLOTS as u64) as usize;
                self.slots[slot]
            }
        }
    }

    /// Remembers a descriptor that a call has given.
    fn keep(&mut self, fd: i64) {
        if fd > 2 {
            let slot = self.below(SLOTS as u64) as usize;
            self.slots[slot] = fd.cast_unsigned();
            self.signal_fds &= !signal_bit(fd.cast_unsigned());
        }
    }

    /// The room for contents, filled with a value, as an address.
    fn filled(&mut self, value: u8) -> u64 {
        self.room.fill(value);
        self.room.as_mut_ptr() as u64
    }

    /// An address of a buffer: the room, a page of the arena, or one that is bad.
    fn pointer(&mut self) -> u64 {
        match self.below(8) {
            0 => self.one_of(&[0, 8, 1 << 46, 0x8000_0000_0000, u64::MAX - 100]),
            1 | 2 => ARENA + self.below(PAGES) * PAGE,
            _ => self.filled(0),
        }
    }

    /// As [`Sequence::pointer`] for contents that differ between runs, of which no later step may read.
    fn private_pointer(&mut self) -> u64 {
        match self.below(4) {
            0 => self.one_of(&[0, 8, 1 << 46, 0x8000_0000_0000]),
            _ => self.filled(0),
        }
    }

    fn bytes(&mut self) -> u64 {
        self.one_of(&[0, 1, 7, 64, 100, 4095, 4096, 8192])
    }

    /// Makes a call and enters it into the trace with its result.
    fn call(&mut self, name: &str, number: i64, arguments: &[u64]) -> i64 {
        assert!(NEVER.iter().all(|(_, never, _)| *never != number), "{name} is never called");
        let result = call(number, arguments);
        self.note(name, result);
        if self.is_shown {
            let shown = arguments.iter().map(|value| match value {
                0..0x10_0000 => format!("{value}"),
                _ if (ARENA..ARENA + PAGES * PAGE).contains(value) => format!("arena+{:#x}", value - ARENA),
                _ => "*".to_owned(),
            });
            println!("  {name}({}) = {result}", shown.collect::<Vec<_>>().join(", "));
        }
        result
    }

    /// Enters a result that is a number.
    fn note(&mut self, name: &str, value: i64) {
        (name, value).hash(&mut self.trace);
        signals::enter_taken(self);
    }

    /// Enters contents.
    fn contents(&mut self, what: &str, bytes: &[u8]) {
        bytes.hash(&mut self.trace);
        if self.is_shown {
            let mut text = String::new();
            // A text grows as it must.
            let _ = bytes.iter().take(64).try_for_each(|byte| write!(text, "{byte:02x}"));
            println!("    {what}: {} bytes {text}", bytes.len());
        }
    }

    /// Enters the first bytes of the room.
    fn room_contents(&mut self, what: &str, bytes: i64) {
        let bytes = self.room[..usize::try_from(bytes).unwrap_or(0).min(ROOM)].to_vec();
        self.contents(what, &bytes);
    }
}

/// The bit of a small descriptor number.
fn signal_bit(fd: u64) -> u64 {
    u32::try_from(fd).ok().and_then(|fd| 1u64.checked_shl(fd)).unwrap_or(0)
}
