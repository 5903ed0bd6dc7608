//! Where ranks and their memory are put: levels that a study names, made into CPUs and nodes of a given machine.
//!
//! Pure: the topology is handed in, so that a plan can say what a machine cannot do before anything runs, and the agent at
//! the site, whose machine may be another, resolves the same levels by the same rules. A level that would only repeat
//! another one here is not run under a second name: it is absent, with that reason.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Which CPUs the ranks get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Pinned in the order of the CPUs' numbers.
    #[default]
    Numbered,
    /// Not pinned: the operating system moves them as it likes.
    Os,
    /// Pinned as near to each other as they fit: threads of a core, cores of a node, nodes of a socket.
    Compact,
    /// Pinned as far apart as they can be: sockets in turn, nodes in turn, cores in turn, second threads last.
    Spread,
    /// Pinned compactly inside the first socket.
    OneSocket,
    /// Pinned compactly, one rank a core: as if the machine had no second threads.
    SmtOff,
    /// Each machine confined to the CPUs of one NUMA node, among which the operating system moves its ranks; one that is too large for a node spans
    /// several, and each of its ranks keeps to one of them.
    Node,
    /// The same, its ranks pinned.
    Affinity,
    /// Not pinned, as [`Placement::Os`]: what node and affinity are compared with.
    Free,
}

impl Placement {
    /// All of them as a study types them, in the order of the variants.
    pub const WORDS: &'static [&'static str] =
        &["numbered", "os", "compact", "spread", "one-socket", "smt-off", "node", "affinity", "free"];

    /// From the word of a study.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        use Placement::{Affinity, Compact, Free, Node, Numbered, OneSocket, Os, SmtOff, Spread};
        let mut all = [Numbered, Os, Compact, Spread, OneSocket, SmtOff, Node, Affinity, Free].into_iter();
        all.find(|placement| placement.to_string() == word)
    }

    /// Whether each rank keeps to one CPU.
    #[must_use]
    pub fn pins(self) -> bool {
        !matches!(self, Placement::Os | Placement::Free | Placement::Node)
    }

    /// Whether each rank keeps to the CPUs of one NUMA node.
    #[must_use]
    pub fn keeps_node(self) -> bool {
        self.pins() || self == Placement::Node
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WORDS[*self as usize])
    }
}

/// On which nodes a rank's part of the memory lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryPolicy {
    /// Each rank touches its own part first; the kernel's own policy decides, which is the rank's node where it has room.
    #[default]
    FirstTouch,
    /// Bound to the rank's node.
    Local,
    /// Bound to a node that is not the rank's.
    Remote,
    /// Page by page over all nodes that have memory.
    Interleave,
}

impl MemoryPolicy {
    /// All of them as a study types them, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["first-touch", "local", "remote", "interleave"];

    /// From the word of a study.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        use MemoryPolicy::{FirstTouch, Interleave, Local, Remote};
        [FirstTouch, Local, Remote, Interleave].into_iter().find(|policy| policy.to_string() == word)
    }
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WORDS[*self as usize])
    }
}

/// Where an arm's ranks and pages were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Placed {
    /// The CPU of each rank, pinned and read back; empty where ranks were not pinned.
    pub cpus: Vec<usize>,
    /// Pages that were looked at, by the node on which they lie; empty where the kernel does not report it.
    pub pages_by_node: Vec<NodePages>,
    /// Pages of them that lie on the node of the rank whose part they are.
    pub pages_local: u64,
}

/// Pages on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodePages {
    /// The node's number.
    pub node: u64,
    /// How many pages.
    pub pages: u64,
}

impl Placed {
    /// All pages that were looked at.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages_by_node.iter().map(|of| of.pages).sum()
    }

    /// Those on one node.
    #[must_use]
    pub fn pages_on(&self, node: u64) -> u64 {
        self.pages_by_node.iter().filter(|of| of.node == node).map(|of| of.pages).sum()
    }

    /// Counts more pages on a node.
    pub fn add(&mut self, node: u64, pages: u64) {
        match self.pages_by_node.binary_search_by_key(&node, |of| of.node) {
            Ok(at) => self.pages_by_node[at].pages += pages,
            Err(at) => self.pages_by_node.insert(at, NodePages { node, pages }),
        }
    }
}

/// One CPU that is online and may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub cpu: usize,
    /// Its package's number.
    pub socket: usize,
    /// Its node's number; 0 where the kernel reports no nodes.
    pub node: usize,
    /// The smallest number among the online threads of its core: unique in the machine.
    pub core: usize,
}

/// The CPUs and nodes that a process may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The CPUs, by number.
    pub cpus: Vec<Cpu>,
    /// The nodes that have memory which may be used, by number; numbers may have gaps.
    pub memory_nodes: Vec<usize>,
}

/// Why a machine cannot place ranks, or their memory, so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There are too few CPUs.
    #[error("{} a CPU each, and this process may use {cpus}", need(.ranks))]
    Cpus {
        /// The ranks.
        ranks: usize,
        /// How many CPUs this process may use.
        cpus: usize,
    },
    /// The placement leaves too few CPUs.
    #[error("{} a CPU each, and {placement} leaves {cpus}", need(.ranks))]
    Left {
        /// The ranks.
        ranks: usize,
        /// The placement.
        placement: Placement,
        /// How many CPUs it leaves.
        cpus: usize,
    },
    /// There is one node.
    #[error("all CPUs here are of one NUMA node: node is free")]
    OneNode,
    /// There is one socket.
    #[error("all CPUs here are of one socket: one-socket is compact")]
    OneSocket,
    /// Cores have one thread each.
    #[error("no core here has a second thread: smt-off is compact")]
    OneThread,
    /// So many ranks are placed alike.
    #[error("{} the same CPUs here spread and compact", have(.0))]
    Alike(usize),
    /// A node has no memory: its number.
    #[error("node {0} has no memory that may be used")]
    NoMemory(usize),
    /// There is one node with memory.
    #[error("there is one NUMA node with memory here: {0} needs two")]
    OneMemory(MemoryPolicy),
}

fn need(ranks: &usize) -> String {
    Ranks(*ranks).need()
}

fn have(ranks: &usize) -> String {
    format!("{} {}", Ranks(*ranks), if *ranks == 1 { "has" } else { "have" })
}

impl Topology {
    /// CPUs of which nothing is known: each a core of one socket and one node.
    #[must_use]
    pub fn flat(cpus: &[usize]) -> Self {
        let cpus = cpus.iter().map(|&cpu| Cpu { cpu, socket: 0, node: 0, core: cpu }).collect();
        Topology { cpus, memory_nodes: vec![0] }
    }

    /// The CPUs for `ranks` ranks, in their order: machine after machine, where they are divided among `machines` of equal size.
    ///
    /// # Errors
    /// Why this machine cannot place them so.
    pub fn place(&self, placement: Placement, ranks: usize, machines: usize) -> Result<Vec<usize>, PlacementError> {
        if ranks > self.cpus.len() {
            return Err(PlacementError::Cpus { ranks, cpus: self.cpus.len() });
        }
        let sockets = distinct(self.cpus.iter().map(|cpu| cpu.socket));
        let cores = distinct(self.cpus.iter().map(|cpu| cpu.core));
        let mut order = match placement {
            Placement::Numbered | Placement::Os | Placement::Free => self.cpus.iter().map(|cpu| cpu.cpu).collect(),
            Placement::Node if self.nodes().len() < 2 => return Err(PlacementError::OneNode),
            Placement::Node | Placement::Affinity => return Ok(self.by_node(ranks, machines.max(1))),
            Placement::Compact => self.compact(|_| true),
            Placement::Spread => self.spread(),
            Placement::OneSocket if sockets.len() < 2 => return Err(PlacementError::OneSocket),
            Placement::OneSocket => self.compact(|cpu| cpu.socket == sockets[0]),
            Placement::SmtOff if cores.len() == self.cpus.len() => return Err(PlacementError::OneThread),
            Placement::SmtOff => self.compact(|cpu| cpu.cpu == cpu.core),
        };
        if ranks > order.len() {
            return Err(PlacementError::Left { ranks, placement, cpus: order.len() });
        }
        order.truncate(ranks);
        if placement == Placement::Spread && order == self.compact(|_| true)[..ranks] {
            return Err(PlacementError::Alike(ranks));
        }
        Ok(order)
    }

    /// Each machine's ranks on CPUs of one node, as long as one has room for all of them; a machine that fits none spans as few as it needs.
    fn by_node(&self, ranks: usize, machines: usize) -> Vec<usize> {
        let each = ranks / machines;
        let mut free: Vec<Vec<usize>> =
            self.nodes().into_iter().map(|node| self.compact(|cpu| cpu.node == node)).collect();
        let mut order = Vec::with_capacity(ranks);
        for _ in 0..machines {
            let mut left = each;
            while left > 0 {
                // The node with the most room, the first of several: machines are spread over the nodes before they share one.
                let Some(node) = free.iter_mut().rev().max_by_key(|cpus| cpus.len()).filter(|cpus| !cpus.is_empty())
                else {
                    break;
                };
                let taken = left.min(node.len());
                order.extend(node.drain(..taken));
                left -= taken;
            }
        }
        order
    }

    /// The nodes that have CPUs which may be used, by number.
    #[must_use]
    pub fn nodes(&self) -> Vec<usize> {
        distinct(self.cpus.iter().map(|cpu| cpu.node))
    }

    /// The CPUs of a node, by number.
    #[must_use]
    pub fn cpus_of(&self, node: usize) -> Vec<usize> {
        distinct(self.cpus.iter().filter(|cpu| cpu.node == node).map(|cpu| cpu.cpu))
    }

    /// The node of a CPU; `None` for one that may not be used.
    #[must_use]
    pub fn node_of(&self, cpu: usize) -> Option<usize> {
        self.cpus.iter().find(|of| of.cpu == cpu).map(|of| of.node)
    }

    /// The nodes on which the memory of a rank on `node` is put; empty where the kernel's own policy decides.
    ///
    /// # Errors
    /// Why this machine cannot put it so.
    pub fn nodes_for(&self, policy: MemoryPolicy, node: usize) -> Result<Vec<usize>, PlacementError> {
        let nodes = &self.memory_nodes;
        match policy {
            MemoryPolicy::FirstTouch => Ok(Vec::new()),
            MemoryPolicy::Local if nodes.contains(&node) => Ok(vec![node]),
            MemoryPolicy::Local => Err(PlacementError::NoMemory(node)),
            MemoryPolicy::Remote | MemoryPolicy::Interleave if nodes.len() < 2 => {
                Err(PlacementError::OneMemory(policy))
            }
            MemoryPolicy::Interleave => Ok(nodes.clone()),
            MemoryPolicy::Remote => {
                let after = nodes.iter().position(|&other| other > node).unwrap_or(0);
                let found = nodes.iter().cycle().skip(after).find(|&&other| other != node);
                Ok(found.copied().into_iter().collect())
            }
        }
    }

    /// Why this machine cannot run `ranks` ranks so, divided among `machines` of equal size; `None` where it can.
    #[must_use]
    pub fn lacks(&self, placement: Placement, policy: MemoryPolicy, ranks: usize, machines: usize) -> Option<String> {
        let cpus = match self.place(placement, ranks, machines) {
            Ok(cpus) => cpus,
            Err(why) => return Some(why.to_string()),
        };
        if policy != MemoryPolicy::FirstTouch && !placement.keeps_node() {
            return Some(format!("memory = {policy} means a rank's node, which ranks that are not pinned do not have"));
        }
        let refused = |&cpu: &usize| self.nodes_for(policy, self.node_of(cpu).unwrap_or(0)).err();
        cpus.iter().find_map(refused).map(|why| why.to_string())
    }

    fn compact(&self, keep: impl Fn(&Cpu) -> bool) -> Vec<usize> {
        let mut cpus: Vec<Cpu> = self.cpus.iter().copied().filter(|cpu| keep(cpu)).collect();
        crate::order::by_key(&mut cpus, |cpu| (cpu.socket, cpu.node, cpu.core, cpu.cpu));
        cpus.into_iter().map(|cpu| cpu.cpu).collect()
    }

    fn spread(&self) -> Vec<usize> {
        let rank_of = |all: Vec<usize>, one: usize| all.iter().position(|&other| other == one).unwrap_or(0);
        let key = |cpu: &Cpu| {
            let of_core = self.cpus.iter().filter(|other| other.core == cpu.core);
            let of_node = self.cpus.iter().filter(|other| other.node == cpu.node && other.socket == cpu.socket);
            let of_socket = self.cpus.iter().filter(|other| other.socket == cpu.socket);
            let thread = rank_of(distinct(of_core.map(|other| other.cpu)), cpu.cpu);
            let core = rank_of(distinct(of_node.map(|other| other.core)), cpu.core);
            let node = rank_of(distinct(of_socket.map(|other| other.node)), cpu.node);
            (thread, core, node, cpu.socket)
        };
        let mut cpus = self.cpus.clone();
        cpus.sort_by_cached_key(key);
        cpus.into_iter().map(|cpu| cpu.cpu).collect()
    }
}

/// A number of ranks in words.
pub(crate) struct Ranks(pub(crate) usize);

impl Ranks {
    /// With the verb: one rank needs, two ranks need.
    pub(crate) fn need(&self) -> String {
        format!("{self} {}", if self.0 == 1 { "needs" } else { "need" })
    }
}

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, if self.0 == 1 { "rank" } else { "ranks" })
    }
}

/// Each value once, ascending.
fn distinct(values: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_levels_are_one() {
        for word in Placement::WORDS {
            assert_eq!(Placement::from_word(word).expect("a level").to_string(), *word);
            assert_eq!(serde_json::to_value(Placement::from_word(word)).expect("JSON"), *word);
        }
        for word in MemoryPolicy::WORDS {
            assert_eq!(MemoryPolicy::from_word(word).expect("a level").to_string(), *word);
            assert_eq!(serde_json::to_value(MemoryPolicy::from_word(word)).expect("JSON"), *word);
        }
        assert_eq!((Placement::from_word("near"), MemoryPolicy::from_word("far")), (None, None));
    }

    #[test]
    fn a_machine_of_one_node_says_what_it_lacks() {
        let machine = Topology::flat(&[0, 1]);
        let why = |placement, policy, ranks| machine.lacks(placement, policy, ranks, 1).expect("a reason");
        let (numbered, first) = (Placement::Numbered, MemoryPolicy::FirstTouch);
        assert_eq!(why(Placement::OneSocket, first, 2), "all CPUs here are of one socket: one-socket is compact");
        assert_eq!(why(Placement::SmtOff, first, 2), "no core here has a second thread: smt-off is compact");
        assert_eq!(why(Placement::Spread, first, 2), "2 ranks have the same CPUs here spread and compact");
        assert_eq!(why(numbered, first, 3), "3 ranks need a CPU each, and this process may use 2");
        assert_eq!(why(Placement::Spread, first, 1), "1 rank has the same CPUs here spread and compact");
        assert_eq!(
            Topology::default().lacks(numbered, first, 1, 1).expect("no CPU"),
            "1 rank needs a CPU each, and this process may use 0"
        );
        assert_eq!(why(Placement::Node, first, 2), "all CPUs here are of one NUMA node: node is free");
        assert_eq!(why(numbered, MemoryPolicy::Remote, 1), "there is one NUMA node with memory here: remote needs two");
        assert_eq!(
            why(Placement::Os, MemoryPolicy::Local, 1),
            "memory = local means a rank's node, which ranks that are not pinned do not have"
        );
        assert_eq!(machine.lacks(Placement::Os, first, 2, 1), None);
        assert_eq!(machine.lacks(Placement::Free, first, 2, 2), None);
        assert_eq!(machine.lacks(Placement::Affinity, MemoryPolicy::Local, 2, 2), None);
        assert_eq!(machine.lacks(Placement::Compact, MemoryPolicy::Local, 2, 1), None);
    }

    #[test]
    fn machines_lie_on_one_node_each_and_one_that_fits_none_spans_several() {
        // Two nodes of four CPUs; every second CPU is the second thread of the one before it.
        let cpus = (0..8).map(|cpu| Cpu { cpu, socket: cpu / 4, node: cpu / 4, core: cpu & !1 }).collect();
        let machine = Topology { cpus, memory_nodes: vec![0, 1] };
        let placed = |ranks, machines| machine.place(Placement::Node, ranks, machines);
        assert_eq!(placed(8, 2).expect("a node each"), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(placed(4, 2).expect("a node each"), [0, 1, 4, 5]);
        assert_eq!(placed(6, 6).expect("three on each"), [0, 4, 1, 5, 2, 6]);
        assert_eq!(machine.place(Placement::Affinity, 3, 1).expect("on one node"), [0, 1, 2]);
        assert_eq!(placed(6, 1).expect("more than a node has"), [0, 1, 2, 3, 4, 5]);
        assert_eq!(
            placed(6, 2).map(|cpus| machine.node_of(cpus[5])).expect("three each"),
            Some(1),
            "the second machine is on the second node"
        );
        assert_eq!((machine.cpus_of(1), machine.nodes()), (vec![4, 5, 6, 7], vec![0, 1]));
        assert_eq!(machine.lacks(Placement::Node, MemoryPolicy::Remote, 8, 2), None, "its node is known");
    }
}
