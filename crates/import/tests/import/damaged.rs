//! Damaged files are refused with their place, and nothing panics.

use crate::{FIXTURES, columns, csv, fixture, read, why};
use baremark_import::{ImportError, Imported};
use proptest::prelude::*;

/// Logs and tables without an end mark, whose values are in the order of the lines where the second is true: what is cut at the end of a
/// line is a shorter log, and is labelled so.
const LOGS: [(&str, bool); 4] =
    [("pgbench.log", false), ("pgbench-aggregate.log", false), ("criterion-raw.csv", true), ("times.csv", true)];

const OPEN_ENDED: &str = "the format has no end mark: whether the file is complete is unknown";

/// Whether an error names a line, column or byte.
fn has_place(why: &str) -> bool {
    ["line ", "byte "]
        .iter()
        .any(|word| why.split(word).skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))
}

/// Whether the values of `cut` are the first ones of `whole`, series by series.
fn begins(whole: &Imported, cut: &Imported) -> bool {
    cut.measured.iter().zip(&whole.measured).all(|(cut, whole)| {
        (&cut.benchmark, &cut.metric) == (&whole.benchmark, &whole.metric) && whole.values.starts_with(&cut.values)
    })
}

/// Every cut of every file. Before, 66 and more of them gave another value, such as 149 in place of 1494.87.
/// They were passed over.
#[test]
fn columns_are_of_csv_alone() {
    let whole = fixture("iperf3-udp.json");
    let refused = read(whole.as_bytes(), Some("iperf3"), &columns("test,seconds:lower:s")).expect_err("it has none");
    assert_eq!(refused.to_string(), "--columns are of CSV files: the format is iperf3; leave one of both out");
}

#[test]
fn a_file_that_was_cut_off_is_refused_or_gives_the_same_values() {
    let table = [("times.csv", "csv")];
    for (name, format) in FIXTURES.iter().chain(&table) {
        let columns = if *format == "csv" { columns("test,seconds:lower:s,rate:higher:1/s") } else { Vec::new() };
        let whole = fixture(name);
        let log = LOGS.iter().find(|(log, _)| log == name).map(|(_, in_order)| *in_order);
        let expected = read(whole.as_bytes(), Some(format), &columns).unwrap();
        assert_eq!(
            expected.notes.iter().any(|note| note == OPEN_ENDED),
            log.is_some() || *name == "criterion-messages.json"
        );
        for length in 0..whole.len() {
            let bytes = &whole.as_bytes()[..length];
            // Whichever format is recognised; where that is its own, it is read so once.
            let cut = read(bytes, None, &columns);
            let is_own = match &cut {
                Ok(cut) => cut.format == *format,
                Err(ImportError::Damaged { format: of, .. }) => of == format,
                Err(_) => false,
            };
            if is_own || cut.is_ok() {
                cut_to(name, &expected, bytes, log, cut.map_err(|why| why.to_string()));
            }
            if !is_own {
                let cut = read(bytes, Some(format), &columns);
                cut_to(name, &expected, bytes, log, cut.map_err(|why| why.to_string()));
            }
        }
    }
}

fn cut_to(name: &str, expected: &Imported, bytes: &[u8], log: Option<bool>, cut: Result<Imported, String>) {
    let length = bytes.len();
    match cut {
        Err(refused) => assert!(has_place(&refused), "{name} cut to {length}: {refused}"),
        Ok(cut) if cut.measured == expected.measured => {}
        Ok(cut) => {
            let Some(in_order) = log else { panic!("{name} cut to {length} bytes: {:?}", cut.measured) };
            assert!(bytes.ends_with(b"\n"), "{name} cut to {length} bytes within a line was taken");
            assert!(cut.notes.iter().any(|note| note == OPEN_ENDED), "{name} cut to {length}: {:?}", cut.notes);
            assert!(!in_order || begins(expected, &cut), "{name} cut to {length}: {:?}", cut.measured);
        }
    }
}

#[test]
fn what_a_cut_leaves_open_is_refused() {
    let raw = "HPL_Tflops=0.0058\nStarSTREAM_Triad=85.9039\n";
    assert!(read(raw.as_bytes(), Some("hpcc"), &[]).unwrap().notes.iter().any(|note| note == OPEN_ENDED));
    let cut = read(raw.trim_end().as_bytes(), Some("hpcc"), &[]).unwrap_err().to_string();
    assert!(cut.contains("line 2: the last line has no line feed: the file was cut off"), "{cut}");
    let table = |text: &str| csv(text, "test,seconds:lower");
    assert!(table("test,seconds\n\"two\nlines\",1.5\n").is_ok());
    let quote = table("test,seconds\nparse,1.5\n\"two\n").unwrap_err().to_string();
    assert!(quote.contains("line 3: a field has an opening quote and no closing one"), "{quote}");
    let last = table("test,seconds\nparse,1.5\nparse,1.5\"").unwrap_err().to_string();
    assert!(last.contains("the last line has no line feed"), "{last}");
    // The last row of the reader is not a row of the file.
    assert!(table("test,seconds\n\u{1e}end of file\u{1e}\n").unwrap_err().to_string().contains("has 1 of 2 columns"));
    let group = fixture("criterion-messages.json").replace("\"sort/stable/100\",\"sort", "\"sort/other\",\"sort");
    assert!(why(&group).contains("line 5: : sort/other is of this group and was not reported"), "{}", why(&group));
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
        ("k6-summary.json", "\"metrics\": {", "\"metrics\": [{", "expected `,` or `]`"),
        ("iperf3.json", "\"end\":\t{", "\"ende\":\t{", "missing field `end`"),
        ("hpcc.txt", "HPL_Tflops=0", "HPL_Tflops=x", "behind 'HPL_Tflops' is not a number"),
        ("hpcc.txt", "End of Summary section.", "Begin of Summary section.", ": a second summary"),
        ("phoronix.xml", ":0.127:", ":0,127:", "line 53: '0,127' of '0.2921:0,127:0.0969' is not a number"),
        ("phoronix.xml", "</Entry>", "</Entri>", "line 49, column"),
        ("phoronix.csv", ",0.1939,0.1720", ",0.1939", "line 14: has 1 values for 2 systems"),
        (
            "stress-ng.yaml",
            "time: 546.913950",
            "time: many",
            "line 31: 'many' behind 'bogo-ops-per-second-real-time' is not a number",
        ),
        (
            "stress-ng.yaml",
            "cpus-online: 2",
            "cpus-online: two",
            "line 24: 'two' behind 'cpus-online:' is not a whole number",
        ),
        (
            "stress-ng.yaml",
            "    - stressor: cpu\n",
            "",
            "line 29: 'bogo-ops-per-second-usr-sys-time' belongs to no stressor",
        ),
        ("stress-ng.yaml", "\n...", "", "the file ends without '...'; it was cut off"),
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
