//! The inventory as a function of its size: which entities there are, and how they hang together.

/// Datacenters below the root.
pub const DATACENTERS: i64 = 2;
/// Networks of the whole inventory.
pub const NETWORKS: i64 = 10;
/// Hosts of a cluster, about.
const CLUSTER_HOSTS: i64 = 10;
/// Hosts that share a datastore, about.
const DATASTORE_HOSTS: i64 = 5;
/// Every so many entities one has permissions of its own.
const PERMITTED_EACH: i64 = 10;
/// Permissions of such an entity.
const PERMISSIONS: i64 = 2;
/// Counters of each host and virtual machine.
pub const COUNTERS: i64 = 2;

/// The words of a study.
pub const WORDS: &[&str] = &["10 x 100", "100 x 1000", "1000 x 10000"];

/// What an entity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The root of the tree.
    Root,
    /// A datacenter.
    Datacenter,
    /// A cluster of hosts.
    Cluster,
    /// A host.
    Host,
    /// A virtual machine.
    Machine,
    /// A datastore.
    Datastore,
    /// A network.
    Network,
}

/// An inventory of so many hosts and virtual machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Hosts.
    pub hosts: i64,
    /// Virtual machines.
    pub machines: i64,
}

impl Inventory {
    /// The inventory of a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Inventory> {
        let (hosts, machines) = WORDS.contains(&word).then(|| word.split_once(" x "))??;
        Some(Inventory { hosts: hosts.parse().ok()?, machines: machines.parse().ok()? })
    }

    /// Clusters.
    #[must_use]
    pub fn clusters(self) -> i64 {
        (self.hosts / CLUSTER_HOSTS).max(DATACENTERS)
    }

    /// Datastores.
    #[must_use]
    pub fn datastores(self) -> i64 {
        (self.hosts / DATASTORE_HOSTS).max(DATACENTERS)
    }

    /// How many there are of each kind, in the order of their numbers.
    fn counts(self) -> [(Kind, i64); 7] {
        [
            (Kind::Root, 1),
            (Kind::Datacenter, DATACENTERS),
            (Kind::Cluster, self.clusters()),
            (Kind::Host, self.hosts),
            (Kind::Machine, self.machines),
            (Kind::Datastore, self.datastores()),
            (Kind::Network, NETWORKS),
        ]
    }

    /// All entities, numbered from 1.
    #[must_use]
    pub fn entities(self) -> i64 {
        self.counts().iter().map(|(_, count)| count).sum()
    }

    /// The first entity of a kind.
    #[must_use]
    pub fn first(self, kind: Kind) -> i64 {
        1 + self.counts().iter().take_while(|(of, _)| *of != kind).map(|(_, count)| count).sum::<i64>()
    }

    /// What an entity is, and its number among those, from 0.
    #[must_use]
    pub fn kind(self, entity: i64) -> (Kind, i64) {
        let mut number = entity - 1;
        for (kind, count) in self.counts() {
            if number < count {
                return (kind, number);
            }
            number -= count;
        }
        (Kind::Network, number)
    }

    /// The entity in which an entity lies; 0 for the root.
    #[must_use]
    pub fn parent(self, entity: i64) -> i64 {
        let below = |kind: Kind, number: i64, of: i64| self.first(kind) + number % of;
        match self.kind(entity) {
            (Kind::Root, _) => 0,
            (Kind::Datacenter, _) => 1,
            (Kind::Host, number) => below(Kind::Cluster, number, self.clusters()),
            (Kind::Machine, number) => below(Kind::Host, number, self.hosts),
            (_, number) => below(Kind::Datacenter, number, DATACENTERS),
        }
    }

    /// Permissions that an entity has of its own.
    #[must_use]
    pub fn permissions(self, entity: i64) -> i64 {
        if entity % PERMITTED_EACH == 0 { PERMISSIONS } else { 0 }
    }

    /// Rows of the query for a subtree: one for each permission, and one for each entity without any.
    #[must_use]
    pub fn subtree_rows(self, top: i64) -> i64 {
        let within = |mut entity: i64| {
            while entity > top {
                entity = self.parent(entity);
            }
            entity == top
        };
        (top..=self.entities()).filter(|entity| within(*entity)).map(|entity| self.permissions(entity).max(1)).sum()
    }

    /// Entities with performance samples: hosts and virtual machines, which follow each other.
    #[must_use]
    pub fn sampled(self) -> std::ops::Range<i64> {
        let first = self.first(Kind::Host);
        first..first + self.hosts + self.machines
    }

    /// Samples of one moment.
    #[must_use]
    pub fn series(self) -> i64 {
        (self.hosts + self.machines) * COUNTERS
    }

    /// The entities whose samples a host reports: itself and its virtual machines.
    pub fn reported(self, host: i64) -> impl Iterator<Item = i64> {
        let first = self.first(Kind::Machine);
        let machines = (host..self.machines).step_by(usize::try_from(self.hosts).unwrap_or(usize::MAX));
        std::iter::once(self.first(Kind::Host) + host).chain(machines.map(move |machine| first + machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SMALL: Inventory = Inventory { hosts: 10, machines: 100 };

    #[test]
    fn every_word_is_an_inventory() {
        let all: Vec<Inventory> = WORDS.iter().filter_map(|word| Inventory::of(word)).collect();
        assert_eq!((all.len(), all[0], all[2].machines), (3, SMALL, 10_000));
        assert_eq!(Inventory::of("7 x 9"), None);
    }

    #[test]
    fn all_entities_hang_below_the_root_and_parents_have_lower_numbers() {
        for entity in 2..=SMALL.entities() {
            assert!(SMALL.parent(entity) < entity && SMALL.parent(entity) > 0, "{entity}");
        }
        let both: i64 = (2..2 + DATACENTERS).map(|top| SMALL.subtree_rows(top)).sum();
        assert_eq!(both + SMALL.permissions(1).max(1), SMALL.subtree_rows(1));
    }

    #[test]
    fn the_hosts_report_every_sampled_entity_once() {
        let all: Vec<i64> = (0..SMALL.hosts).flat_map(|host| SMALL.reported(host)).collect();
        let distinct: BTreeSet<i64> = all.iter().copied().collect();
        assert_eq!((all.len(), distinct), (110, SMALL.sampled().collect()));
    }
}
