//! esxtop's batch output: as it is written, cut off, odd, huge, and other files.

use baremark_model::imported::{Imported, ImportedSeries};
use baremark_observe::esxtop::{Choice, EsxtopError, list, read};
use proptest::prelude::*;
use std::io::{self, Read};

const HEADING: &str = concat!(
    r#""(PDH-CSV 4.0) (UTC)(0)","\\esx1\Memory\Memory Overcommit (1 Minute Avg)","\\esx1\Physical Cpu(_Total)\% Util Time","#,
    r#""\\esx1\Physical Cpu(0)\% Util Time","\\esx1\Group Cpu(12:web01, ""big"")\% Ready","#,
    r#""\\esx1\Physical Disk Adapter(vmhba0)\Commands/sec","\\esx1\Physical Disk Adapter(vmhba1)\Commands/sec","#,
    r#""\\esx1\Network Port(vSwitch0:33554434:vmnic0)\Packets Received/sec","#,
    r#""\\esx1\Network Port(vSwitch0:33554437:web01)\Packets Received/sec","#,
    r#""\\esx1\Network Port(vSwitch0:33554434:vmnic0)\MBits Received/sec""#,
    "\n"
);

fn row(second: u32, values: [f64; 9]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("\"{value:.2}\"")).collect();
    format!("\"11/21/2026 06:{:02}:{:02}\",{}\n", second / 60, second % 60, values.join(","))
}

fn file(rows: u32) -> String {
    let row = |n: u32| row(5 * n, [0.5, f64::from(40 + n), 1.0, 2.5, 100.0, 50.0, 71_000.0, 9.0, 120.0]);
    (0..rows).map(row).fold(HEADING.to_owned(), |text, row| text + &row)
}

fn of(text: &str) -> Imported {
    read(text.as_bytes(), &Choice::default()).unwrap()
}

fn why(text: impl AsRef<[u8]>) -> String {
    read(text.as_ref(), &Choice::default()).unwrap_err().to_string()
}

#[track_caller]
fn series<'i>(imported: &'i Imported, quantity: &str, instance: &str) -> &'i ImportedSeries {
    let all = || imported.series.iter().map(|series| format!("{}:{}", series.quantity, series.instance));
    let found = imported.series.iter().find(|series| series.quantity == quantity && series.instance == instance);
    found.unwrap_or_else(|| panic!("no {quantity} of {instance} among {:?}", all().collect::<Vec<_>>()))
}

#[test]
fn the_usual_columns_and_their_sums_are_taken() {
    let imported = of(&file(3));
    assert_eq!((imported.host.as_str(), imported.rows, imported.seconds), ("esx1", 3, 10.0));
    assert_eq!(imported.began_unix_ns, 1_795_240_800_000_000_000, "2026-11-21 06:00 UTC");
    assert_eq!(imported.notes, [""; 0]);
    let utilization = series(&imported, "cpu.utilization", "");
    assert_eq!((utilization.n, utilization.mean, utilization.min, utilization.max), (3, 41.0, 40.0, 42.0));
    assert_eq!(utilization.points, [[0.0, 40.0], [5.0, 41.0], [10.0, 42.0]]);
    assert_eq!(series(&imported, "disk.iops", "").mean, 150.0, "both adapters");
    assert_eq!(series(&imported, "net.receive_packets", "").mean, 71_000.0, "physical ports alone");
    assert_eq!(series(&imported, "net.receive_mb_per_s", "").mean, 15.0, "120 Mbit/s");
    assert_eq!(series(&imported, "esxtop.Physical Cpu % Util Time", "_Total").unit, "%");
    assert!(!imported.series.iter().any(|series| series.quantity.contains("Ready")), "nobody asked for it");
}

#[test]
fn other_columns_are_taken_when_they_are_named_and_times_are_shifted() {
    let choice = Choice { containing: vec!["% ready".to_owned()], shift_ns: -3_600_000_000_000 };
    let imported = read(file(2).as_bytes(), &choice).unwrap();
    assert_eq!(series(&imported, "esxtop.Group Cpu % Ready", "12:web01, \"big\"").mean, 2.5);
    assert_eq!(imported.began_unix_ns, 1_795_240_800_000_000_000 - 3_600_000_000_000);
    let counters = list(file(1).as_bytes()).unwrap();
    assert!(counters.contains(&("Physical Disk Adapter\\Commands/sec".to_owned(), 2)), "{counters:?}");
}

#[test]
fn a_file_cut_anywhere_is_taken_as_far_as_it_goes() {
    let whole = file(4);
    let full = of(&whole);
    let first_row = HEADING.len() + whole[HEADING.len()..].find('\n').unwrap() + 1;
    for length in first_row..whole.len() {
        let imported = of(&whole[..length]);
        assert!(imported.rows >= 1 && imported.rows <= 4);
        let utilization = series(&imported, "cpu.utilization", "");
        assert!(
            utilization
                .points
                .iter()
                .zip(&series(&full, "cpu.utilization", "").points)
                .all(|(cut, whole)| cut == whole)
        );
    }
    let cut = of(&whole[..whole.len() - 20]);
    assert_eq!(cut.notes, ["row 5: 1 row of those that have too few fields and are taken as far as they go"]);
}

#[test]
fn odd_rows_are_skipped_and_told() {
    let good = row(30, [0.5; 9]);
    let text = file(2)
        + "\"not a time\",\"1\"\n"
        + &row(1, [9.0; 9])
        + &good.replace("0.50", "-1.#IND")
        + &row(40, [0.5; 9]).replace('\n', ",\"7\"\n")
        + HEADING
        + &row(50, [0.5; 9]);
    let imported = of(&text);
    assert_eq!(imported.rows, 5);
    assert_eq!(
        imported.notes,
        [
            "row 5: 1 row of those that are no later than the row before and are skipped: the clock was set back",
            "row 6: 1 row of those that have a field that is not a number, which is left out",
            "row 4: 1 row of those that have no time of the form 11/21/2026 06:51:42 and are skipped",
            "row 7: 1 row of those that have too many fields, of which the last are left out",
        ]
    );
    assert_eq!(series(&imported, "disk.iops", "").n, 4, "a sum that lacks a part is not a sum");
}

/// The same file with its columns, but the time's, the other way round.
fn turned(text: &str) -> String {
    let mut lines = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let mut turned = csv::WriterBuilder::new().quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
    for line in lines.records() {
        let line = line.unwrap();
        turned
            .write_record(line.iter().take(1).chain(line.iter().skip(1).collect::<Vec<_>>().into_iter().rev()))
            .unwrap();
    }
    String::from_utf8(turned.into_inner().unwrap()).unwrap()
}

#[test]
fn columns_are_known_by_their_heading_wherever_they_stand() {
    let other = turned(&file(3));
    assert!(other.starts_with(r#""(PDH-CSV 4.0) (UTC)(0)","\\esx1\Network Port("#), "{other}");
    assert_eq!(of(&other), of(&file(3)));
}

#[test]
fn a_counter_that_some_rows_lack_has_their_values_alone() {
    let whole = file(3);
    let text = whole.replace(r#""41.00""#, r#""""#);
    let imported = of(&text);
    let utilization = series(&imported, "cpu.utilization", "");
    assert_eq!((imported.rows, utilization.n, utilization.mean), (3, 2, 41.0), "of 40 and 42, not of 40, 0 and 42");
    assert_eq!(utilization.points, [[0.0, 40.0], [10.0, 42.0]]);
    assert_eq!(series(&imported, "disk.iops", "").n, 3, "the row's other values count");
    assert_eq!(imported.notes, ["row 3: 1 row of those that have a field that is not a number, which is left out"]);
}

#[test]
fn a_port_may_be_named_in_any_script() {
    for name in ["caf\u{e9}", "vmni\u{e9}", "\u{673a}\u{5668}", "vm\u{1f600}"] {
        let imported = of(&file(1).replace("web01", name));
        assert_eq!(series(&imported, "net.receive_packets", "").mean, 71_000.0, "{name} is not a card of the host");
    }
}

#[test]
fn bytes_that_are_no_text_spoil_their_own_field_alone() {
    let bytes = |text: String| {
        text.replace('\u{e9}', "\u{0}").into_bytes().into_iter().map(|byte| if byte == 0 { 0xe9 } else { byte })
    };
    // A virtual machine that was named in Latin-1, a value and a time that a bad disk has changed.
    let heading = HEADING.replace("web01", "caf\u{e9}").replace("vmhba0", "vmhba\u{e9}");
    let value = row(5, [0.5, 41.0, 1.0, 2.5, 100.0, 50.0, 71_000.0, 9.0, 120.0]).replace("41.00", "4\u{e9}.00");
    let time = row(15, [9.0; 9]).replace(":15", ":\u{e9}5");
    let rows = [value, row(10, [0.5, 42.0, 1.0, 2.5, 100.0, 50.0, 71_000.0, 9.0, 120.0]), time];
    let file: Vec<u8> = bytes(heading + &rows.concat()).collect();
    assert!(std::str::from_utf8(&file).is_err());
    let imported = read(file.as_slice(), &Choice { containing: vec!["caf".to_owned()], shift_ns: 0 }).unwrap();
    assert_eq!((imported.rows, series(&imported, "cpu.utilization", "").mean), (2, 42.0));
    assert_eq!(series(&imported, "disk.iops", "").mean, 150.0, "an adapter is one whatever its name");
    assert_eq!(series(&imported, "esxtop.Group Cpu % Ready", "12:caf\u{fffd}, \"big\"").mean, 2.5);
    assert_eq!(
        imported.notes,
        [
            "row 2: 1 row of those that have a field that is not a number, which is left out",
            "row 4: 1 row of those that have no time of the form 11/21/2026 06:51:42 and are skipped",
        ]
    );
}

#[test]
fn other_files_are_refused_with_what_would_be_right() {
    assert!(why("").contains("it is empty; write it with esxtop -b"));
    assert!(why([0x1f, 0x8b, 8, 0]).contains("gunzip -c FILE"));
    assert!(why([0xff, 0xfe, b'"', 0]).contains("iconv"));
    assert!(why("time,cpu\n1,2\n").contains("it begins with 'time,cpu\\n1,2\\n'; its first line begins with"));
    assert!(why("\"(PDH-CSV 4.0) (UTC)(0)\"\n").contains("its heading names no column"));
    assert!(why(HEADING).contains("no row can be read: there are no rows after the heading"));
    assert!(why(HEADING.to_owned() + "\"x\",\"1\"\n").contains("1 row of those that have no time"));
    let other = HEADING.replace("vmhba1", "vmhba9");
    assert!(why(file(1) + &other).contains("row 3 is a heading with other columns: two files became one"));
    let none = "\"(PDH-CSV 4.0) (UTC)(0)\",\"\\\\h\\Power\\Watts\"\n\"11/21/2026 06:00:00\",\"1\"\n";
    assert!(why(none).contains("none of the 1 columns is selected; the file has Power; name some with --counter"));
    let marked = format!("\u{feff}{}", file(1));
    assert_eq!(of(&marked).rows, 1, "a byte-order mark is nobody's fault");
}

/// A file that is made while it is read, far larger than anybody wants in memory.
struct Long {
    row: u64,
    rows: u64,
    rest: Vec<u8>,
}

impl Read for Long {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            if self.row > self.rows {
                return Ok(0);
            }
            let columns = 2000;
            let (day, second) = (1 + self.row / 86_400, self.row % 86_400);
            let time = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
            let line = match self.row {
                0 => {
                    (0..columns).fold("\"(PDH-CSV 4.0) (UTC)(0)\"".to_owned(), |line, column| {
                        line + &format!(",\"\\\\esx1\\Group Cpu({column}:vm)\\% Used\"")
                    }) + ",\"\\\\esx1\\Physical Cpu(_Total)\\% Util Time\"\n"
                }
                _ => format!("\"01/{day:02}/2026 {time}\"{},\"{}\"\n", ",\"1.25\"".repeat(columns), self.row % 2),
            };
            self.row += 1;
            self.rest = line.into_bytes();
        }
        let taken = buffer.len().min(self.rest.len());
        buffer[..taken].copy_from_slice(&self.rest[..taken]);
        self.rest.drain(..taken);
        Ok(taken)
    }
}

#[test]
fn a_huge_file_is_read_in_little_memory_and_keeps_its_means() {
    let imported = read(Long { row: 0, rows: 20_000, rest: Vec::new() }, &Choice::default()).unwrap();
    let utilization = series(&imported, "cpu.utilization", "");
    assert_eq!((imported.rows, utilization.n, utilization.mean), (20_000, 20_000, 0.5));
    assert!(utilization.points.len() < 1800, "{}", utilization.points.len());
    assert!(imported.notes.iter().any(|note| note.starts_with("lines show every")), "{:?}", imported.notes);
}

#[test]
fn a_line_that_does_not_end_fills_no_memory() {
    struct Endless;
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b'x');
            Ok(buffer.len())
        }
    }
    let why = read(HEADING.as_bytes()[..30].chain(Endless), &Choice::default()).unwrap_err();
    assert!(matches!(&why, EsxtopError::Read { row: 1, .. }) && why.to_string().contains("does not end"), "{why}");
}

#[test]
fn what_was_read_before_a_disk_failed_is_kept() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk failed"))
        }
    }
    let imported = read(file(3).as_bytes().chain(Fails), &Choice::default()).unwrap();
    assert!(imported.rows >= 1 && imported.notes[0].contains("the disk failed"), "{:?}", imported.notes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_stands_in_a_file_is_survived(lines in proptest::collection::vec("[ -~\u{e9}\"\\\\,()/:0-9]{0,80}", 0..12)) {
        let text = HEADING.to_owned() + &lines.join("\n");
        drop(read(text.as_bytes(), &Choice { containing: vec![String::new()], shift_ns: i64::MIN }));
        let text = "\"(PDH-CSV 4.0)".to_owned() + &lines.join("\n");
        drop(read(text.as_bytes(), &Choice { containing: vec![String::new()], shift_ns: 1 }));
    }
}
