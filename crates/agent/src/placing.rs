//! Where an arm's ranks and their memory are put, and where they were found afterwards.

use crate::trial_error::TrialError;
use baremark_model::arm::ResolvedArm;
use baremark_model::order;
use baremark_model::placement::{MemoryPolicy, Placed, Topology};
use baremark_model::seam::{MemoryError, Owner};
use baremark_model::units::Bytes;
use baremark_model::wire::TrialSpec;
use baremark_sys::affinity::Seat;
use baremark_sys::memory::Map;
use baremark_sys::thread_team::Crew;
use baremark_sys::{numa, topology};

/// Interleaved pages may be this share of themselves more or fewer on one node than on another.
const EVEN: f64 = 0.1;

/// The CPUs and nodes of this site that a trial may use.
///
/// # Errors
/// When the CPUs that may be used cannot be requested.
pub fn site(spec: &TrialSpec) -> Result<Topology, TrialError> {
    let mut site = topology::this().map_err(TrialError::Affinity)?;
    if !spec.cpus.is_empty() {
        site.cpus.retain(|cpu| spec.cpus.contains(&cpu.cpu));
        // Those that were named and cannot be used are found when a rank is pinned to them.
        let unknown = spec.cpus.iter().filter(|&&cpu| site.node_of(cpu).is_none()).copied().collect::<Vec<_>>();
        site.cpus.extend(Topology::flat(&unknown).cpus);
        order::by_key(&mut site.cpus, |cpu| spec.cpus.iter().position(|&named| named == cpu.cpu));
    }
    Ok(site)
}

/// The CPUs of an arm's ranks, member after member.
///
/// # Errors
/// Why this site cannot place them so.
pub fn cpus(site: &Topology, arm: &ResolvedArm, members: usize) -> Result<Vec<usize>, TrialError> {
    let ranks = arm.ranks.saturating_mul(members);
    if ranks == 0 {
        return Err(TrialError::spec("an arm has no rank".to_owned()));
    }
    match site.lacks(arm.placement, arm.memory, ranks, members) {
        Some(why) => {
            let what = format!("placement = {}, memory = {} cannot be had here: {why}", arm.placement, arm.memory);
            Err(TrialError::Spec { what, remedy: "give the place more CPUs, or take that level out".to_owned() })
        }
        None => site.place(arm.placement, ranks, members).map_err(|why| TrialError::spec(why.to_string())),
    }
}

/// The seat of each rank on `cpus`.
pub fn seats(arm: &ResolvedArm, site: &Topology, cpus: &[usize]) -> Vec<Seat> {
    let seat = |&cpu: &usize| match (arm.placement.pins(), site.node_of(cpu)) {
        (true, _) => Seat::Cpu(cpu),
        (false, Some(node)) if arm.placement.keeps_node() => Seat::Among(site.cpus_of(node).into()),
        (false, _) => Seat::Anywhere,
    };
    cpus.iter().map(seat).collect()
}

/// Binds each rank's part of an untouched map to its nodes, where a policy says so, and has each rank touch its own part from
/// its own CPU.
///
/// # Errors
/// When a policy cannot be set or a thread cannot be started.
pub fn first_touch(
    map: &Map,
    owners: &[Owner],
    arm: &ResolvedArm,
    site: &Topology,
    cpus: &[usize],
    seed: u64,
) -> Result<(), TrialError> {
    let parts = |rank: usize| map.parts(owners, rank, cpus.len());
    for (rank, cpu) in cpus.iter().enumerate() {
        let nodes = site
            .nodes_for(arm.memory, site.node_of(*cpu).unwrap_or(0))
            .map_err(|why| TrialError::spec(why.to_string()))?;
        for part in parts(rank).iter().filter(|_| !nodes.is_empty()) {
            numa::bind(map.address() + part.start, part.end - part.start, &nodes).map_err(|why| MemoryError {
                what: format!("{} with memory = {} on nodes {nodes:?}", Bytes(part.end - part.start), arm.memory),
                why: format!("mbind: {why}; the kernel must have NUMA, and the process may use those nodes"),
            })?;
        }
    }
    let mut crew = Crew::seated(&seats(arm, site, cpus))?;
    let touched = crew.run(&|rank| map.touch(&parts(rank), seed.wrapping_add(rank as u64)));
    if let Err(panics) = touched {
        return Err(TrialError::spec(format!("{} ranks could not touch their memory", panics.len())));
    }
    map.settle();
    Ok(())
}

/// Where the parts of a map lie, rank by rank, as reported by the kernel. Nothing is known where it does not report it.
pub fn look(map: &Map, owners: &[Owner], arm: &ResolvedArm, site: &Topology, cpus: &[usize]) -> Placed {
    let mut placed = Placed { cpus: Vec::new(), ..Placed::default() };
    if arm.placement.pins() {
        placed.cpus = cpus.to_vec();
    }
    for (rank, cpu) in cpus.iter().enumerate() {
        for part in map.parts(owners, rank, cpus.len()) {
            let Ok(nodes) = numa::nodes_of(map.address() + part.start, part.end - part.start) else { continue };
            let own = site.node_of(*cpu).unwrap_or(0) as u64;
            placed.pages_local += if arm.placement.keeps_node() { nodes.get(&own).copied().unwrap_or(0) } else { 0 };
            nodes.into_iter().for_each(|(node, pages)| placed.add(node, pages));
        }
    }
    placed
}

/// Why memory does not lie as asked; `None` where it does, or where nothing was asked.
pub fn misplaced(arm: &ResolvedArm, site: &Topology, placed: &Placed) -> Option<String> {
    let all = placed.pages();
    #[expect(clippy::cast_precision_loss, reason = "counts of pages")]
    let share = |pages: u64| pages as f64 / all.max(1) as f64;
    #[expect(clippy::cast_precision_loss, reason = "few nodes")]
    let even = 1.0 / site.memory_nodes.len().max(1) as f64;
    let as_asked = match arm.memory {
        MemoryPolicy::FirstTouch => true,
        MemoryPolicy::Local => all > 0 && placed.pages_local == all,
        MemoryPolicy::Remote => all > 0 && placed.pages_local == 0,
        MemoryPolicy::Interleave => site.memory_nodes.iter().all(|&node| {
            let here = share(placed.pages_on(node as u64));
            (here - even).abs() <= EVEN * even
        }),
    };
    (!as_asked).then(|| {
        format!(
            "memory = {} was requested, and of {all} inspected pages {} are on their rank's node; on each {:?}",
            arm.memory, placed.pages_local, placed.pages_by_node
        )
    })
}

/// What a reader should know of memory that nobody bound: a part of it is not where its rank is.
pub fn remote_share(arm: &ResolvedArm, placed: &Placed) -> Option<String> {
    let all = placed.pages();
    let away = all.saturating_sub(placed.pages_local);
    let tells = arm.memory == MemoryPolicy::FirstTouch && arm.placement.keeps_node() && 100 * away > all;
    tells.then(|| "more than 1 % of the memory is not on the node of the rank that uses it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::page_size::PageSize;
    use baremark_model::placement::{Cpu, Placement};

    fn arm(memory: MemoryPolicy) -> ResolvedArm {
        ResolvedArm { memory, ..ResolvedArm::native(2, PageSize::Small) }
    }

    fn two_nodes() -> Topology {
        let cpu = |cpu| Cpu { cpu, socket: cpu, node: cpu, core: cpu };
        Topology { cpus: vec![cpu(0), cpu(1)], memory_nodes: vec![0, 1] }
    }

    fn placed(local: u64, by_node: [u64; 2]) -> Placed {
        let mut placed = Placed { cpus: vec![0, 1], pages_local: local, ..Placed::default() };
        by_node.iter().enumerate().for_each(|(node, &pages)| placed.add(node as u64, pages));
        placed
    }

    #[test]
    fn ranks_keep_to_a_cpu_a_node_or_nothing() {
        let cpu = |cpu| Cpu { cpu, socket: 0, node: cpu / 2, core: cpu };
        let site = Topology { cpus: (0..4).map(cpu).collect(), memory_nodes: vec![0, 1] };
        let seats = |placement| {
            let arm = ResolvedArm { placement, ..ResolvedArm::native(2, PageSize::Small) };
            seats(&arm, &site, &cpus(&site, &arm, 2).expect("two on each node"))
        };
        let node = |cpus: &[usize]| Seat::Among(cpus.into());
        let (first, second) = (node(&[0, 1]), node(&[2, 3]));
        assert_eq!(seats(Placement::Node), [first.clone(), first, second.clone(), second]);
        assert_eq!(seats(Placement::Affinity), [0, 1, 2, 3].map(Seat::Cpu));
        assert_eq!(seats(Placement::Free), [const { Seat::Anywhere }; 4]);
    }

    #[test]
    fn what_lies_elsewhere_than_asked_is_told() {
        let judge = |memory, placed| misplaced(&arm(memory), &two_nodes(), &placed).is_none();
        assert!(judge(MemoryPolicy::Local, placed(200, [100, 100])));
        assert!(!judge(MemoryPolicy::Local, placed(199, [100, 100])));
        assert!(!judge(MemoryPolicy::Local, Placed::default()), "the pages could not be read back");
        assert!(judge(MemoryPolicy::Remote, placed(0, [100, 100])));
        assert!(!judge(MemoryPolicy::Remote, placed(1, [100, 100])));
        assert!(judge(MemoryPolicy::Interleave, placed(100, [104, 96])));
        assert!(!judge(MemoryPolicy::Interleave, placed(100, [200, 0])));
        let why = misplaced(&arm(MemoryPolicy::Remote), &two_nodes(), &placed(1, [100, 100])).expect("misplaced");
        assert!(why.starts_with("memory = remote was requested, and of 200 inspected pages 1 are on"), "{why}");
    }

    #[test]
    fn memory_that_came_to_lie_elsewhere_is_flagged() {
        assert_eq!(remote_share(&arm(MemoryPolicy::FirstTouch), &placed(198, [100, 100])), None);
        assert!(remote_share(&arm(MemoryPolicy::FirstTouch), &placed(150, [100, 100])).is_some());
        assert_eq!(remote_share(&arm(MemoryPolicy::Remote), &placed(0, [100, 100])), None, "it was asked for");
    }
}
