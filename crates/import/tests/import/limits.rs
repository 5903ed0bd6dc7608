//! Files that are made to take memory or time: refused with the limit, or read in proportion to their size.

use crate::{columns, read, why};
use baremark_import::{ImportError, LONGEST_DOCUMENT, LONGEST_FILE, MOST_VALUES, Options};
use std::cell::Cell;
use std::io::{self, Cursor, Read, repeat};

fn refused(from: &mut dyn Read, format: Option<&str>, names: &str) -> String {
    let columns = if names.is_empty() { Vec::new() } else { columns(names) };
    let options = Options { format, columns: &columns, now_unix_s: crate::NOW };
    baremark_import::read(from, &options).expect_err("refused").to_string()
}

/// A source that counts what is taken from it.
struct Counted<'c, R>(R, &'c Cell<u64>);

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(into)?;
        self.1.set(self.1.get() + count as u64);
        Ok(count)
    }
}

/// The same rows without an end.
struct Rows<'r>(&'r [u8], usize);

impl Read for Rows<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(self.0.len() - self.1);
        into[..count].copy_from_slice(&self.0[self.1..self.1 + count]);
        self.1 = (self.1 + count) % self.0.len();
        Ok(count)
    }
}

#[test]
fn what_has_no_end_is_refused_at_the_limit_of_a_line() {
    let taken = Cell::new(0);
    let endless = |head: &'static str, byte: u8| Counted(Cursor::new(head).chain(repeat(byte)), &taken);
    let near = |limit: u64| {
        let taken = taken.take();
        assert!((limit..limit + (1 << 20)).contains(&taken), "{taken} bytes were read, the limit is {limit}");
    };
    let log = "0 1 7398 0 1795378778 853533\n";
    assert!(refused(&mut endless(log, b'0'), None, "").contains("line 2: the line is longer than 4 MiB"));
    near(4 << 20);
    let field = refused(&mut endless("test,seconds\n\"", b'\n'), None, "test,seconds:lower");
    assert!(field.contains("the row is longer than 4 MiB"), "{field}");
    near(4 << 20);
    let document = refused(&mut endless("{\"fio version\": \"", b'x'), None, "");
    assert_eq!(document, "fio: longer than 32 MiB; import a part of it");
    near(LONGEST_DOCUMENT);
}

#[test]
fn logs_and_tables_without_an_end_are_refused_at_the_limit_of_a_file() {
    let columns = b"0 1 7398 0 1795378778 853533 with more columns of text\n";
    let log = refused(&mut Rows(columns, 0), Some("pgbench"), "");
    assert!(log.contains("line 1: 'with': invalid float"), "{log}");
    // Lines of a mebibyte that are not messages.
    let line = [vec![b'x'; (1 << 20) - 1], vec![b'\n']].concat();
    let mut lines = Cursor::new("{\"reason\":\"begin\"}\n").chain(Rows(&line, 0));
    let log = refused(&mut lines, Some("criterion"), "");
    assert!(log.contains(&format!("longer than {} MiB", LONGEST_FILE >> 20)), "{log}");
    let table = b"parse,1\n".repeat(1024);
    let mut rows = Cursor::new("test,seconds\n").chain(Rows(&table, 0));
    let table = refused(&mut rows, None, "test,seconds:lower");
    assert_eq!(table, format!("csv: the file has more than {MOST_VALUES} values; import a part of it"));
}

#[test]
fn documents_whose_values_are_larger_than_their_text_are_refused() {
    let rows = "{\"name\":\"\"},".repeat(1 << 20);
    let google = format!("{{\"context\":{{}},\"benchmarks\":[{rows}{{}}]}}");
    assert!(why(&google).contains("its values take more than 128 MiB of memory"), "{}", why(&google));
    let k6 = "{\"metrics\":{\"http_reqs\":{\"rate\":1},\"http_reqs\":{\"rate\":2}}}";
    assert!(why(k6).contains("the key \"http_reqs\" is there twice"), "{}", why(k6));
    let deep = format!("{{\"metrics\":{{\"http_reqs\":{{\"rate\":{}", "[".repeat(1 << 20));
    assert!(why(&deep).contains("recursion limit exceeded"), "{}", why(&deep));
}

/// Before, each result looked for its line from the beginning of the file, and each attribute at all others.
#[test]
fn a_phoronix_document_of_20_000_results_is_read_and_one_of_300_000_attributes_refused() {
    let entry = "<Entry><Identifier>m</Identifier><RawString>1:2</RawString></Entry>";
    let result = |at: usize| {
        format!(
            "<Result><Title>t{at}</Title><Scale>s</Scale><Proportion>LIB</Proportion>\n<Data>{entry}</Data></Result>\n"
        )
    };
    let results: String = (0..20_000).map(result).collect();
    let imported = crate::of(&format!("<PhoronixTestSuite><System/>{results}</PhoronixTestSuite>"));
    assert_eq!((imported.measured.len(), imported.measured[19_999].values.as_slice()), (20_000, &[1.0, 2.0][..]));
    let attributes: String = (0..300_000).map(|at| format!(" a{at}=''")).collect();
    let text = format!("<PhoronixTestSuite>\n<System{attributes}/></PhoronixTestSuite>");
    assert_eq!(why(&text), "phoronix: line 2: an element has more than 64 attributes");
}

#[test]
fn a_table_of_100_000_labels_is_read() {
    let rows: String = (0..100_000).map(|at| format!("label {at},{at}.5\n")).collect();
    let imported = crate::csv(&format!("test,seconds\n{rows}"), "test,seconds:lower:s").unwrap();
    assert_eq!((imported.measured.len(), imported.measured[99_999].values.as_slice()), (100_000, &[99_999.5][..]));
    assert_eq!(imported.benchmarks().len(), 100_000);
}

#[test]
fn an_error_of_reading_is_reported() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is on fire"))
        }
    }
    assert_eq!(refused(&mut Broken, None, ""), "byte 0: the disk is on fire");
    let mut half = Cursor::new("test,seconds\n").chain(Broken);
    assert!(matches!(
        baremark_import::read(&mut half, &Options { format: None, columns: &[], now_unix_s: 0 }),
        Err(ImportError::Unreadable(_))
    ));
    assert!(matches!(read(b"", None, &[]), Err(ImportError::Unknown)));
    assert_eq!(read(b" \n", Some("fio"), &[]).unwrap_err().to_string(), "fio: byte 0: the file is empty");
}
