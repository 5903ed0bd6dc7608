//! Damaged files are refused with their place, and nothing panics.

use crate::{FIXTURES, csv, fixture, why};
use baremark_import::read;
use proptest::prelude::*;

/// Formats whose files are logs: what is cut at the end of a line is a shorter log.
fn is_log(name: &str) -> bool {
    ["pgbench.log", "pgbench-aggregate.log", "criterion-messages.json", "criterion-raw.csv", "phoronix.csv"]
        .contains(&name)
}

/// Whether an error names a line, column or byte.
fn has_place(why: &str) -> bool {
    ["line ", "byte "]
        .iter()
        .any(|word| why.split(word).skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))
}

#[test]
fn a_file_that_was_cut_off_is_refused_with_its_place() {
    for (name, format) in FIXTURES.iter().filter(|(name, _)| !is_log(name)) {
        let whole = fixture(name);
        let last = whole.trim_end().len();
        // What follows the summary of HPCC, or its last figure of others, is not missed.
        let needed = match *format {
            "hpcc" => whole.find("End of Summary section.").unwrap(),
            "wrk" => whole.find("Requests/sec:").unwrap(),
            "sysbench" => whole.find("execution time (avg/stddev):").unwrap(),
            "pgbench" => whole.find("tps = ").unwrap(),
            _ => last - 1,
        };
        let step = needed.div_ceil(400).max(1);
        for length in (1..=needed).step_by(step).filter(|length| whole.is_char_boundary(*length)) {
            let cut = read(&whole.as_bytes()[..length], Some(format), &[]);
            let Err(refused) = cut else { panic!("{name} cut to {length} of {last} bytes was taken") };
            assert!(has_place(&refused.to_string()), "{name} cut to {length}: {refused}");
        }
    }
}

#[test]
fn places_are_those_of_the_damage() {
    for (name, from, to, says) in [
        ("fio.json", "\"jobname\" : \"readers\"", "\"jobname\" : 7", "invalid type: integer `7`, expected a string"),
        ("hyperfine.json", "\"times\": [", "\"times\": [\"x\",", "invalid type: string"),
        (
            "google-benchmark.json",
            "\"real_time\": 1.2674148060137202e+03",
            "\"real_time\": true",
            "line 49, column 23: invalid type: boolean",
        ),
        ("criterion-messages.json", "[64009790.0,", "[", "line 2: sort/unstable/100: 12 iteration counts for 11 times"),
        ("pgbench.txt", "tps = 357", "tps = many 357", "line 13: 'many 357.847049"),
        ("pgbench.log", " 0 1795378778", " zero 1795378778", "line 1: 'zero'"),
        ("sysbench-cpu.txt", "avg:                                    0.33", "avg:    -", "is not a number"),
        ("wrk.txt", "1.56ms", "1.56parsecs", "line 4: '1.56parsecs' behind 'Latency' is not a time"),
        ("k6-summary.json", "\"metrics\": {", "\"metrics\": [{", "invalid type"),
        ("iperf3.json", "\"end\":\t{", "\"ende\":\t{", "missing field `end`"),
        ("hpcc.txt", "HPL_Tflops=0", "HPL_Tflops=x", "behind 'HPL_Tflops' is not a number"),
        ("hpcc.txt", "End of Summary section.", "Begin of Summary section.", ": a second summary"),
        ("phoronix.xml", ":0.127:", ":0,127:", "line 53: '0,127' of '0.2921:0,127:0.0969' is not a number"),
        ("phoronix.xml", "</Entry>", "</Entri>", "line 49, column"),
        ("phoronix.csv", ",0.1939,0.1720", ",0.1939", "line 14: has 1 values for 2 systems"),
    ] {
        let whole = fixture(name);
        assert!(whole.contains(from), "{name} has no {from}");
        let refused = why(&whole.replacen(from, to, 1));
        assert!(refused.contains(says) && has_place(&refused), "{name}: {refused}");
    }
    let refused = csv("test,seconds\nparse,0.1\nwrite\n", "test,seconds:lower").unwrap_err().to_string();
    assert!(refused.contains("line 3: has 1 of 2 columns"), "{refused}");
    let refused = csv("test,seconds\nparse,0.1\nwrite,soon\n", "test,seconds:lower").unwrap_err().to_string();
    assert!(refused.contains("line 3: column seconds: 'soon'"), "{refused}");
    let refused = csv("test,seconds\nparse,-1\n", "test,seconds:lower").unwrap_err().to_string();
    assert!(refused.contains("-1 is not a positive number"), "{refused}");
    let refused = read(b"{\"fio version\": \"\xff\"}", None, &[]).unwrap_err().to_string();
    assert_eq!(refused, "fio: byte 17: is not UTF-8; convert it with iconv -t UTF-8");
    assert!(why("sysbench 1.0.20\n").contains("line 1: the file ends without 'avg:'"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a byte is changed to, the file is refused, or its values are positive numbers.
    #[test]
    fn a_changed_byte_never_gives_nonsense(file in 0..FIXTURES.len(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (name, format) = FIXTURES[file];
        let mut bytes = fixture(name).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(imported) = read(&bytes, Some(format), &[]) {
            let mut values = imported.measured.iter().flat_map(|of| &of.values);
            prop_assert!(values.all(|value| value.is_finite() && *value > 0.0), "{name} byte {at} = {byte}");
        }
    }
}
