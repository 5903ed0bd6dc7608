//! Small guest pages on large memory against native small pages, taken apart: what the virtual machine does, and what the memory
//! beneath it does. Native and guest run over the *same* pages; native runs over pages that lie in order, shuffled, and as they
//! were touched. Several allocations tell what differs between pieces of memory from what differs between arrangements.
//!
//! `cargo test --release -p baremark-microvm --test measured -- --ignored --nocapture --test-threads=1 figures_of_the_telling`

use crate::bodies::{Each, scatter};
use crate::figures::{median, say, ticks_per_us};
use crate::host::Buffer;
use crate::support::{turn, two_cpus};
use baremark_microvm::{Config, Microvm};
use baremark_model::page_size::PageSize;
use baremark_model::seam::{Executor, timed_region};
use baremark_model::team::Team;
use baremark_sys::affinity::pin_current_thread;
use baremark_sys::clock::ticks;
use std::sync::Mutex;

const UPDATES: u64 = 1 << 20;
const ROUNDS: u64 = 15;
const ALLOCATIONS: usize = 5;
const BYTES: usize = 512 << 20;
/// So little that every page may be a mapping of its own, of which a process has at most 65530.
const SHUFFLED_BYTES: usize = 128 << 20;

/// A buffer, the virtual machine that runs over it if one does, and nanoseconds per update by round.
struct Arm<'b> {
    words: &'b Mutex<&'b mut [u64]>,
    vm: Option<Microvm>,
    ns: Vec<f64>,
}

impl<'b> Arm<'b> {
    fn native(words: &'b Mutex<&'b mut [u64]>) -> Self {
        Arm { words, vm: None, ns: Vec::new() }
    }

    fn guest(words: &'b Mutex<&'b mut [u64]>, guest_page: PageSize) -> Self {
        let mut vm = Microvm::start(&Config { guest_page, ..Config::new(vec![two_cpus()[1]]) }).unwrap();
        vm.touch(&mut words.lock().unwrap()).unwrap();
        Arm { words, vm: Some(vm), ns: Vec::new() }
    }
}

/// The least of each arm, which other work disturbs least; arms take turns.
fn measure<const N: usize>(mut arms: [Arm<'_>; N], rate: f64) -> [f64; N] {
    let team = Team::new(1);
    for round in 0..ROUNDS {
        for arm in &mut arms {
            let body = Each(|_, _: &_, reps| scatter(&mut arm.words.lock().unwrap(), reps, 3 + round));
            let time = match &mut arm.vm {
                Some(vm) => vm.run(&body, UPDATES).unwrap().times[0],
                None => timed_region(&body, 0, &team, UPDATES, ticks),
            };
            arm.ns.push((time.end_ticks - time.start_ticks) as f64 / rate * 1e3 / UPDATES as f64);
        }
    }
    arms.map(|arm| arm.ns.into_iter().fold(f64::INFINITY, f64::min))
}

fn told(name: &str, ratios: &[f64]) {
    let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.3}")).collect();
    say(&format!("{name:78} {:.3}  of {}", median(ratios.to_vec()), each.join(" ")));
}

#[test]
#[ignore = "prints figures"]
fn figures_of_the_telling_cell() {
    let Some(_turn) = turn() else { return };
    let rate = ticks_per_us();
    pin_current_thread(two_cpus()[1]).unwrap();
    let [mut whole, mut same, mut memory, mut cell, mut entries, mut shuffled]: [Vec<f64>; 6] = Default::default();
    let mut levels: [Vec<f64>; 3] = Default::default();
    for _ in 0..ALLOCATIONS {
        let (mut large, mut small) = (Buffer::new(BYTES, PageSize::Large), Buffer::new(BYTES, PageSize::Small));
        let asked = (large.huge(), small.huge());
        {
            let (words, small_words) = (Mutex::new(large.words()), Mutex::new(small.words()));
            let arms = [Arm::native(&words), Arm::guest(&words, PageSize::Small), Arm::native(&small_words)];
            let [large_entries, guest, native] = measure(arms, rate);
            cell.push(guest / native);
            whole.push(guest / large_entries);
        }
        large.split_entries();
        let (words, small_words) = (Mutex::new(large.words()), Mutex::new(small.words()));
        let arms = [Arm::native(&words), Arm::guest(&words, PageSize::Small), Arm::native(&small_words)];
        let [split, guest, native] = measure(arms, rate);
        same.push(guest / split);
        memory.push(split / native);
        levels[0].push(split);
        levels[1].push(native);
        levels[2].push(guest);
        assert!(asked.1 == 0, "small pages were asked for");
        say(&format!(
            "allocation of {} MiB in large pages: split {split:.2}, native {native:.2}, guest {guest:.2} ns",
            asked.0 >> 20
        ));
    }
    for _ in 0..ALLOCATIONS {
        let mut buffer = Buffer::new(SHUFFLED_BYTES, PageSize::Large);
        buffer.split_entries();
        let before = measure([Arm::native(&Mutex::new(buffer.words()))], rate)[0];
        buffer.shuffle_pages();
        let after = measure([Arm::native(&Mutex::new(buffer.words()))], rate)[0];
        shuffled.push(after / before);
        let mut other = Buffer::new(SHUFFLED_BYTES, PageSize::Small);
        entries.push(measure([Arm::native(&Mutex::new(other.words()))], rate)[0] / before);
    }
    told("guest 4k on host 2m / native 4k, memory of their own: the telling cell", &cell);
    told("guest 4k / native, the same memory in small entries: the virtual machine alone", &same);
    told("native, large memory in small entries / native 4k: the memory alone", &memory);
    told("guest 4k on host 2m / native 2m, the same memory: page sizes", &whole);
    told("native, the same small pages shuffled / in order (128 MiB)", &shuffled);
    told("native 4k as touched / large memory in small entries (128 MiB)", &entries);
    for (name, level) in ["large memory in small entries", "native 4k", "guest 4k"].iter().zip(levels) {
        let (low, high) = level.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), ns| (low.min(*ns), high.max(*ns)));
        say(&format!("{name}: {low:.2} to {high:.2} ns an update over {ALLOCATIONS} allocations"));
    }
}
