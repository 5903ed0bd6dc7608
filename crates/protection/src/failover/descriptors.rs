//! The descriptors of a stopped program, as an image has them, and what is mapped where.

use crate::memory::without;
use baremark_guest_program::image::{Descriptor, Mapping, Target, Timer, Watched};
use baremark_sys::{clock, local_socket, tracee};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

/// O_CLOEXEC, O_ACCMODE and O_WRONLY, as `/proc/PID/fdinfo` has them.
const CLOSE_ON_EXEC: i32 = 0o2_000_000;
const ACCESS: i32 = 3;
const WRITE_ONLY: i32 = 1;
/// Rights of mappings, as `mmap(2)` takes them.
const RIGHTS: [(u8, i32); 3] = [(b'r', 1), (b'w', 2), (b'x', 4)];

/// What a program has open.
#[derive(Debug, Default)]
pub struct Open {
    pub descriptors: Vec<Descriptor>,
    pub pipes: Vec<(u64, Vec<u8>)>,
    /// Connections, and how many bytes wait there unread.
    pub unread: BTreeMap<u64, u64>,
    /// Addresses at which it listens.
    pub listeners: BTreeSet<String>,
}

/// The name of a socket, in its parts.
struct Name {
    kind: char,
    id: u64,
    address: String,
}

fn name_of(address: io::Result<SocketAddr>) -> Option<Name> {
    let address = address.ok()?;
    let text = std::str::from_utf8(address.as_abstract_name()?).ok()?;
    let mut parts = text.strip_prefix("baremark/")?.split('/').skip(1);
    let what = parts.next()?;
    let kind = what.chars().next()?;
    Some(Name { kind, id: what.get(1..)?.parse().ok()?, address: parts.next()?.to_owned() })
}

/// Reads what a stopped program has open; descriptors from `first_own` on are its runner's.
///
/// # Errors
/// What `/proc` gives; `Unsupported` for what cannot be continued.
pub fn read(process: i32, first_own: u32) -> io::Result<Open> {
    let mut open = Open::default();
    let mut pipes = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
        let entry = entry?;
        let number: i32 = entry.file_name().to_string_lossy().parse().map_err(io::Error::other)?;
        if number.unsigned_abs() >= first_own {
            continue;
        }
        let details = Details::of(process, number)?;
        let flags = details.flags()?;
        let link = fs::read_link(entry.path())?.to_string_lossy().into_owned();
        let take = || tracee::take_descriptor(process, u64::from(number.unsigned_abs()));
        let target = if link.starts_with('/') {
            // The process that continues it has another number.
            let own = link.strip_prefix(&format!("/proc/{process}/")).map(|rest| format!("/proc/self/{rest}"));
            Target::File { path: own.unwrap_or_else(|| link.clone()), offset: details.offset()? }
        } else if let Some(kind) = link.strip_prefix("anon_inode:") {
            details.target(kind).ok_or_else(|| unsupported(number, &link))?
        } else if link.starts_with("socket:") {
            socket(take()?, &mut open)?
        } else if let Some(id) = link.strip_prefix("pipe:[").and_then(|rest| rest.trim_end_matches(']').parse().ok()) {
            let writes = flags & ACCESS == WRITE_ONLY;
            if writes {
                pipes.entry(id).or_default();
            } else {
                pipes.insert(id, local_socket::contents(&take()?)?);
            }
            Target::Pipe { id, writes }
        } else {
            return Err(unsupported(number, &link));
        };
        let close_on_exec = flags & CLOSE_ON_EXEC != 0;
        open.descriptors.push(Descriptor { number, flags, close_on_exec, target });
    }
    open.descriptors.sort_unstable_by_key(|descriptor| descriptor.number);
    open.pipes = pipes.into_iter().collect();
    check_sets(&open.descriptors)?;
    Ok(open)
}

fn unsupported(number: i32, what: &str) -> io::Error {
    let why = format!("descriptor {number} leads to {what}, which cannot be continued");
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// A set can have a file that has left its number and lives on through a copy: another process could not add it again.
fn check_sets(descriptors: &[Descriptor]) -> io::Result<()> {
    let is_open = |wanted: i32| descriptors.iter().any(|descriptor| descriptor.number == wanted);
    for descriptor in descriptors {
        let Target::Set(watched) = &descriptor.target else { continue };
        if let Some(Watched { number, .. }) = watched.iter().find(|one| !is_open(one.number)) {
            return Err(unsupported(descriptor.number, &format!("a set with descriptor {number}, which was closed")));
        }
    }
    Ok(())
}

/// What `/proc/PID/fdinfo` has of a descriptor.
struct Details(String);

impl Details {
    fn of(process: i32, number: i32) -> io::Result<Details> {
        fs::read_to_string(format!("/proc/{process}/fdinfo/{number}")).map(Details)
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
    }

    fn flags(&self) -> io::Result<i32> {
        i32::from_str_radix(self.field("flags:").unwrap_or("0"), 8).map_err(io::Error::other)
    }

    fn offset(&self) -> io::Result<u64> {
        self.field("pos:").unwrap_or("0").parse().map_err(io::Error::other)
    }

    /// What a descriptor of this kind leads to; `None` where that cannot be continued.
    fn target(&self, kind: &str) -> Option<Target> {
        match kind {
            "[eventpoll]" => {
                let watched = self.0.lines().filter(|line| line.starts_with("tfd:")).map(watched);
                watched.collect::<Option<Vec<_>>>().map(Target::Set)
            }
            "[eventfd]" => Some(Target::Counter {
                count: u64::from_str_radix(self.field("eventfd-count:")?, 16).ok()?,
                is_semaphore: self.field("eventfd-semaphore:")? == "1",
            }),
            "[timerfd]" => Some(Target::Timer(Timer {
                clock: self.field("clockid:")?.parse().ok()?,
                // One that has expired and was not read is restored as one that expires at once.
                left_ns: if self.field("ticks:")? == "0" { self.nanos("it_value:")? } else { 1 },
                every_ns: self.nanos("it_interval:")?,
                at_ns: clock::monotonic_ns(),
            })),
            _ => None,
        }
    }

    /// A time as `(seconds, nanoseconds)`.
    fn nanos(&self, name: &str) -> Option<u64> {
        let (seconds, nanos) = self.field(name)?.trim_matches(['(', ')']).split_once(", ")?;
        seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos.parse().ok()?)
    }
}

/// A member of a set, such as `tfd:  5 events:  19 data:  7f00 pos:0 ino:9 sdev:8`.
fn watched(line: &str) -> Option<Watched> {
    let mut words = line.split_ascii_whitespace();
    let mut after = |name| words.find(|word| *word == name).and_then(|_| words.next());
    let number = after("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(after("events:")?, 16).ok()?;
    let data = u64::from_str_radix(after("data:")?, 16).ok()?;
    Some(Watched { number, events, data })
}

fn socket(taken: OwnedFd, open: &mut Open) -> io::Result<Target> {
    let socket = UnixStream::from(taken);
    if let Some(Name { kind: 'c', id, .. }) = name_of(socket.peer_addr()) {
        open.unread.insert(id, local_socket::unread(&socket)?);
        return Ok(Target::Channel(id));
    }
    let Some(Name { kind: 'l', address, .. }) = name_of(socket.local_addr()) else { return Ok(Target::Fresh) };
    let listens = local_socket::is_listening(&socket)?;
    if listens {
        open.listeners.insert(address.clone());
    }
    Ok(Target::Bound { address, listens })
}

/// The program's mappings from `/proc/PID/maps`, without those of its runner, and where the vDSO begins.
#[must_use]
pub fn mappings(maps: &str, own: &[(u64, u64)]) -> (Vec<Mapping>, u64) {
    let vdso = maps.lines().find_map(tracee::vdso_of).map_or(0, |(start, _)| start);
    (maps.lines().flat_map(|line| of_line(line, own)).collect(), vdso)
}

/// Names of what is the kernel's, or the runner's own heap. The stack of that name is the program's.
const OTHERS: [&str; 5] = ["[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]", "[heap]"];

fn of_line(line: &str, own: &[(u64, u64)]) -> Vec<Mapping> {
    let mut fields = line.split_ascii_whitespace();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = fields.next().and_then(|range| range.split_once('-'));
    let range = range.and_then(|(start, end)| number(start).zip(number(end)));
    let (Some((start, end)), Some(rights), Some(offset)) = (range, fields.next(), fields.next().and_then(number))
    else {
        return Vec::new();
    };
    if OTHERS.iter().any(|name| line.ends_with(name)) {
        return Vec::new();
    }
    let protection = RIGHTS.iter().filter(|(sign, _)| rights.as_bytes().contains(sign)).map(|(_, right)| right).sum();
    let path = line.find(" /").map(|at| line[at + 1..].to_owned());
    let part = |(from, to): (u64, u64)| {
        let file = path.clone().map(|path| (path, offset + (from - start)));
        Mapping { start: from, end: to, protection, file }
    };
    without(own, start, end).into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_counters_and_timers_are_read_as_the_kernel_writes_them() {
        let of = |kind: &str, text: &str| Details(text.to_owned()).target(kind);
        let set = "pos:\t0\nflags:\t02000002\ntfd:        5 events:       19 data:     7f0000000005  pos:0 ino:1f sdev:8\n\
                   tfd:       12 events: 80000001 data: ffffffffffffffff  pos:0 ino:20 sdev:8\n";
        let members = [
            Watched { number: 5, events: 0x19, data: 0x7f00_0000_0005 },
            Watched { number: 12, events: 0x8000_0001, data: u64::MAX },
        ];
        assert_eq!(of("[eventpoll]", set), Some(Target::Set(members.to_vec())));
        let counter = "flags:\t04002\neventfd-count:               1f\neventfd-id: 3\neventfd-semaphore: 1\n";
        assert_eq!(of("[eventfd]", counter), Some(Target::Counter { count: 31, is_semaphore: true }));
        let timer = "clockid: 1\nticks: 0\nsettime flags: 01\nit_value: (3, 500)\nit_interval: (0, 20000000)\n";
        let Some(Target::Timer(running)) = of("[timerfd]", timer) else { panic!("a timer") };
        assert_eq!((running.clock, running.left_ns, running.every_ns), (1, 3_000_000_500, 20_000_000));
        let expired = timer.replace("ticks: 0", "ticks: 4").replace("(3, 500)", "(0, 0)");
        let Some(Target::Timer(expired)) = of("[timerfd]", &expired) else { panic!("a timer") };
        assert_eq!((expired.left_ns, expired.every_ns), (1, 20_000_000));
        assert_eq!((of("[signalfd]", ""), of("[eventfd]", ""), of("inotify", "")), (None, None, None));
        let open = |number, target| Descriptor { number, flags: 0, close_on_exec: true, target };
        let mut all = vec![open(3, Target::Set(members.to_vec())), open(5, Target::Fresh)];
        check_sets(&all).expect_err("12 was closed");
        all.push(open(12, Target::Fresh));
        check_sets(&all).expect("both are there");
    }

    #[test]
    fn mappings_are_the_programs_with_rights_and_files() {
        let maps = "00400000-00402000 r-xp 00001000 fe:00 12                         /usr/bin/a b\n\
                    01000000-01003000 rw-p 00000000 00:00 0 \n\
                    02000000-02001000 rw-p 00000000 00:00 0                          [heap]\n\
                    7ffff7fc8000-7ffff7fca000 r-xp 00000000 00:00 0                  [vdso]\n";
        let (found, vdso) = mappings(maps, &[(0x40_0000, 0x40_1000), (0x100_1000, 0x100_2000)]);
        let file = Some(("/usr/bin/a b".to_owned(), 0x2000));
        let expected = [
            Mapping { start: 0x40_1000, end: 0x40_2000, protection: 5, file },
            Mapping { start: 0x100_0000, end: 0x100_1000, protection: 3, file: None },
            Mapping { start: 0x100_2000, end: 0x100_3000, protection: 3, file: None },
        ];
        assert_eq!((found.as_slice(), vdso), (expected.as_slice(), 0x7fff_f7fc_8000));
    }

    #[test]
    fn open_files_have_their_offsets_and_pipes_their_contents() {
        use std::io::{Read, Seek, Write};
        use std::os::fd::AsRawFd;
        let mut file = fs::File::open("/proc/self/exe").expect("a file");
        file.read_exact(&mut [0; 7]).expect("bytes");
        assert_eq!(file.stream_position().expect("an offset"), 7);
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"abc").expect("written");
        let own = i32::try_from(std::process::id()).expect("a number");
        let details = Details::of(own, file.as_raw_fd()).expect("details");
        assert_eq!((details.flags().expect("flags") & ACCESS, details.offset().expect("an offset")), (0, 7));
        assert_eq!(local_socket::contents(&reader).expect("bytes"), b"abc");
        assert!(name_of(UnixStream::pair().expect("two").0.peer_addr()).is_none());
    }
}
