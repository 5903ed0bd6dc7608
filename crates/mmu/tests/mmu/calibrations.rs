//! Calibrations: files that come back as they were, what they change, and files that are none.

use baremark_mmu::calibration::Calibration;
use baremark_mmu::machine::{self, Range};
use baremark_mmu::page::Page::Small;
use baremark_mmu::predict::{Effort, Known, Prediction, Question, predict};
use baremark_mmu::prior::priors;
use baremark_mmu::random::Random;
use baremark_mmu::scheme::Scheme;
use baremark_mmu::stream::{RandomAccess, Stream};

fn measured() -> Calibration {
    let range = |low, high| Range { low, high };
    Calibration {
        machine: "zen-4".to_owned(),
        processor: "AMD EPYC 9R14".to_owned(),
        date: "2026-11-21T08:00:00Z".to_owned(),
        run: "20261121-080000-abcd".to_owned(),
        places: [range(1.25, 1.5), range(4.0, 4.5), range(14.0, 16.0), range(120.0, 126.0)],
        walked: Some((512 << 20, range(150.0, 156.0))),
        fault: Some(range(600.0, 650.0)),
    }
}

fn told(text: &str) -> String {
    Calibration::parse("machine.toml", text).err().unwrap().to_string()
}

#[test]
fn a_calibration_is_written_and_read_again() {
    let whole = measured();
    assert_eq!(Calibration::parse("machine.toml", &whole.to_string()), Ok(whole.clone()));
    let least = Calibration { walked: None, fault: None, ..whole };
    assert_eq!(Calibration::parse("machine.toml", &least.to_string()), Ok(least));
}

#[test]
fn a_calibration_that_is_none_is_refused_with_its_line() {
    let text = measured().to_string();
    let replaced = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} in {text}");
        told(&text.replacen(from, to, 1))
    };
    assert!(replaced("l1_ns = [1.250, 1.500]", "l1_ns = [200, 300]").contains("latencies must grow from L1 to memory"));
    assert!(replaced("l2_ns", "l2_n").contains("unknown key 'l2_n' in [latency]; did you mean 'l2_ns'?"));
    assert!(replaced("bytes = \"512 MiB\"", "bytes = 512").contains("invalid bytes = 512 in [chase]; write text"));
    assert!(replaced("[fault]\nns = [600.0, 650.0]", "[fault]\nns = [650.0, 600.0]").contains("[low, high]"));
    let torn = told(&text[..text.find("l3_ns").unwrap()]);
    assert!(torn.contains("'l3_ns' is missing in [latency]"), "{torn}");
    assert!(told("once upon a time").contains("in 'once upon a time'"));
}

#[test]
fn measured_latencies_stand_in_for_assumed_ones() {
    let (mut machine, mut priors) = (machine::known("zen-4").unwrap(), priors().unwrap());
    measured().apply(&mut machine, &mut priors);
    assert_eq!(priors.fault_ns, Range { low: 600.0, high: 650.0 });
    for seed in 0..50 {
        let places = machine.draw_timing(&mut Random::new(seed)).place_ns;
        let inside = places.iter().zip(&measured().places).all(|(ns, range)| range.contains(*ns));
        assert!(inside && places.is_sorted(), "{places:?}");
    }
}

#[test]
fn a_measured_chase_weighs_the_draws_of_other_kernels() {
    let (machine, priors) = (machine::known("zen-4").unwrap(), priors().unwrap());
    let stream = || -> Box<dyn Stream> { Box::new(RandomAccess::new(1 << 28).unwrap()) };
    let asked = |known: Vec<Known>| -> Prediction {
        predict(&Question {
            work_ns: Range { low: 0.3, high: 1.0 },
            known,
            effort: Effort { structures: 6, draws: 60, accesses: 1 << 13, seed: 1 },
            ..Question::new(&machine, &priors, &stream, vec![Scheme::Native { page: Small }])
        })
        .unwrap()
    };
    let free = asked(Vec::new());
    let [mut known] = <[Known; 1]>::try_from(measured().known()).unwrap();
    assert!((known.ns.low - 142.5).abs() < 0.1, "widened to what a model can tell: {known:?}");
    known.ns = Range { low: 120.0, high: 140.0 };
    let held = asked(vec![known]);
    assert!(
        held.effective_draws < 0.9 * free.effective_draws && held.effective_draws > 1.0,
        "{}",
        held.effective_draws
    );
}

#[test]
fn files_cut_anywhere_are_read_or_refused_with_a_reason() {
    let whole = measured().to_string();
    for text in [include_str!("../../machines/zen-4.toml"), &whole] {
        (0..text.len()).step_by(7).for_each(|end| crate::fuzzed::machine(&text.as_bytes()[..end]));
    }
    for text in [
        &include_bytes!("../../../../fuzz/corpus/trace/hello")[..],
        &include_bytes!("../../../../fuzz/corpus/trace/distances")[..],
    ] {
        (0..=text.len()).for_each(|end| crate::fuzzed::trace(&text[..end]));
    }
}
