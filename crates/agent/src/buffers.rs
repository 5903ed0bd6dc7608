//! The memory of a trial: one buffer for each kind that its arms ask for.
//!
//! Arms that ask for the same pages, the same parameters and the same ranks share one buffer and one preparation, so that
//! they also share its physical placement. Where they differ each has its own; the order in which they are allocated is
//! drawn anew for every trial, so that over the trials no arm is favoured.

use crate::sealed;
use crate::trial::TrialError;
use baremark_model::arm::{PageSize, ResolvedArm};
use baremark_model::seam::Workload;
use baremark_model::wire::PagesSeen;
use baremark_sys::memory::Map;

/// The buffers and which of them each arm uses.
pub struct Buffers {
    /// The memory, one map for each kind.
    pub maps: Vec<Map>,
    /// The first arm that uses each map; its parameters prepare the workload.
    pub first_arm: Vec<usize>,
    /// The map of each arm.
    pub of_arm: Vec<usize>,
}

impl Buffers {
    /// Allocates and touches what `arms` need, in `order`.
    pub fn allocate(
        workload: &dyn Workload,
        arms: &[&ResolvedArm],
        order: &[usize],
        seed: u64,
    ) -> Result<Self, TrialError> {
        let mut buffers = Buffers { maps: Vec::new(), first_arm: Vec::new(), of_arm: vec![usize::MAX; arms.len()] };
        for &index in order {
            let arm = arms.get(index).ok_or_else(|| TrialError::spec(format!("allocation_order names arm {index}")))?;
            let alike = buffers.first_arm.iter().position(|&first| share(arms[first], arm));
            buffers.of_arm[index] = match alike {
                Some(map) => map,
                None => {
                    let spans = workload.spans(arm)?;
                    let map = Map::new(&spans, arm.buffer_page(), seed.wrapping_add(index as u64))?;
                    buffers.maps.push(map);
                    buffers.first_arm.push(index);
                    buffers.maps.len() - 1
                }
            };
        }
        match buffers.of_arm.iter().position(|&map| map == usize::MAX) {
            Some(index) => Err(TrialError::spec(format!("allocation_order leaves out arm {index}"))),
            None => Ok(buffers),
        }
    }
}

fn share(a: &ResolvedArm, b: &ResolvedArm) -> bool {
    a.buffer_page() == b.buffer_page() && sealed::open_parameters(a) == sealed::open_parameters(b) && a.ranks == b.ranks
}

/// What the kernel says of a buffer, and whether that is what was asked for.
pub fn inspect(map: &Map, page: PageSize) -> (PagesSeen, Result<(), String>) {
    match map.backing() {
        Ok(backing) => {
            let seen = PagesSeen { resident_bytes: backing.rss_bytes, huge_bytes: backing.large_bytes() };
            (seen, backing.is(page))
        }
        Err(why) => (PagesSeen::default(), Err(format!("its pages could not be looked up: {why}"))),
    }
}
