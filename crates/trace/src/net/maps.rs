//! The tables that the programs of [`super::NetTrace`] share with this process, and how their keys and values are laid out.

use crate::error::{TraceError, hash, template};
use crate::histogram::BINS;
use baremark_sys::bpf::Map;

const MOST_INTERFACES: u32 = 1024;
const MOST_REASONS: u32 = 512;

/// Key of an interface: address, number, and four bytes of zero.
pub(super) const KEY_BYTES: usize = 16;
pub(super) const NAME_BYTES: usize = 16;
/// Entry: name, namespace, sums, histograms.
pub(super) const ENTRY_NAMESPACE: usize = 16;
pub(super) const ENTRY_SUMS: usize = 24;
pub(super) const ENTRY_HISTOGRAMS: usize = ENTRY_SUMS + 8 * 8;
pub(super) const ENTRY_BYTES: usize = ENTRY_HISTOGRAMS + 3 * BINS * 8;

/// The maps that the programs share with this process.
#[derive(Debug)]
pub(super) struct Maps {
    /// By the interface's address and number.
    pub(super) interfaces: Map,
    pub(super) interface_template: Map,
    /// Counts by reason.
    pub(super) reasons: Map,
    pub(super) reason_template: Map,
}

impl Maps {
    /// Makes them, empty.
    pub(super) fn new() -> Result<Self, TraceError> {
        Ok(Maps {
            interfaces: hash("interfaces", KEY_BYTES, ENTRY_BYTES, MOST_INTERFACES)?,
            interface_template: template("interface_zero", &[0; ENTRY_BYTES])?,
            reasons: hash("reasons", 4, 8, MOST_REASONS)?,
            reason_template: template("reason_zero", &[0; 8])?,
        })
    }
}
