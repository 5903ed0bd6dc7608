//! The memory of a trial: one buffer for each kind that its arms ask for.
//!
//! Arms that ask for the same pages, the same parameters and the same ranks share one buffer and one preparation, so that
//! they also share its physical placement. Where they differ each has its own; the order in which they are allocated is
//! drawn anew for every trial, so that over the trials no arm is favoured. Members of an ensemble never share: each has
//! its own, which it can share with the same member of another arm.

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
    /// The maps of each arm, one for each member.
    pub of_arm: Vec<Vec<usize>>,
    /// Which member each map is for.
    of_member: Vec<usize>,
}

impl Buffers {
    /// Allocates and touches what `arms`, of so many members each, need, in `order`.
    pub fn allocate(
        workload: &dyn Workload,
        arms: &[(&ResolvedArm, usize)],
        order: &[usize],
        seed: u64,
    ) -> Result<Self, TrialError> {
        let (maps, first_arm, of_member) = (Vec::new(), Vec::new(), Vec::new());
        let mut buffers = Buffers { maps, first_arm, of_arm: vec![Vec::new(); arms.len()], of_member };
        for &index in order {
            let &(arm, members) =
                arms.get(index).ok_or_else(|| TrialError::spec(format!("allocation_order names arm {index}")))?;
            for member in 0..members {
                let map = match buffers.alike(arms, arm, member) {
                    Some(map) => map,
                    None => {
                        let spans = workload.spans(arm)?;
                        let drawn = seed.wrapping_add(index as u64).wrapping_add((member as u64) << 32);
                        buffers.maps.push(Map::new(&spans, arm.buffer_page(), drawn)?);
                        buffers.first_arm.push(index);
                        buffers.of_member.push(member);
                        buffers.maps.len() - 1
                    }
                };
                buffers.of_arm[index].push(map);
            }
        }
        match buffers.of_arm.iter().zip(arms).position(|(maps, (_, members))| maps.len() != *members) {
            Some(index) => Err(TrialError::spec(format!("allocation_order must name arm {index} once"))),
            None => Ok(buffers),
        }
    }

    fn alike(&self, arms: &[(&ResolvedArm, usize)], arm: &ResolvedArm, member: usize) -> Option<usize> {
        let mut kinds = self.first_arm.iter().zip(&self.of_member);
        kinds.position(|(&first, &of)| of == member && share(arms[first].0, arm))
    }
}

fn share(a: &ResolvedArm, b: &ResolvedArm) -> bool {
    let same = |of: &ResolvedArm| (of.buffer_page(), of.ranks, of.parts);
    same(a) == same(b) && sealed::open_parameters(a) == sealed::open_parameters(b)
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
