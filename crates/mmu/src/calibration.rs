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
use crate::scheme::Scheme;
use crate::workload::Kernel;
use baremark_model::config;
use baremark_model::literal::quoted;
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
        config::read(file, text, |reader, top| {
            reader.keys(top, &["machine", "processor", "date", "run", "latency"], &["chase", "fault"]);
            let [machine, processor, date, run] =
                ["machine", "processor", "date", "run"].map(|key| reader.text(top, key).map(str::to_owned));
            let latency = reader.section(top, "latency");
            let keys = ["l1_ns", "l2_ns", "l3_ns", "memory_ns"];
            reader.keys(&latency, &keys, &[]);
            let places = keys.map(|key| Range::read(reader, &latency, key, 0.05, 1e5));
            let chase = reader.section(top, "chase");
            reader.keys(&chase, &["bytes", "small_pages_ns"], &[]);
            let walked = (reader.bytes(&chase, "bytes"), Range::read(reader, &chase, "small_pages_ns", 0.05, 1e5));
            let fault = reader.section(top, "fault");
            reader.keys(&fault, &["ns"], &[]);
            let fault = Range::read(reader, &fault, "ns", 1.0, 1e6);
            let places = [places[0]?, places[1]?, places[2]?, places[3]?];
            if !places.windows(2).all(|pair| pair[0].high < pair[1].high) {
                let what = "l1_ns in [latency]: latencies must grow from L1 to memory";
                reader.wrong(&latency, "l1_ns", what, "correct the numbers");
            }
            Some(Calibration {
                machine: machine?,
                processor: processor?,
                date: date?,
                run: run?,
                places,
                walked: walked.0.zip(walked.1),
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
        writeln!(f, "# What `baremark predict --calibrate` measured of this machine; 95 % intervals.")?;
        writeln!(f, "machine = {}", quoted(&self.machine))?;
        writeln!(f, "processor = {}", quoted(&self.processor))?;
        writeln!(f, "date = {}\nrun = {}", quoted(&self.date), quoted(&self.run))?;
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
