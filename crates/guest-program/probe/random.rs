//! Random sequences of system calls over descriptors, memory, signals, limits and pointers, good and bad. Every result goes
//! into one number, printed now and then, so that two runs that differ show where.

use super::call;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Numbers that follow from a seed.
pub struct Random(pub u64);

impl Random {
    /// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Memory at addresses of the program's own, so that they are the same in every run.
const ARENA: u64 = 0x2_0000_0000;
const PAGES: u64 = 64;

struct Sequence {
    random: Random,
    trace: DefaultHasher,
    memory: Vec<u64>,
}

/// `count` calls from `seed` on.
pub fn run(seed: u64, count: u64) {
    let fixed = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    assert_eq!(call(libc::SYS_mmap, &[ARENA, PAGES * 4096, 3, fixed, u64::MAX, 0]), ARENA as i64);
    let mut sequence = Sequence { random: Random(seed), trace: DefaultHasher::new(), memory: vec![0; 64] };
    for step in 1..=count {
        let (number, arguments) = sequence.draw();
        let result = call(number, &arguments);
        sequence.note(number, &arguments, result);
        if step.is_multiple_of(100) || step == count {
            println!("{step} {:x}", sequence.trace.finish());
        }
    }
}

impl Sequence {
    fn draw(&mut self) -> (i64, [u64; 6]) {
        let random = &mut self.random;
        let fd = [0, 1, 2, random.below(24), 1000, 5000, u64::MAX, 1 << 32 | 5000][random.below(8) as usize];
        let fd = if fd <= 2 { 200 + fd } else { fd };
        let new_fd = 3 + random.below(20);
        let pointer = [
            self.memory.as_ptr() as u64,
            ARENA + random.below(PAGES * 4096),
            ARENA + random.below(PAGES) * 4096,
            0,
            8,
            u64::MAX - random.below(4096),
            1 << 46,
            0x8000_0000_0000,
        ][random.below(8) as usize];
        let page = ARENA + random.below(PAGES) * 4096;
        let bytes = [0, 1, 4096, 8192, random.below(20000), u64::MAX][random.below(6) as usize];
        let pages = 4096 * (1 + random.below(4));
        let protection = random.below(4);
        let signal = random.below(70);
        let path = [c"/etc/passwd", c"/nonexistent", c"/dev/null", c"/proc/self/exe", c"", c"/etc"]
            [random.below(6) as usize]
            .as_ptr() as u64;
        let fixed = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
        let at = libc::AT_FDCWD as u64;
        match random.below(34) {
            0 => (libc::SYS_close, [fd, 0, 0, 0, 0, 0]),
            1 => (libc::SYS_dup, [fd, 0, 0, 0, 0, 0]),
            2 => (libc::SYS_dup2, [fd, new_fd, 0, 0, 0, 0]),
            3 => (libc::SYS_dup3, [fd, new_fd, random.below(2) << 19, 0, 0, 0]),
            4 => (libc::SYS_fcntl, [fd, random.below(5), random.below(30), 0, 0, 0]),
            5 => (libc::SYS_close_range, [new_fd, new_fd + random.below(30), 0, 0, 0, 0]),
            6 => (libc::SYS_openat, [at, path, [0, 0, 0o2000000, 0o200000][random.below(4) as usize], 0, 0, 0]),
            7 => (libc::SYS_openat, [at, pointer, 0, 0, 0, 0]),
            8 => (libc::SYS_pread64, [fd, pointer, bytes.min(64), random.below(100), 0, 0]),
            9 => (libc::SYS_lseek, [fd, random.below(100), random.below(6), 0, 0, 0]),
            10 => (libc::SYS_mprotect, [page, pages, protection, 0, 0, 0]),
            11 => (libc::SYS_mmap, [page, pages, protection, fixed, u64::MAX, 0]),
            12 => (libc::SYS_munmap, [page, pages, 0, 0, 0, 0]),
            13 => (libc::SYS_madvise, [page, pages, [0, 1, 2, 3, 4, 8, 99][random.below(7) as usize], 0, 0, 0]),
            14 => (libc::SYS_mremap, [page, pages, pages, 0, 0, 0]),
            15 => (libc::SYS_rt_sigprocmask, [random.below(4), pointer, 0, 8, 0, 0]),
            16 => (libc::SYS_rt_sigaction, [signal, 0, pointer, 8, 0, 0]),
            17 => (libc::SYS_sigaltstack, [0, pointer, 0, 0, 0, 0]),
            18 => (libc::SYS_getrlimit, [[0, 3, 4, 7, 9, 20][random.below(6) as usize], pointer, 0, 0, 0, 0]),
            19 => (libc::SYS_prlimit64, [0, [4, 7, 20][random.below(3) as usize], 0, pointer, 0, 0]),
            20 => (libc::SYS_uname, [pointer, 0, 0, 0, 0, 0]),
            21 => (libc::SYS_access, [path, random.below(9), 0, 0, 0, 0]),
            22 => (libc::SYS_readlink, [pointer, pointer, bytes.min(64), 0, 0, 0]),
            23 => (libc::SYS_pipe2, [pointer, 0, 0, 0, 0, 0]),
            24 => (libc::SYS_eventfd2, [random.below(3), 0, 0, 0, 0, 0]),
            25 => (libc::SYS_mincore, [page, pages, pointer, 0, 0, 0]),
            26 => (libc::SYS_msync, [page, pages, 4, 0, 0, 0]),
            27 => (libc::SYS_getcwd, [pointer, bytes.min(64), 0, 0, 0, 0]),
            28 => (libc::SYS_arch_prctl, [0x1004, pointer, 0, 0, 0, 0]),
            29 => (libc::SYS_memfd_create, [pointer, random.below(4), 0, 0, 0, 0]),
            30 => (libc::SYS_ftruncate, [fd, random.below(100_000), 0, 0, 0, 0]),
            31 => (libc::SYS_prctl, [[2, 3, 7, 27, 30, 39, 12345][random.below(7) as usize], 0, 0, 0, 0, 0]),
            32 => (libc::SYS_fstat, [fd, pointer, 0, 0, 0, 0]),
            _ => (500 + random.below(50) as i64, [1 << 46; 6]),
        }
    }

    /// Results count, but for addresses and for calls whose numbers or effects depend on the machine's own state.
    fn note(&mut self, number: i64, arguments: &[u64; 6], result: i64) {
        (number, result).hash(&mut self.trace);
        // What was written may differ where it names processes, inodes or times; it is overwritten, so that no call reads it.
        if result >= 0 && !matches!(number, libc::SYS_mmap | libc::SYS_mprotect | libc::SYS_munmap) {
            self.memory.fill(arguments[0]);
        }
    }
}
