//! Deferred interrupts of a server's link: packets wait at the host's end for others, and are taken together.
//!
//! A veth has a queue (NAPI) at its receiving end only where that merges packets (GRO) and the sending end cuts segments itself (no TSO); else
//! packets are taken as they are sent, and there is nothing to defer (`veth_xmit`, `veth_skb_is_eligible_for_gro` in drivers/net/veth.c). So dense
//! mode changes both ends: the server's sends packets of the link's size, and the host's end has GRO, `gro_flush_timeout` and
//! `napi_defer_hard_irqs`.

use crate::farm_error::FarmError;
use baremark_networks::Node;
use baremark_networks::network::INSIDE;
use baremark_sys::ethtool::{self, Offload};
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Polls without packets before interrupts are taken again, in dense mode.
const DEFERRALS: u64 = 100;

/// What decides whether packets from a server are taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkSettings {
    /// Whether the server's end hands over segments of up to 64 KiB.
    segments: bool,
    /// Whether the host's end merges what it receives.
    merges: bool,
    /// For how long the host's end waits for more, in ns.
    waits_ns: u64,
    /// How many polls without packets it makes before interrupts are taken again.
    polls: u64,
}

impl Display for LinkSettings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let word = |on: bool| if on { "on" } else { "off" };
        write!(
            f,
            "tso {} inside, gro {} outside, gro_flush_timeout {}, napi_defer_hard_irqs {}",
            word(self.segments),
            word(self.merges),
            self.waits_ns,
            self.polls
        )
    }
}

impl LinkSettings {
    /// The settings of a server's link.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn read(node: &Node) -> Result<LinkSettings, FarmError> {
        let inside = node.namespace.run(|| ethtool::is_on(INSIDE, Offload::Tso))?;
        let read = || -> io::Result<LinkSettings> {
            Ok(LinkSettings {
                segments: inside?,
                merges: ethtool::is_on(&node.outside, Offload::Gro)?,
                waits_ns: number(&node.outside, "gro_flush_timeout")?,
                polls: number(&node.outside, "napi_defer_hard_irqs")?,
            })
        };
        read().map_err(FarmError::io(format!("reading the settings of {}", node.outside)))
    }

    /// The settings of a mode: dense with the longest time that packets wait, or as the kernel had made the link.
    pub(crate) fn wanted(&self, timeout: Option<Duration>) -> LinkSettings {
        match timeout {
            None => *self,
            Some(time) => LinkSettings {
                segments: false,
                merges: true,
                waits_ns: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
                polls: DEFERRALS,
            },
        }
    }

    /// Sets a mode, and reads it back.
    ///
    /// # Errors
    /// When the kernel refuses a setting or keeps another value.
    pub(crate) fn set(&self, node: &Node, timeout: Option<Duration>) -> Result<(), FarmError> {
        let wanted = self.wanted(timeout);
        let link = &node.outside;
        let inside = node.namespace.run(|| ethtool::switch(INSIDE, Offload::Tso, wanted.segments))?;
        let set = || -> io::Result<()> {
            inside?;
            ethtool::switch(link, Offload::Gro, wanted.merges)?;
            fs::write(file(link, "gro_flush_timeout"), wanted.waits_ns.to_string())?;
            fs::write(file(link, "napi_defer_hard_irqs"), wanted.polls.to_string())
        };
        set().map_err(FarmError::io(format!("deferring the interrupts of {link}")))?;
        match LinkSettings::read(node)? {
            found if found == wanted => Ok(()),
            found => {
                let (found, wanted) = (found.to_string(), wanted.to_string());
                Err(FarmError::Kept { link: link.clone(), found, wanted })
            }
        }
    }
}

/// Packets that the host's end of a link has taken so far.
pub(crate) fn packets(node: &Node) -> io::Result<u64> {
    number(&node.outside, "statistics/rx_packets")
}

fn file(link: &str, name: &str) -> PathBuf {
    Path::new("/sys/class/net").join(link).join(name)
}

fn number(link: &str, name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(file(link, name))?;
    text.trim().parse().map_err(|why| io::Error::new(io::ErrorKind::InvalidData, format!("{link}/{name}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends differ between the modes: with one alone changed nothing was deferred.
    #[test]
    fn dense_mode_changes_both_ends() {
        let made = LinkSettings { segments: true, merges: false, waits_ns: 0, polls: 0 };
        let dense = made.wanted(Some(Duration::from_micros(200)));
        assert_eq!((dense.segments, dense.merges), (false, true));
        assert_eq!(
            dense.to_string(),
            "tso off inside, gro on outside, gro_flush_timeout 200000, napi_defer_hard_irqs 100"
        );
        assert_eq!(made.wanted(None), made);
    }
}
