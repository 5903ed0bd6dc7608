//! Figures of this machine, printed on request; nothing is asserted about time.
//!
//! `cargo test --release -p baremark-microvm --test measured -- --ignored --nocapture --test-threads=1 figures`

use crate::bodies::{Each, scatter};
use crate::host::Buffer;
use crate::support::{turn, two_cpus};
use baremark_microvm::{Config, Microvm};
use baremark_model::arm::GuestTables;
use baremark_model::page_size::PageSize;
use baremark_model::seam::{Executor, timed_region};
use baremark_model::team::Team;
use baremark_sys::affinity::pin_current_thread;
use baremark_sys::clock::ticks;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const PAGES: [PageSize; 2] = [PageSize::Small, PageSize::Large];

pub fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn ticks_per_us() -> f64 {
    let (from, begun) = (ticks(), Instant::now());
    std::thread::sleep(Duration::from_millis(50));
    (ticks() - from) as f64 / begun.elapsed().as_secs_f64() / 1e6
}

#[test]
#[ignore = "prints figures"]
fn figures_of_starting_and_entering() {
    let Some(_turn) = turn() else { return };
    for guest_page in PAGES {
        for guest_tables in [GuestTables::Contiguous, GuestTables::Scattered] {
            for ranks in 1..=2 {
                let config = Config { guest_page, guest_tables, ..Config::new(two_cpus()[..ranks].to_vec()) };
                let (mut first, mut gone) = (Vec::new(), Vec::new());
                for _ in 0..11 {
                    let vm = Microvm::start(&config).unwrap();
                    first.push(vm.facts().notes["first_run_us"].parse().unwrap());
                    let begun = Instant::now();
                    drop(vm);
                    gone.push(begun.elapsed().as_secs_f64() * 1e3);
                }
                let fastest = first.iter().copied().fold(f64::MAX, f64::min);
                let (first, gone) = (median(first), median(gone));
                say(&format!(
                    "guest {guest_page} {guest_tables:10} ranks {ranks}: first run after {:.2} ms (fastest {:.2}), \
                     dropped in {gone:.2} ms",
                    first / 1e3,
                    fastest / 1e3
                ));
            }
        }
    }
    for ranks in 1..=2 {
        let mut vm = Microvm::start(&Config::new(two_cpus()[..ranks].to_vec())).unwrap();
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        for _ in 0..500 {
            let begun = Instant::now();
            let record = vm.run(&Each(|_, _: &_, _| ()), 1).unwrap();
            outer.push(begun.elapsed().as_secs_f64() * 1e6);
            inner.push((record.times[0].end_ticks - record.times[0].start_ticks) as f64);
        }
        say(&format!("ranks {ranks}: empty run {:.1} us, its region {:.0} ticks", median(outer), median(inner)));
    }
}

#[test]
#[ignore = "prints figures"]
fn figures_of_exits() {
    let Some(_turn) = turn() else { return };
    let rate = ticks_per_us();
    let mut vm = Microvm::start(&Config::new(two_cpus()[..1].to_vec())).unwrap();
    let calls = Each(|_, _: &_, reps| {
        for _ in 0..reps {
            // SAFETY: asks for a number.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
    });
    let own = |record: &baremark_model::seam::RunRecord| {
        (record.times[0].end_ticks - record.times[0].start_ticks) as f64 / rate
    };
    let inside = median((0..9).map(|_| own(&vm.run(&calls, 1000).unwrap()) / 1e3).collect());
    let team = Team::new(1);
    let native = median(
        (0..9)
            .map(|_| timed_region(&calls, 0, &team, 1000, ticks))
            .map(|t| (t.end_ticks - t.start_ticks) as f64 / rate / 1e3)
            .collect(),
    );
    say(&format!("system call: native {native:.3} us, forwarded {inside:.1} us"));
    let config = Config { guest_page: PageSize::Small, ..Config::new(two_cpus()[..1].to_vec()) };
    let mut vm = Microvm::start(&config).unwrap();
    let mut buffer = Buffer::new(256 << 20, PageSize::Large);
    let words = Mutex::new(buffer.words());
    let touch = Each(|_, _: &_, _| words.lock().unwrap().iter_mut().step_by(1 << 18).for_each(|word| *word += 1));
    let first = vm.run(&touch, 1).unwrap();
    let second = vm.run(&touch, 1).unwrap();
    say(&format!(
        "guest page fault that fills a 4K table: {:.1} us each ({} faults); touched again {:.3} us",
        own(&first) / 128.0,
        first.audit.guest_page_faults,
        own(&second) / 128.0
    ));
}

#[test]
#[ignore = "prints figures"]
fn figures_of_leaves() {
    let Some(_turn) = turn() else { return };
    let bytes = 512 << 20;
    let rate = ticks_per_us();
    pin_current_thread(two_cpus()[1]).unwrap();
    for host in PAGES {
        for guest_page in PAGES {
            let mut buffer = Buffer::new(bytes, host);
            let huge = buffer.huge() >> 20;
            let config = Config { guest_page, ..Config::new(two_cpus()[1..].to_vec()) };
            let mut vm = Microvm::start(&config).unwrap();
            let begun = Instant::now();
            let audit = vm.touch(buffer.words()).unwrap().audit;
            let touched = begun.elapsed().as_secs_f64() * 1e3;
            let words = Mutex::new(buffer.words());
            let body = Each(|_, _: &_, reps| scatter(&mut words.lock().unwrap(), reps, 3));
            let updates = 1 << 22;
            let team = Team::new(1);
            let mut ratios = Vec::new();
            let mut region = None;
            vm.run(&body, updates).unwrap();
            for _ in 0..8 {
                let native = || {
                    let time = timed_region(&body, 0, &team, updates, ticks);
                    (time.end_ticks - time.start_ticks) as f64
                };
                let mut inside = || {
                    let record = vm.run(&body, updates).unwrap();
                    let time = record.times[0];
                    region = Some(record.audit);
                    (time.end_ticks - time.start_ticks) as f64
                };
                let (a, b, c, d) = (native(), inside(), inside(), native());
                ratios.push((b * c / a / d).sqrt());
            }
            let region = region.unwrap();
            let mut line = format!("guest {guest_page} host {host} ({huge} MiB huge): touch {touched:.0} ms; growth");
            for name in ["pages_4k", "pages_2m", "pages_1g", "pf_taken", "pf_fixed"] {
                write!(line, " {name}={}", audit.counters.get(name).copied().unwrap_or(0)).unwrap();
            }
            write!(line, "; random access ratio {:.3}; in the region:", median(ratios)).unwrap();
            for (name, growth) in region.counters.iter().filter(|(_, growth)| **growth > 0) {
                write!(line, " {name}={growth}").unwrap();
            }
            say(&line);
        }
    }
    say(&format!("clock {rate:.1} ticks/us"));
}

/// Random access over one buffer each, one after the other in every round: nanoseconds per update, and KVM's part in it.
#[test]
#[ignore = "prints figures"]
fn figures_of_random_access_by_leaf() {
    let Some(_turn) = turn() else { return };
    let (bytes, updates, rate) = (1usize << 30, 1u64 << 22, ticks_per_us());
    let cpu = two_cpus()[1];
    pin_current_thread(cpu).unwrap();
    let cases = [
        ("native, host 4k", PageSize::Small, None),
        ("native, host 2m", PageSize::Large, None),
        ("native, host 2m mapped by 4k entries", PageSize::Large, None),
        ("guest 4k, host 4k", PageSize::Small, Some(PageSize::Small)),
        ("guest 2m, host 4k", PageSize::Small, Some(PageSize::Large)),
        ("guest 4k, host 2m", PageSize::Large, Some(PageSize::Small)),
        ("guest 2m, host 2m", PageSize::Large, Some(PageSize::Large)),
    ];
    let mut arms: Vec<_> = cases
        .into_iter()
        .map(|(name, host, guest)| {
            let mut buffer = Buffer::new(bytes, host);
            if name.ends_with("4k entries") {
                buffer.split_entries();
            }
            let mut vm =
                guest.map(|guest_page| Microvm::start(&Config { guest_page, ..Config::new(vec![cpu]) }).unwrap());
            if let Some(vm) = &mut vm {
                vm.touch(buffer.words()).unwrap();
            }
            (name, buffer, vm, Vec::new())
        })
        .collect();
    let team = Team::new(1);
    for round in 0..12 {
        for (_, buffer, vm, found) in &mut arms {
            let words = Mutex::new(buffer.words());
            let body = Each(|_, _: &_, reps| scatter(&mut words.lock().unwrap(), reps, 3 + round));
            let time = match vm {
                Some(vm) => vm.run(&body, updates).unwrap().times[0],
                None => timed_region(&body, 0, &team, updates, ticks),
            };
            found.push((time.end_ticks - time.start_ticks) as f64 / rate * 1e3 / updates as f64);
        }
    }
    for (name, buffer, _, found) in arms {
        say(&format!("{name:40} {:6.2} ns per update ({} MiB in large entries)", median(found), buffer.huge() >> 20));
    }
}
