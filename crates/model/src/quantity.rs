//! What observers read: one row defines a quantity, its unit and how readings become a value.
//!
//! Names follow the kernel's own where it has one. A value's key is the quantity's, with `:` and the instance where it
//! belongs to one of many: `disk.reads:vda`. The key without an instance is the whole machine's.

use std::collections::HashMap;
use std::sync::LazyLock;

/// How readings become a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// A counter of 64 bits: what it grew by.
    Counter,
    /// A counter of 32 bits, or a sum of such: what it grew by, across a wrap.
    Counter32,
    /// A level: what it stood at, on average over the readings.
    Level,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// The key.
    pub key: &'static str,
    /// The unit of the value; a counter's rate is in this per second.
    pub unit: &'static str,
    /// Units for one count of the kernel's.
    pub scale: f64,
    /// How readings become a value.
    pub growth: Growth,
    /// Whether there is one for each CPU: such instances are kept for whole trials and left out of series unless requested.
    pub per_cpu: bool,
    /// One sentence for people.
    pub help: &'static str,
}

const fn counter(key: &'static str, unit: &'static str, scale: f64, help: &'static str) -> Quantity {
    Quantity { key, unit, scale, growth: Growth::Counter, per_cpu: false, help }
}

const fn counter32(key: &'static str, unit: &'static str, scale: f64, help: &'static str) -> Quantity {
    Quantity { growth: Growth::Counter32, ..counter(key, unit, scale, help) }
}

const fn level(key: &'static str, unit: &'static str, scale: f64, help: &'static str) -> Quantity {
    Quantity { growth: Growth::Level, ..counter(key, unit, scale, help) }
}

/// A state of `/proc/stat`, in ticks of `USER_HZ`, which is 100 on every Linux of this architecture.
const fn cpu(key: &'static str, help: &'static str) -> Quantity {
    Quantity { per_cpu: true, ..counter(key, "s", 0.01, help) }
}

const fn events(key: &'static str, help: &'static str) -> Quantity {
    counter(key, "", 1.0, help)
}

const fn kib(key: &'static str, help: &'static str) -> Quantity {
    level(key, "B", 1024.0, help)
}

/// Every quantity.
pub const QUANTITIES: &[Quantity] = &[
    cpu("cpu.user", "time in user mode; time of guests is part of it"),
    cpu("cpu.nice", "time in user mode at low priority"),
    cpu("cpu.system", "time in the kernel"),
    cpu("cpu.idle", "time with nothing to do"),
    cpu("cpu.iowait", "idle time while something waited for a disk"),
    cpu("cpu.irq", "time in hardware interrupts"),
    cpu("cpu.softirq", "time in soft interrupts"),
    cpu("cpu.steal", "time that the hypervisor gave to others while this machine wanted to run"),
    cpu("cpu.guest", "time in which a guest ran; part of user"),
    cpu("cpu.guest_nice", "time in which a guest of low priority ran; part of nice"),
    level("cpu.online", "CPUs", 1.0, "CPUs that are online"),
    counter("lost.looked", "s", 1e-9, "time for which a loop looked at the clock alone"),
    counter("lost.time", "s", 1e-9, "time of it in which the CPU was taken away (stall)"),
    events("lost.gaps", "stalls of more than two microseconds"),
    events("kernel.context_switches", "context switches"),
    events("kernel.interrupts", "hardware interrupts, of all sources"),
    events("kernel.softirqs", "soft interrupts, of all kinds"),
    events("kernel.forks", "processes and threads created"),
    level("kernel.load1", "", 0.01, "load average over one minute"),
    level("kernel.load5", "", 0.01, "load average over five minutes"),
    level("kernel.load15", "", 0.01, "load average over fifteen minutes"),
    level("kernel.running", "tasks", 1.0, "tasks that run or could"),
    level("kernel.blocked", "tasks", 1.0, "tasks that wait for a disk"),
    counter32("interrupts.source", "", 1.0, "interrupts of one source, over all CPUs"),
    counter32("softirqs.kind", "", 1.0, "soft interrupts of one kind, over all CPUs"),
    counter32("tlb.shootdowns", "", 1.0, "interrupts that had another CPU flush its translations (row TLB)"),
    events("disk.reads", "reads completed"),
    counter("disk.read_bytes", "B", 512.0, "bytes read"),
    counter32("disk.read_time", "s", 1e-3, "time that reads took, summed over them"),
    events("disk.writes", "writes completed"),
    counter("disk.write_bytes", "B", 512.0, "bytes written"),
    counter32("disk.write_time", "s", 1e-3, "time that writes took, summed over them"),
    level("disk.in_flight", "requests", 1.0, "requests on their way"),
    counter32("disk.busy", "s", 1e-3, "time with at least one request on its way"),
    events("disk.discards", "discards completed"),
    counter("disk.discard_bytes", "B", 512.0, "bytes discarded"),
    events("disk.flushes", "flushes completed"),
    events("io.reads", "reads completed, each of them traced"),
    counter("io.read_queue_time", "s", 1e-9, "time from request to issue of reads, summed over them"),
    counter("io.read_device_time", "s", 1e-9, "time from issue to completion of reads, summed over them"),
    level("io.read_p50", "s", 1e-9, "median time from request to completion of the reads since the last reading"),
    level(
        "io.read_p99",
        "s",
        1e-9,
        "99th percentile of the time from request to completion of the reads since the last reading",
    ),
    events("io.writes", "writes completed, each of them traced"),
    counter("io.write_queue_time", "s", 1e-9, "time from request to issue of writes, summed over them"),
    counter("io.write_device_time", "s", 1e-9, "time from issue to completion of writes, summed over them"),
    level("io.write_p50", "s", 1e-9, "median time from request to completion of the writes since the last reading"),
    level(
        "io.write_p99",
        "s",
        1e-9,
        "99th percentile of the time from request to completion of the writes since the last reading",
    ),
    events("packet.received", "packets that the stack took, after merging, each of them traced"),
    counter("packet.received_bytes", "B", 1.0, "bytes of these packets, without the link's header"),
    events("packet.merged", "packets that were merged into one of these (GRO)"),
    events("packet.sent", "packets that the driver took, before it cuts them, each of them traced"),
    counter("packet.sent_bytes", "B", 1.0, "bytes of these packets, with the link's header"),
    events("packet.refused", "packets that the driver refused for the moment"),
    events("packet.polls", "polls of the driver (NAPI)"),
    events("packet.full_polls", "polls that took as many packets as they may"),
    level("packet.received_size_p50", "B", 1.0, "median size of the packets received since the last reading"),
    level("packet.sent_size_p50", "B", 1.0, "median size of the packets sent since the last reading"),
    level("packet.per_poll_p50", "", 1.0, "median number of packets of a poll since the last reading"),
    level("packet.per_poll_p99", "", 1.0, "99th percentile of the number of packets of a poll since the last reading"),
    events("packet.drops", "packets dropped by the kernel, by its word for the reason"),
    counter("net.receive_bytes", "B", 1.0, "bytes received"),
    events("net.receive_packets", "packets received"),
    events("net.receive_errors", "packets received with an error"),
    events("net.receive_drops", "packets received and dropped"),
    counter("net.transmit_bytes", "B", 1.0, "bytes sent"),
    events("net.transmit_packets", "packets sent"),
    events("net.transmit_errors", "packets that could not be sent"),
    events("net.transmit_drops", "packets dropped before they were sent"),
    level("sockets.unsent", "%", 100.0, "readings at which a connection had had data to send since the reading before"),
    level("sockets.unread", "%", 100.0, "readings at which data waited to be read, or a connection to be accepted"),
    counter(
        "sockets.in_transit",
        "s",
        1e-6,
        "time in which data of a connection was on its way to a peer that had room for it",
    ),
    events("sockets.segments_sent", "TCP segments sent"),
    events("sockets.segments_retransmitted", "TCP segments sent again"),
    events("sockets.accept_overflows", "connections refused because too many waited to be accepted"),
    kib("memory.total", "memory that the kernel has (MemTotal)"),
    kib("memory.free", "memory that nothing uses (MemFree)"),
    kib("memory.available", "memory that could be had without swapping (MemAvailable)"),
    kib("memory.cached", "page cache (Cached)"),
    kib("memory.dirty", "pages that wait to be written (Dirty)"),
    kib("memory.anonymous", "anonymous memory that is mapped (AnonPages)"),
    kib("memory.anonymous_huge", "anonymous memory in transparent huge pages (AnonHugePages)"),
    kib("memory.page_tables", "page tables (PageTables)"),
    kib("memory.secondary_page_tables", "page tables of virtual machines (SecPageTables)"),
    kib("memory.swap_free", "swap space that nothing uses (SwapFree)"),
    level("memory.huge_pages", "pages", 1.0, "reserved huge pages (HugePages_Total)"),
    level("memory.huge_pages_free", "pages", 1.0, "reserved huge pages that nothing uses (HugePages_Free)"),
    events("vm.pgfault", "page faults"),
    events("vm.pgmajfault", "page faults that had to read from a disk"),
    counter("vm.pgpgin", "B", 1024.0, "bytes paged in from disks"),
    counter("vm.pgpgout", "B", 1024.0, "bytes paged out to disks"),
    events("vm.pswpin", "pages swapped in"),
    events("vm.pswpout", "pages swapped out"),
    events("vm.workingset_refault_anon", "pages swapped in soon after they were evicted"),
    events("vm.workingset_refault_file", "pages of files read again soon after they were evicted"),
    events("vm.pgmigrate_success", "pages moved"),
    events("vm.compact_stall", "allocations that had to wait for compaction"),
    events("vm.allocstall", "allocations that had to wait for reclaim"),
    events("vm.oom_kill", "processes killed by the out-of-memory killer"),
    events("vm.thp_fault_alloc", "faults that got a huge page"),
    events("vm.thp_fault_fallback", "faults that wanted a huge page and got small ones"),
    events("vm.thp_collapse_alloc", "huge pages made by khugepaged"),
    events("vm.thp_split_page", "huge pages split"),
    events("vm.numa_hint_faults", "faults by which the kernel learns who uses a page"),
    events("vm.numa_pages_migrated", "pages that the kernel moved to another node"),
    events("vm.nr_tlb_remote_flush", "flushes of translations asked of other CPUs, where the kernel counts them"),
    events("vm.nr_tlb_local_flush_all", "flushes of all translations of a CPU, where the kernel counts them"),
    events("vm.nr_tlb_local_flush_one", "flushes of one translation, where the kernel counts them"),
    events("numa.numa_hit", "pages allocated on the intended node"),
    events("numa.numa_miss", "pages allocated here because another node had no free pages"),
    events("numa.numa_foreign", "pages wanted here and allocated on another node"),
    events("numa.interleave_hit", "interleaved pages allocated as intended"),
    events("numa.local_node", "pages allocated here by a CPU of this node"),
    events("numa.other_node", "pages allocated here by a CPU of another node"),
    counter("pressure.cpu_some", "s", 1e-6, "time in which some task waited for a CPU"),
    counter("pressure.cpu_full", "s", 1e-6, "time in which all tasks waited for a CPU"),
    counter("pressure.io_some", "s", 1e-6, "time in which some task waited for a disk"),
    counter("pressure.io_full", "s", 1e-6, "time in which all tasks waited for a disk"),
    counter("pressure.memory_some", "s", 1e-6, "time in which some task waited for memory"),
    counter("pressure.memory_full", "s", 1e-6, "time in which all tasks waited for memory"),
    counter("pressure.irq_full", "s", 1e-6, "time that interrupts took from tasks"),
    events("counters.cycles", "cycles of the processor's cores"),
    events("counters.instructions", "instructions completed"),
    events("counters.dtlb_load_misses", "loads whose translation was not in the first data TLB"),
    events("counters.itlb_misses", "fetches whose translation was not in the instruction TLB"),
    events("counters.llc_misses", "accesses that the last cache did not have"),
    events("counters.walk_cycles", "cycles with a page walk at work; Intel's counter, by its raw number"),
    events("kvm.event", "events that KVM counts, over all virtual machines, by KVM's names"),
    level("kvm.level", "", 1.0, "current values of KVM's statistics, over all virtual machines, by KVM's names"),
];

/// The quantity of that key.
#[must_use]
pub fn find(key: &str) -> Option<&'static Quantity> {
    static BY_KEY: LazyLock<HashMap<&str, &Quantity>> =
        LazyLock::new(|| QUANTITIES.iter().map(|quantity| (quantity.key, quantity)).collect());
    BY_KEY.get(key).copied()
}

/// A value's key: the quantity's, and the instance's name where it has one.
#[must_use]
pub fn join(quantity: &str, instance: &str) -> String {
    if instance.is_empty() { quantity.to_owned() } else { format!("{quantity}:{instance}") }
}

/// A value's key apart: quantity and instance, which is empty where the key has none.
#[must_use]
pub fn split(key: &str) -> (&str, &str) {
    key.split_once(':').unwrap_or((key, ""))
}

impl Quantity {
    /// By how much the counter grew from one reading to the next, in counts; `None` where it went back for no wrap, as when
    /// a device went and came again.
    #[must_use]
    pub fn grown(&self, from: u64, to: u64) -> Option<u64> {
        const WRAP: u64 = 1 << 32;
        match (self.growth, to.checked_sub(from)) {
            (_, Some(growth)) => Some(growth),
            (Growth::Counter32, None) => WRAP.checked_sub(from - to).filter(|growth| *growth < WRAP / 2),
            (Growth::Counter | Growth::Level, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_stands_twice_and_none_has_a_colon() {
        for (index, quantity) in QUANTITIES.iter().enumerate() {
            assert!(!quantity.key.contains(':') && quantity.scale > 0.0, "{quantity:?}");
            assert!(QUANTITIES[..index].iter().all(|other| other.key != quantity.key), "{quantity:?}");
        }
    }

    #[test]
    fn growth_is_seen_across_a_wrap_and_never_invented() {
        let wide = find("disk.reads").expect("a row");
        let narrow = find("disk.read_time").expect("a row");
        assert_eq!(wide.grown(10, 12), Some(2));
        assert_eq!(wide.grown(u64::from(u32::MAX), 3), None, "a counter of 64 bits does not wrap");
        assert_eq!(narrow.grown(u64::from(u32::MAX), 3), Some(4));
        assert_eq!(narrow.grown(2 * u64::from(u32::MAX) + 10, u64::from(u32::MAX) + 12), Some(3), "a sum of two");
        assert_eq!(narrow.grown(1000, 3), None, "a device that came again");
    }

    #[test]
    fn keys_come_apart_as_they_were_joined() {
        assert_eq!(split(&join("net.receive_bytes", "eth0:1")), ("net.receive_bytes", "eth0:1"));
        assert_eq!(split(&join("kernel.forks", "")), ("kernel.forks", ""));
    }
}
