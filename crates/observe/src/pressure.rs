//! Time in which tasks waited: `/proc/pressure` (PSI).

use crate::source::{Root, Source};
use baremark_model::observer::{Absence, Observer, Readings};
use baremark_model::quantity;

const KINDS: [&str; 4] = ["cpu", "io", "memory", "irq"];

pub(crate) struct Pressure {
    root: Root,
    files: Vec<(&'static str, Source)>,
}

impl Pressure {
    pub(crate) fn new(root: Root) -> Self {
        Pressure { root, files: Vec::new() }
    }
}

/// A line such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`: its first word and its total in microseconds.
fn total(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split_ascii_whitespace();
    let who = words.next()?;
    Some((who, words.find_map(|word| word.strip_prefix("total="))?.parse().ok()?))
}

impl Observer for Pressure {
    fn start(&mut self) -> Result<(), Absence> {
        self.files.clear();
        for kind in KINDS {
            let mut source = Source::new("pressure", format!("proc/pressure/{kind}"));
            if source.open(&self.root).is_ok() {
                self.files.push((kind, source));
            }
        }
        let remedy = "/proc/pressure does not exist; the kernel was built without PSI, or needs psi=1 when it boots";
        if self.files.is_empty() { Err(Absence::new("pressure", remedy)) } else { Ok(()) }
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let before = into.values.len();
        let mut refused = None;
        for (kind, source) in &mut self.files {
            match source.read() {
                Ok(text) => {
                    for (who, microseconds) in text.lines().filter_map(total) {
                        if let Some(quantity) = quantity::find(&format!("pressure.{kind}_{who}")) {
                            into.whole(quantity, microseconds);
                        }
                    }
                }
                Err(absence) => refused = Some(absence),
            }
        }
        if into.values.len() > before {
            return Ok(());
        }
        // A kernel with PSI that was told not to count lets the files be opened and not be read.
        Err(refused.unwrap_or_else(|| Absence::new("pressure", "/proc/pressure has no totals")))
    }

    fn stop(&mut self) {
        self.files.clear();
    }
}
