//! What was measured of one machine: latencies, walks and faults, natively, with intervals; it replaces what a
//! processor's file leaves open.
//!
//! A chase through large pages gives each cache's latency and memory's; one through small pages, over as much memory, adds
//! the walks and weighs everything that decides how long they are: structures, placement and, where the machine is itself
//! virtual, what its own memory is made of. Only native measurements enter: no virtual one is fitted.

use crate::counts::PLACES;
use crate::machine::{Machine, Range};
use crate::page::Page;
use crate::predict::Known;
use crate::prior::Priors;
use crate::reader::Reader;
use crate::scheme::Scheme;
use crate::workload::Kernel;
use baremark_model::problem::Problems;
use std::fmt;

/// Measurements of one machine. Ranges are 95 % intervals in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The processor's key.
    pub machine: String,
    /// The processor as it names itself: the file is for no other.
    pub processor: String,
    /// When it was measured, RFC 3339.
    pub date: String,
    /// The run that holds the measurements.
    pub run: String,
    /// A load that each cache answers, nearest first, and memory.
    pub places: [Range; PLACES],
    /// A chase through small pages: its bytes and what a load takes.
    pub walked: Option<(u64, Range)>,
    /// A page fault without virtualization of its own.
    pub fault: Option<Range>,
}

/// The least deviation with which a measurement weighs: a model is no closer to a machine than this.
const CLOSE: f64 = 0.05;

impl Calibration {
    /// Reads a calibration; `file` names it in messages.
    ///
    /// # Errors
    /// Every mistake, with its line and what would be right.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problems> {
        Reader::read(file, text, |reader, top| {
            reader.keys(top, &["machine", "processor", "date", "run", "latency", "chase", "fault"]);
            let latency = reader.section(top, "latency")?;
            reader.keys(&latency, &["l1_ns", "l2_ns", "l3_ns", "memory_ns"]);
            let mut place = |key| reader.range(&latency, key, 0.05, 1e5);
            let places = [place("l1_ns")?, place("l2_ns")?, place("l3_ns")?, place("memory_ns")?];
            if !places.windows(2).all(|pair| pair[0].high < pair[1].high) {
                reader.refuse(&latency, "l1_ns", "latencies must grow from L1 to memory".to_owned());
            }
            let walked = match reader.has(top, "chase") {
                false => None,
                true => {
                    let chase = reader.section(top, "chase")?;
                    reader.keys(&chase, &["bytes", "small_pages_ns"]);
                    Some((reader.size(&chase, "bytes")?, reader.range(&chase, "small_pages_ns", 0.05, 1e5)?))
                }
            };
            let fault = match reader.has(top, "fault") {
                false => None,
                true => {
                    let fault = reader.section(top, "fault")?;
                    reader.keys(&fault, &["ns"]);
                    Some(reader.range(&fault, "ns", 1.0, 1e6)?)
                }
            };
            Some(Calibration {
                machine: reader.text(top, "machine")?,
                processor: reader.text(top, "processor")?,
                date: reader.text(top, "date")?,
                run: reader.text(top, "run")?,
                places,
                walked,
                fault,
            })
        })
    }

    /// Puts what was measured in the place of what was assumed.
    pub fn apply(&self, machine: &mut Machine, priors: &mut Priors) {
        machine.place_ns = Some(self.places);
        if let Some(fault) = self.fault {
            priors.fault_ns = fault;
        }
    }

    /// What weighs the draws.
    #[must_use]
    pub fn known(&self) -> Vec<Known> {
        let widened = |range: Range| Range { low: range.low * (1.0 - CLOSE), high: range.high * (1.0 + CLOSE) };
        let chase = |(bytes, ns)| Known {
            kernel: Kernel::Chase { bytes },
            scheme: Scheme::Native { page: Page::Small },
            ns: widened(ns),
        };
        self.walked.map(chase).into_iter().collect()
    }
}

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| text.replace(['"', '\\'], "'");
        writeln!(f, "# What `baremark predict --calibrate` measured of this machine; 95 % intervals.")?;
        writeln!(f, "machine = \"{}\"", quoted(&self.machine))?;
        writeln!(f, "processor = \"{}\"", quoted(&self.processor))?;
        writeln!(f, "date = \"{}\"\nrun = \"{}\"", quoted(&self.date), quoted(&self.run))?;
        writeln!(f, "\n[latency]")?;
        for (key, range) in ["l1_ns", "l2_ns", "l3_ns", "memory_ns"].iter().zip(&self.places) {
            writeln!(f, "{key} = [{:.3}, {:.3}]", range.low, range.high)?;
        }
        if let Some((bytes, ns)) = &self.walked {
            let bytes = baremark_model::units::Bytes(*bytes);
            writeln!(f, "\n[chase]\nbytes = \"{bytes}\"\nsmall_pages_ns = [{:.3}, {:.3}]", ns.low, ns.high)?;
        }
        if let Some(ns) = &self.fault {
            writeln!(f, "\n[fault]\nns = [{:.1}, {:.1}]", ns.low, ns.high)?;
        }
        Ok(())
    }
}
