//! What the kernel counts: CPU time of threads and of softirqs, packets, retransmits.

use std::fs;
use std::io;
use std::path::PathBuf;

/// CPU time in seconds and its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// Of the sending threads.
    pub sending: f64,
    /// Of the receiving threads.
    pub receiving: f64,
    /// Of ksoftirqd on the CPUs of both.
    pub ksoftirqd: f64,
    /// Of softirqs on the CPUs of both, sampled by ticks; part of the others where the kernel has no IRQ time accounting.
    pub softirq: f64,
}

/// The folder of the calling thread below /proc, which any thread of this process can read.
///
/// # Errors
/// What reading the link gives.
pub fn this_thread() -> io::Result<PathBuf> {
    Ok(PathBuf::from("/proc").join(fs::read_link("/proc/thread-self")?))
}

/// Time that a thread was on a CPU, in seconds (`schedstat`, in ns).
///
/// # Errors
/// What reading gives, also when the thread has ended.
pub fn time_of(thread: &std::path::Path) -> io::Result<f64> {
    let text = fs::read_to_string(thread.join("schedstat"))?;
    let nanos = text.split_whitespace().next().and_then(|first| first.parse::<u64>().ok());
    let nanos = nanos.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("schedstat: {text}")))?;
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    Ok(nanos as f64 / 1e9)
}

/// The kernel's softirq threads of these CPUs; none where they cannot be seen.
#[must_use]
pub fn ksoftirqd(cpus: &[usize]) -> Vec<PathBuf> {
    let names: Vec<String> = cpus.iter().map(|cpu| format!("ksoftirqd/{cpu}\n")).collect();
    let is_one = |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|name| names.contains(&name));
    let entries =
        fs::read_dir("/proc").map(|entries| entries.flatten().map(|entry| entry.path()).filter(is_one).collect());
    entries.unwrap_or_default()
}

/// Softirq time of these CPUs, in seconds of 100 ticks.
#[must_use]
pub fn softirq_time(cpus: &[usize]) -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let of = |line: &str| -> Option<f64> {
        let mut words = line.split_whitespace();
        let cpu: usize = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let ticks: f64 = words.nth(6)?.parse().ok()?;
        cpus.contains(&cpu).then_some(ticks / 100.0)
    };
    stat.lines().filter_map(of).sum()
}

/// What the protocols of a network namespace have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocols {
    /// Packets that IP took, after merging (`Ip: InReceives`).
    pub received: u64,
    /// Their bytes (`IpExt: InOctets`).
    pub received_bytes: u64,
    /// TCP segments that were sent again (`Tcp: RetransSegs`).
    pub retransmits: u64,
}

impl Protocols {
    /// These and those of another namespace.
    #[must_use]
    pub fn and(self, other: Protocols) -> Protocols {
        Protocols {
            received: self.received + other.received,
            received_bytes: self.received_bytes + other.received_bytes,
            retransmits: self.retransmits + other.retransmits,
        }
    }

    /// Of the calling thread's namespace.
    ///
    /// # Errors
    /// What reading gives, and when the kernel does not count one of them.
    pub fn read() -> io::Result<Protocols> {
        let snmp = fs::read_to_string("/proc/thread-self/net/snmp")?;
        let netstat = fs::read_to_string("/proc/thread-self/net/netstat")?;
        let lacks =
            |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("the kernel has no counter for {what}"));
        let counter = |text: &str, row: &str, name: &str| counter(text, row, name).ok_or_else(|| lacks(name));
        Ok(Protocols {
            received: counter(&snmp, "Ip:", "InReceives")?,
            received_bytes: counter(&netstat, "IpExt:", "InOctets")?,
            retransmits: counter(&snmp, "Tcp:", "RetransSegs")?,
        })
    }
}

/// A counter of a file of pairs of lines, names and values.
fn counter(text: &str, row: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.split_whitespace().next() == Some(row));
    let at = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "Ip: Forwarding InReceives\nIp: 2 77\nTcp: A RetransSegs\nTcp: -1 9\n";
        assert_eq!((counter(text, "Ip:", "InReceives"), counter(text, "Tcp:", "RetransSegs")), (Some(77), Some(9)));
        assert_eq!(
            (counter(text, "Tcp:", "A"), counter(text, "Udp:", "A"), counter("", "Ip:", "x")),
            (None, None, None)
        );
        Protocols::read().expect("this kernel counts them");
    }

    #[test]
    fn a_threads_time_grows_while_it_works() {
        let thread = this_thread().expect("/proc");
        let before = time_of(&thread).expect("it lives");
        while time_of(&thread).expect("it lives") < before + 0.01 {
            std::hint::spin_loop();
        }
    }
}
