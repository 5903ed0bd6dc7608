//! How a guest's virtual processors are sockets, cores and threads.

use baremark_model::site::Missing;

/// Sockets, cores in each and threads of each; what is `None` follows from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Sockets.
    pub sockets: Option<usize>,
    /// Cores of each socket.
    pub cores: Option<usize>,
    /// Threads of each core.
    pub threads: Option<usize>,
}

impl Topology {
    /// Says what does not fit so many virtual processors: this topology, the CPUs that they are pinned to, or the queues of disks.
    ///
    /// # Errors
    /// The first such thing, with the remedy.
    pub(crate) fn check(self, vcpus: usize, pin: &[usize], disk_queues: Option<usize>) -> Result<(), Missing> {
        self.of(vcpus)?;
        if !pin.is_empty() && pin.len() != vcpus {
            let what = format!("pin names {} CPUs for {vcpus} vCPUs", pin.len());
            return Err(Missing { what, remedy: "name one for each".to_owned() });
        }
        match disk_queues.filter(|queues| *queues > vcpus) {
            None => Ok(()),
            Some(queues) => Err(Missing {
                what: format!("disk_queues = {queues} are more than the guest's {vcpus} vCPUs"),
                remedy: "write at most vcpus: a guest uses one queue for each".to_owned(),
            }),
        }
    }

    /// Sockets, cores and threads for so many virtual processors.
    pub(crate) fn of(self, vcpus: usize) -> Result<[usize; 3], Missing> {
        let threads = self.threads.unwrap_or(1);
        let (sockets, cores) = match (self.sockets, self.cores) {
            (Some(sockets), Some(cores)) => (sockets, cores),
            (Some(sockets), None) => (sockets, vcpus / (sockets * threads).max(1)),
            (None, Some(cores)) => (vcpus / (cores * threads).max(1), cores),
            (None, None) => (1, vcpus / threads.max(1)),
        };
        if sockets * cores * threads == vcpus {
            return Ok([sockets, cores, threads]);
        }
        Err(Missing {
            what: format!("{sockets} sockets of {cores} cores of {threads} threads are not {vcpus} vCPUs"),
            remedy: "let sockets, cores and threads multiply to vcpus, or leave one of them out".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_gives_the_processors_or_says_why_not() {
        let of = |sockets, cores, threads, vcpus| Topology { sockets, cores, threads }.of(vcpus);
        assert_eq!(of(None, None, None, 6), Ok([1, 6, 1]));
        assert_eq!(of(Some(2), None, Some(2), 8), Ok([2, 2, 2]));
        assert_eq!(of(None, Some(2), None, 6), Ok([3, 2, 1]));
        let why = of(Some(2), Some(2), None, 6).expect_err("they are four").to_string();
        assert!(why.starts_with("2 sockets of 2 cores of 1 threads are not 6 vCPUs; let"), "{why}");
        assert!(of(Some(4), None, None, 6).is_err());
    }
}
