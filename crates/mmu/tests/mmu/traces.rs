//! Recorded traces, their samples and histograms; and traces that are none.

use baremark_mmu::histogram::Histogram;
use baremark_mmu::stream::{BlockedUpdate, Chase, RandomAccess, Stream, StreamError, Touch, Triad};
use baremark_mmu::trace::{Sampling, Trace, TraceError, Windows};
use proptest::prelude::*;
use std::collections::HashSet;
use std::fmt::Write;
use std::io::Cursor;

fn read(text: &str) -> Result<Trace, TraceError> {
    Trace::read(Cursor::new(text.as_bytes()), Sampling::default())
}

fn take(stream: &mut dyn Stream, count: usize) -> Vec<u64> {
    let mut block = vec![0; count];
    stream.fill(&mut block);
    block
}

const HELLO: &str = "\
==7== Lackey, an example Valgrind tool
==7==
I  04001090,3
 S 1ffefffdf8,8
I  04001093,5
 L 04222c88,8
 M 0421f9a0,4
==7== Exit code:       0
";

#[test]
fn a_trace_is_read_as_valgrind_writes_it() {
    let trace = read(HELLO).unwrap();
    assert_eq!(trace.addresses(), [0x1f_feff_fdf8, 0x0422_2c88, 0x0421_f9a0]);
    assert_eq!((trace.accesses, trace.instructions), (3, 2));
    assert_eq!(trace.stream().footprint(), 3 * 4096);
    assert_eq!(take(&mut trace.stream(), 4)[3], 0x1f_feff_fdf8, "it begins anew");
}

#[test]
fn traces_that_are_none_are_refused_with_their_line() {
    let told = |text: &str| read(text).err().unwrap().to_string();
    assert!(told("hello\n").starts_with("line 1 is 'hello'; a trace of valgrind"));
    assert!(told(&HELLO.replace(" L 04222c88,8", " L 0xz,8")).starts_with("line 6 is ' L 0xz,8'"));
    assert!(told(&HELLO.replace(" M 0421f9a0,4", " X 0421f9a0,4")).starts_with("line 7"));
    assert!(told("I  04001090,3\n L 04").starts_with("the trace ends within line 2: it is truncated"));
    assert!(told("I  04001090,3\n L 0422,8").contains("truncated"), "an address may be cut, too");
    assert!(told("==7== nothing\n").contains("no loads and no stores"));
    assert!(told("").contains("no loads and no stores"));
    assert!(told(&"\u{1}".repeat(1 << 20)).starts_with("line 1 is"), "a file without line breaks is not loaded whole");
    let odd = Trace::read(Cursor::new(HELLO), Sampling { window: 0, windows: 16 }).err().unwrap();
    assert!(odd.to_string().contains("0 accesses"), "{odd}");
}

#[test]
fn a_long_trace_is_thinned_to_windows_spread_over_all_of_it() {
    let mut text = String::new();
    for access in 0..10_000 {
        writeln!(text, " L {access:x},8").unwrap();
    }
    let sampling = Sampling { window: 10, windows: 8 };
    let trace = Trace::read(Cursor::new(text), sampling).unwrap();
    assert_eq!(trace.accesses, 10_000);
    let kept = trace.addresses();
    assert!((30..=80).contains(&kept.len()), "{}", kept.len());
    for window in kept.chunks(10) {
        assert!(window.windows(2).all(|pair| pair[1] == pair[0] + 1), "a window is consecutive: {window:?}");
    }
    let starts: Vec<u64> = kept.chunks(10).map(|window| window[0]).collect();
    let steps: HashSet<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps.len(), 1, "evenly spaced: {starts:?}");
    assert!(*starts.last().unwrap() > 7_000, "to the end: {starts:?}");
}

#[test]
fn windows_know_their_share_of_the_program() {
    let sampling = Sampling { window: 10, windows: 8 };
    let of = |accesses: u64, whole| Trace::sample(0..accesses, sampling).unwrap().windows(whole);
    assert_eq!(of(19, true), None, "one window shows nothing of how a program changes");
    assert_eq!(of(80, true), Some(Windows { count: 8, length: 10, share: 1.0 }));
    // Every second window of 160 accesses.
    assert_eq!(of(160, true), Some(Windows { count: 8, length: 10, share: 0.5 }));
    assert_eq!(of(160, false), Some(Windows { count: 8, length: 10, share: 0.0 }), "the program would have gone on");
    let mut stream = Trace::sample(0..160, sampling).unwrap().stream();
    stream.skip(25);
    assert_eq!(take(&mut stream, 2), [45, 46], "windows 0, 2 and 4, of which five are left out");
    stream.skip(80);
    assert_eq!(take(&mut stream, 1), [47], "it begins anew");
    let (mut skipped, mut drawn) = (RandomAccess::new(1 << 20).unwrap(), RandomAccess::new(1 << 20).unwrap());
    skipped.skip(3000);
    take(&mut drawn, 3000);
    assert_eq!(take(&mut skipped, 1), take(&mut drawn, 1));
}

fn obvious(addresses: &[u64], power: usize) -> f64 {
    let mut stack: Vec<u64> = Vec::new();
    let mut misses = 0;
    for page in addresses.iter().map(|address| address >> 12) {
        match stack.iter().position(|there| *there == page) {
            Some(at) if at < 1 << power => {
                stack.remove(at);
            }
            Some(at) => {
                misses += 1;
                stack.remove(at);
            }
            None => misses += 1,
        }
        stack.insert(0, page);
    }
    f64::from(misses) / addresses.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn distances_tell_the_misses_of_a_tlb(pages in prop::collection::vec(0_u64..40, 1..300), power in 0_usize..7) {
        let addresses: Vec<u64> = pages.iter().map(|page| page << 12 | 8).collect();
        let histogram = Histogram::of(&addresses);
        prop_assert_eq!(histogram.misses(power), Some(obvious(&addresses, power)));
        prop_assert_eq!(histogram.to_string().parse(), Ok(histogram));
    }

    #[test]
    fn strangers_make_no_panic(text in "(baremark page distances 1\n)?([a-z0-9 ]{0,12}\n){0,5}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = text.parse::<Histogram>();
        let _ = Trace::read(Cursor::new(text), Sampling::default());
        let _ = Trace::read(Cursor::new(bytes), Sampling::default());
    }
}

#[test]
fn a_stream_made_from_a_histogram_has_its_distances() {
    let mut chase = Chase::new(1 << 22).unwrap();
    let histogram = Histogram::of(&take(&mut chase, 50_000));
    let again = Histogram::of(&take(&mut histogram.stream(3), 50_000));
    for power in [4, 6, 8, 9] {
        let (was, is) = (histogram.misses(power).unwrap(), again.misses(power).unwrap());
        assert!((was - is).abs() < 0.02, "2^{power} entries: {was} and {is}");
    }
    let wrong = "baremark page distances 1\nfirst 3\n99 1\n".parse::<Histogram>().err().unwrap();
    assert!(wrong.to_string().starts_with("line 3: '99 1'"), "{wrong}");
}

#[test]
fn streams_stay_in_their_buffers_and_are_what_they_are_named() {
    let span = |addresses: &[u64]| addresses.iter().max().unwrap() - addresses.iter().min().unwrap();
    let updates = take(&mut RandomAccess::new(1 << 20).unwrap(), 100_000);
    assert!(span(&updates) < 1 << 20);
    let pages: HashSet<u64> = updates.iter().map(|address| address >> 12).collect();
    assert_eq!(pages.len(), 256, "every page of the table is updated");
    let triad = take(&mut Triad::new(4096).unwrap(), 3 * 512 + 1);
    assert_eq!(triad[1] - triad[0], 4096);
    assert_eq!((triad[3] - triad[0], triad[3 * 512]), (8, triad[0]));
    assert!(span(&take(&mut Chase::new(8192).unwrap(), 1000)) < 8192);
    let update = take(&mut BlockedUpdate::new(64, 8).unwrap(), 65);
    assert_eq!((update[1] - update[0], update[64] - update[0]), (512, 64), "down the columns, then the next rows");
    assert_eq!(take(&mut Touch::new(8192).unwrap(), 3), [0x7f00_0000_0000, 0x7f00_0000_1000, 0x7f00_0000_0000]);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    assert_eq!(RandomAccess::new(3 << 20).err(), Some(StreamError::Table(3 << 20)));
    assert_eq!(Triad::new(0).err(), Some(StreamError::Buffer(0)));
    assert!(Chase::new(100).is_err() && BlockedUpdate::new(1000, 0).is_err() && BlockedUpdate::new(8, 9).is_err());
}
