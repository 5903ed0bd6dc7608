//! The memory of a trial: one buffer for each kind that its arms ask for, touched first by the ranks that will use it, each
//! its own part.
//!
//! Arms that ask for the same pages, parameters, ranks and places share one buffer and one preparation, so that
//! they also share its physical placement. Where they differ, and in a self-check, each has its own; the order in which they are allocated is
//! drawn anew for every trial, so that over the trials no arm is favoured. Members of an ensemble never share: each has
//! its own, which it can share with the same member of another arm.

use crate::trial_error::TrialError;
use crate::{blinded, placing};
use baremark_model::arm::{PageSize, ResolvedArm};
use baremark_model::placement::{Placed, Topology};
use baremark_model::seam::{Owner, Workload};
use baremark_model::wire::{PagesSeen, TrialSpec};
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
    /// Whose the spans of each map are.
    owners: Vec<Vec<Owner>>,
}

impl Buffers {
    /// Allocates what `arms`, of so many members each, need, and has their ranks on `cpus` touch it.
    pub fn allocate(
        workload: &dyn Workload,
        arms: &[(&ResolvedArm, usize)],
        cpus: &[Vec<usize>],
        site: &Topology,
        spec: &TrialSpec,
    ) -> Result<Self, TrialError> {
        let of_arm = vec![Vec::new(); arms.len()];
        let (first_arm, of_member, owners) = (Vec::new(), Vec::new(), Vec::new());
        let mut buffers = Buffers { maps: Vec::new(), first_arm, of_arm, of_member, owners };
        for &index in &spec.allocation_order {
            let &(arm, members) =
                arms.get(index).ok_or_else(|| TrialError::spec(format!("allocation_order names arm {index}")))?;
            for (member, cpus) in cpus[index].chunks(arm.ranks.max(1)).enumerate().take(members) {
                let alike = if spec.separate { None } else { buffers.alike(arms, arm, member) };
                let map = match alike {
                    Some(map) => map,
                    None => {
                        let map = Map::reserve(&workload.spans(arm)?, arm.buffer_page())?;
                        let owners = workload.owners(arm);
                        let drawn = spec.seed.wrapping_add(index as u64).wrapping_add((member as u64) << 32);
                        placing::first_touch(&map, &owners, arm, site, cpus, drawn)?;
                        buffers.maps.push(map);
                        buffers.first_arm.push(index);
                        buffers.of_member.push(member);
                        buffers.owners.push(owners);
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

    /// Where the ranks and pages of arm `index` are, over all members.
    pub fn placed(&self, index: usize, arm: &ResolvedArm, site: &Topology, cpus: &[usize]) -> Placed {
        let mut sum = Placed::default();
        for (cpus, &map) in cpus.chunks(arm.ranks.max(1)).zip(&self.of_arm[index]) {
            let placed = placing::look(&self.maps[map], &self.owners[map], arm, site, cpus);
            sum.cpus.extend(placed.cpus);
            sum.pages_local += placed.pages_local;
            placed.pages_by_node.into_iter().for_each(|of| sum.add(of.node, of.pages));
        }
        sum
    }

    fn alike(&self, arms: &[(&ResolvedArm, usize)], arm: &ResolvedArm, member: usize) -> Option<usize> {
        let mut kinds = self.first_arm.iter().zip(&self.of_member);
        kinds.position(|(&first, &of)| of == member && share(arms[first].0, arm))
    }
}

fn share(a: &ResolvedArm, b: &ResolvedArm) -> bool {
    let same = |of: &ResolvedArm| (of.buffer_page(), of.ranks, of.parts, of.placement, of.memory);
    same(a) == same(b) && blinded::open_parameters(a) == blinded::open_parameters(b)
}

/// What the kernel says of a buffer, and whether that is what was requested.
pub fn inspect(map: &Map, page: PageSize) -> (PagesSeen, Result<(), String>) {
    match map.backing() {
        Ok(backing) => {
            let seen = PagesSeen { resident_bytes: backing.rss_bytes, huge_bytes: backing.large_bytes() };
            (seen, backing.is(page))
        }
        Err(why) => (PagesSeen::default(), Err(format!("its pages could not be looked up: {why}"))),
    }
}
