//! The memory of a trial: a buffer for each member of each arm, touched first by the ranks that will use it, each its own part.
//!
//! No two arms share one, also where they ask for the same: an arm whose partner filled the caches with the same table would be faster than next to
//! another partner, and a reference must not depend on what it is compared with. The order in which buffers are allocated is drawn anew for
//! every trial, so that over the trials no arm is favoured. Arms that one executor runs, because they differ in a blinded cost alone, are one arm
//! as far as memory goes.

use crate::placing;
use crate::trial_error::TrialError;
use baremark_model::arm::ResolvedArm;
use baremark_model::page_size::PageSize;
use baremark_model::placement::{Placed, Topology};
use baremark_model::seam::{Owner, Workload};
use baremark_model::wire::{MUCH_BYTES, PagesSeen, TrialSpec};
use baremark_sys::memory::Map;
use baremark_sys::process;
use baremark_sys::smaps::SmapsError;
use std::sync::{Mutex, PoisonError};

/// The memory of this agent's last trial, if it was much ([`Buffers::end`]).
static LEFT: Mutex<Vec<Map>> = Mutex::new(Vec::new());

fn leave(maps: Vec<Map>) {
    *LEFT.lock().unwrap_or_else(PoisonError::into_inner) = maps;
}

/// The buffers and which of them each arm uses.
pub struct Buffers {
    /// The memory, a map for each member of each arm.
    pub maps: Vec<Map>,
    /// The first arm that uses each map; its parameters prepare the workload.
    pub first_arm: Vec<usize>,
    /// The maps of each arm, one for each member.
    pub of_arm: Vec<Vec<usize>>,
    /// Whose the spans of each map are.
    owners: Vec<Vec<Owner>>,
}

impl Buffers {
    /// Allocates what `arms`, of so many members each, need, and has their ranks on `cpus` touch it. `executor_of` says of each arm the one whose
    /// executor runs it, and whose memory is its own.
    pub fn allocate(
        workload: &dyn Workload,
        arms: &[(&ResolvedArm, usize)],
        (executor_of, cpus): (&[usize], &[Vec<usize>]),
        site: &Topology,
        spec: &TrialSpec,
    ) -> Result<Self, TrialError> {
        leave(Vec::new());
        let of_arm = vec![Vec::new(); arms.len()];
        let mut buffers = Buffers { maps: Vec::new(), first_arm: Vec::new(), of_arm, owners: Vec::new() };
        for &index in &spec.allocation_order {
            let &(arm, members) =
                arms.get(index).ok_or_else(|| TrialError::spec(format!("allocation_order names arm {index}")))?;
            if executor_of[index] != index {
                continue;
            }
            for (member, cpus) in cpus[index].chunks(arm.ranks.max(1)).enumerate().take(members) {
                let map = Map::reserve(&workload.spans(arm)?, arm.buffer_page(), arm.frames)?;
                let owners = workload.owners(arm);
                let drawn = spec.seed.wrapping_add(index as u64).wrapping_add((member as u64) << 32);
                placing::first_touch(&map, &owners, arm, site, cpus, drawn)?;
                buffers.of_arm[index].push(buffers.maps.len());
                buffers.maps.push(map);
                buffers.first_arm.push(index);
                buffers.owners.push(owners);
            }
        }
        for (index, &executor) in executor_of.iter().enumerate().filter(|(index, executor)| index != *executor) {
            buffers.of_arm[index] = buffers.of_arm[executor].clone();
        }
        match buffers.of_arm.iter().zip(arms).position(|(maps, (_, members))| maps.len() != *members) {
            Some(index) => Err(TrialError::spec(format!("allocation_order must name arm {index} once"))),
            None => Ok(buffers),
        }
    }

    /// Keeps the frames of much memory until this agent ends, or has its next trial: where a kernel reports free frames to its hypervisor (free page
    /// reporting, Linux 5.7), that takes them after two seconds, and the next trial's memory takes several times as long as what is measured in it.
    /// Nobody uses the memory any more. Twice as much must be left to others.
    pub fn end(self) {
        let bytes: u64 = self.maps.iter().map(Map::bytes).sum();
        if bytes >= MUCH_BYTES && process::available_memory_bytes().is_ok_and(|available| available / 2 >= bytes) {
            leave(self.maps);
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
}

/// What the kernel says of a buffer, and whether that is what was requested, by the text of smaps.
pub fn inspect(map: &Map, page: PageSize, text: &Result<String, SmapsError>) -> (PagesSeen, Result<(), String>) {
    let text = text.as_ref().map_err(ToString::to_string);
    match text.and_then(|text| map.backing_in(text).map_err(|why| why.to_string())) {
        Ok(backing) => {
            let huge_bytes = backing.large_bytes();
            let looked_up = if page == PageSize::Small { map.contiguous_bytes() } else { None };
            let contiguous_bytes = if page == PageSize::Small { looked_up } else { Some(huge_bytes) };
            let seen = PagesSeen { resident_bytes: backing.rss_bytes, huge_bytes, contiguous_bytes };
            let verdict = backing.is(page).map_err(|why| why.to_string());
            (seen, verdict.and_then(|()| map.lies(looked_up).map_err(|why| why.to_string())))
        }
        Err(why) => (PagesSeen::default(), Err(format!("its pages could not be looked up: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blinded;
    use baremark_model::arm::Frames;
    use baremark_model::scale::PARAMETER;
    use baremark_model::units::Bytes;
    use baremark_model::value::Value;
    use baremark_model::wire::ArmSpec;
    use baremark_sys::smaps;

    /// The buffers of arms that one process with one CPU runs.
    fn allocated(arms: &[ResolvedArm]) -> Buffers {
        let each: Vec<ArmSpec> = arms.iter().cloned().map(ArmSpec::of_one).collect();
        let backwards = (0..arms.len()).rev().collect();
        let spec = TrialSpec { allocation_order: backwards, ..TrialSpec::new("random-access", each) };
        let site = placing::site(&spec).expect("a site");
        let arms: Vec<(&ResolvedArm, usize)> = arms.iter().map(|arm| (arm, 1)).collect();
        let cpus: Vec<Vec<usize>> = arms.iter().map(|(arm, _)| placing::cpus(&site, arm, 1).expect("a CPU")).collect();
        let executor_of = blinded::executor_of(&arms.iter().map(|(arm, _)| *arm).collect::<Vec<_>>());
        let workload = baremark_workloads::random_access::RandomAccess;
        Buffers::allocate(&workload, &arms, (&executor_of, &cpus), &site, &spec).expect("4 MiB each")
    }

    fn arm(page: PageSize) -> ResolvedArm {
        ResolvedArm::native(1, page).with("table", Value::SizeBytes(Bytes(4 << 20)))
    }

    /// What an arm measures must not depend on whether its partner asks for the same memory.
    #[test]
    fn no_two_arms_share_a_buffer_but_copies_with_a_blinded_cost() {
        let addresses = |arms: &[ResolvedArm]| -> Vec<u64> {
            let buffers = allocated(arms);
            buffers.of_arm.iter().map(|maps| buffers.maps[maps[0]].address()).collect()
        };
        let same = addresses(&[arm(PageSize::Small), arm(PageSize::Small)]);
        assert_ne!(same[0], same[1]);
        let blinded = |label: &str| arm(PageSize::Small).with(PARAMETER, Value::Text(label.to_owned()));
        let copies = addresses(&[blinded("a"), blinded("b")]);
        assert_eq!(copies[0], copies[1], "one executor runs both, which has touched its own memory alone");
    }

    #[test]
    fn small_pages_lie_as_asked_or_the_verdict_says_why() {
        let contiguous = ResolvedArm { frames: Frames::Contiguous, ..arm(PageSize::Small) };
        let buffers = allocated(&[arm(PageSize::Small), contiguous]);
        let text = smaps::of_this_process();
        let seen = |arm: usize| inspect(&buffers.maps[buffers.of_arm[arm][0]], PageSize::Small, &text);
        let (usual, lying) = (seen(0), seen(1));
        assert!(usual.1.is_ok() && usual.0.huge_bytes == 0, "{usual:?}");
        match lying.1 {
            Ok(()) => {
                assert!(lying.0.contiguous_bytes.is_none_or(|bytes| bytes == lying.0.resident_bytes), "{lying:?}")
            }
            Err(why) => assert!(why.contains("over contiguous frames") && why.contains("in pages of 2m"), "{why}"),
        }
    }
}
