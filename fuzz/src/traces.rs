//! What must hold of the page-walk model's readers for any bytes at all.

use baremark_mmu::calibration::Calibration;
use baremark_mmu::histogram::Histogram;
use baremark_mmu::machine;
use baremark_mmu::stream::Stream;
use baremark_mmu::trace::{Sampling, Trace};
use std::io::Cursor;

/// A trace: a sample no larger than asked, or a refusal that says something. The same bytes as page distances: a stream of as many
/// pages as were first used, or a refusal; what was read is written and read again as the same.
///
/// # Panics
/// When that does not hold.
pub fn trace(data: &[u8]) {
    let sampling = Sampling { window: 4, windows: 4 };
    match Trace::read(Cursor::new(data), sampling) {
        Ok(trace) => {
            assert!((1..=16).contains(&trace.addresses().len()), "{} kept", trace.addresses().len());
            assert!(trace.accesses >= trace.addresses().len() as u64);
            trace.stream().fill(&mut [0; 40]);
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    let text = String::from_utf8_lossy(data);
    match text.parse::<Histogram>() {
        Ok(histogram) => assert_eq!(histogram.to_string().parse(), Ok(histogram)),
        Err(why) => assert!(why.line <= text.lines().count() + 1, "{why}"),
    }
}

/// A machine's file or a calibration: read, or refused with lines that exist and remedies that say something.
///
/// # Panics
/// When that does not hold.
pub fn machine(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let refused = [machine::parse("fuzz", &text).err(), Calibration::parse("fuzz.toml", &text).err()];
    for problem in refused.iter().flatten().flat_map(|problems| &problems.list) {
        assert!(problem.line <= text.lines().count() + 1, "{problem:?}");
        assert!(!problem.what.trim().is_empty() && !problem.remedy.trim().is_empty(), "{problem:?}");
    }
}
