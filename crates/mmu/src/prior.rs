//! What is assumed of virtual machines and of memory, read from `priors/virtualization.toml`, where the sources stand.

use crate::random::Random;
use crate::range::Range;
use crate::stream::Dependence;
use crate::time::Overlap;
use baremark_model::config;
use baremark_model::problem::Problems;

const FILE: &str = include_str!("../priors/virtualization.toml");

/// The assumptions, each as what it may be. Shares are fractions of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Priors {
    /// The share of time that a virtual machine loses in addition to translation.
    pub tax: Range,
    /// The share of the shorter of data and walks that is hidden under the longer.
    pub hidden: Range,
    /// The share of a walk's steps that does not keep the walker from the next walk.
    pub pipelined: Range,
    /// The probability that pages lie scattered.
    pub scattered: f64,
    /// In how many times the program's size they then lie.
    pub span: Range,
    /// The probability that the free lists of a system that has run for a while hold their memory in pieces in no order.
    pub shuffled: f64,
    /// The binary logarithm of the bytes of such a piece.
    pub piece_bits: Range,
    /// One exit for a change of a guest's page table under shadow paging, in ns.
    pub exit_ns: Range,
    /// Exits for each change.
    pub exits_per_change: Range,
    /// A page fault without virtualization, in ns.
    pub fault_ns: Range,
}

impl Priors {
    /// How accesses of this kind overlap.
    pub fn overlap(&self, dependence: Dependence, random: &mut Random) -> Overlap {
        Overlap { dependence, hidden: self.hidden.draw(random), pipelined: self.pipelined.draw(random) }
    }
}

/// The assumptions that are built in.
///
/// # Errors
/// Never, unless the file itself was broken; tests read it.
pub fn priors() -> Result<Priors, Problems> {
    config::read("virtualization.toml", FILE, |reader, top| {
        reader.keys(top, &["virtual_machine", "overlap", "placement", "shadow"], &[]);
        let machine = reader.section(top, "virtual_machine");
        reader.keys(&machine, &["tax_percent"], &[]);
        let overlap = reader.section(top, "overlap");
        reader.keys(&overlap, &["hidden_percent", "pipelined_percent"], &[]);
        let placement = reader.section(top, "placement");
        reader.keys(&placement, &["scattered_percent", "span", "shuffled_percent", "piece_mib"], &[]);
        let shadow = reader.section(top, "shadow");
        reader.keys(&shadow, &["exit_ns", "exits_per_change", "fault_ns"], &[]);
        Some(Priors {
            tax: share(Range::read(reader, &machine, "tax_percent", 0.0, 100.0)?),
            hidden: share(Range::read(reader, &overlap, "hidden_percent", 0.0, 100.0)?),
            pipelined: share(Range::read(reader, &overlap, "pipelined_percent", 0.0, 100.0)?),
            scattered: share(Range::read(reader, &placement, "scattered_percent", 0.0, 100.0)?).low,
            span: Range::read(reader, &placement, "span", 1.0, 1000.0)?,
            shuffled: share(Range::read(reader, &placement, "shuffled_percent", 0.0, 100.0)?).low,
            piece_bits: bits(Range::read(reader, &placement, "piece_mib", 4.0, 65_536.0)?),
            exit_ns: Range::read(reader, &shadow, "exit_ns", 0.0, 1e6)?,
            exits_per_change: Range::read(reader, &shadow, "exits_per_change", 0.0, 100.0)?,
            fault_ns: Range::read(reader, &shadow, "fault_ns", 1.0, 1e6)?,
        })
    })
}

fn share(percent: Range) -> Range {
    Range { low: percent.low / 100.0, high: percent.high / 100.0 }
}

fn bits(mib: Range) -> Range {
    Range { low: mib.low.log2() + 20.0, high: mib.high.log2() + 20.0 }
}
