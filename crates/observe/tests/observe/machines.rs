//! Machines to observe: a recording of a small one, and large ones written in the kernel's own formats.

use baremark_observe::Root;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A virtual machine with two CPUs, as its kernel (6.1) told it.
pub fn two_cpus() -> Root {
    Root::recorded(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/observe/two-cpus"))
}

/// A machine in a folder, which can be changed while it is observed.
pub struct Machine {
    folder: TempDir,
    pub cpus: Vec<usize>,
    pub nodes: usize,
    /// How often everything has happened.
    pub beat: u64,
}

impl Machine {
    pub fn new(cpus: usize, nodes: usize) -> Self {
        let machine = Machine { folder: TempDir::new().unwrap(), cpus: (0..cpus).collect(), nodes, beat: 1000 };
        for (device, what) in [("vda", ""), ("vda1", "partition"), ("dm-0", ""), ("nvme0n1", ""), ("md127", "")] {
            machine.write(&format!("sys/class/block/{device}/size"), "1\n");
            if !what.is_empty() {
                machine.write(&format!("sys/class/block/{device}/{what}"), "1\n");
            }
        }
        machine.write("sys/class/block/dm-0/slaves/vda", "");
        machine.write("sys/class/block/md127/slaves/nvme0n1", "");
        machine.write("sys/class/net/eth0/device/vendor", "0x1af4\n");
        machine.write("sys/class/net/br0/bridge/id", "1\n");
        machine.tell();
        machine
    }

    pub fn root(&self) -> Root {
        Root::recorded(self.folder.path())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Everything happens once more.
    pub fn go_on(&mut self) {
        self.beat += 1;
        self.tell();
    }

    /// Writes every file as the kernel would.
    pub fn tell(&self) {
        let beat = self.beat;
        self.write("proc/stat", &self.stat());
        self.write("proc/loadavg", "231.07 200.00 150.50 3/4096 12345\n");
        self.write("proc/interrupts", &self.interrupts());
        self.write("proc/softirqs", &self.softirqs());
        self.write("proc/diskstats", &self.diskstats());
        self.write("proc/net/dev", &self.net());
        self.write("proc/net/tcp", "  sl  local_address rem_address   st tx_queue rx_queue\n");
        self.write("proc/net/snmp", &format!("Tcp: OutSegs RetransSegs\nTcp: {} {beat}\n", 3 * beat));
        let meminfo =
            "MemTotal:       498073600 kB\nMemFree:        1000 kB\nMemAvailable:   2000 kB\nHugePages_Total:   512\n";
        self.write("proc/meminfo", meminfo);
        let stalls = "allocstall_dma 1\nallocstall_normal 2\nallocstall_movable 3\n";
        self.write("proc/vmstat", &format!("nr_free_pages 5\npgfault {beat}\nthp_fault_alloc {}\n{stalls}", 2 * beat));
        let waited = |us: u64| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\nfull avg10=0.00 total=0\n");
        for kind in ["cpu", "io", "memory"] {
            self.write(&format!("proc/pressure/{kind}"), &waited(1000 * beat));
        }
        for node in 0..self.nodes {
            let stat =
                format!("numa_hit {beat}\nnuma_miss 0\nnuma_foreign 0\nlocal_node {}\nother_node {beat}\n", 3 * beat);
            self.write(&format!("sys/devices/system/node/node{node}/numastat"), &stat);
        }
    }

    fn stat(&self) -> String {
        let beat = self.beat;
        let line = |times: u64| {
            let states = [30, 0, 20, 40, 0, 1, 2, 7, 10, 0].map(|share: u64| (share * beat * times).to_string());
            states.join(" ")
        };
        let mut text = format!("cpu  {}\n", line(self.cpus.len() as u64));
        for cpu in &self.cpus {
            let _ = writeln!(text, "cpu{cpu} {}", line(1));
        }
        let many = " 0".repeat(2000);
        let _ = writeln!(text, "intr {}{many}\nctxt {}\nbtime 1\nprocesses {beat}", 327_000 * beat, 287_000 * beat);
        let _ = writeln!(text, "procs_running 70\nprocs_blocked 2\nsoftirq {beat} 1 2 3");
        text
    }

    fn interrupts(&self) -> String {
        let row = |count: u64| self.cpus.iter().fold(String::new(), |row, _| format!("{row}{count:10} "));
        let mut text = self.cpus.iter().fold("           ".to_owned(), |row, cpu| format!("{row}CPU{cpu:<8}"));
        text.push('\n');
        let _ =
            writeln!(text, " 24: {} IR-PCI-MSIX-0000:17:00.0  3-edge      mlx5_comp3@pci:0000:17:00.0", row(self.beat));
        let _ = writeln!(text, "NMI: {}  Non-maskable interrupts\nTLB: {}  TLB shootdowns", row(0), row(2 * self.beat));
        text.push_str("ERR:          0\nMIS:          0\n");
        text
    }

    fn softirqs(&self) -> String {
        let row = |count: u64| self.cpus.iter().fold(String::new(), |row, _| format!("{row} {count:10}"));
        let heading = self.cpus.iter().fold(" ".repeat(20), |row, cpu| format!("{row}CPU{cpu:<8}"));
        format!("{heading}\n      NET_RX:{}\n       TIMER:{}\n", row(self.beat), row(0))
    }

    fn diskstats(&self) -> String {
        let line = |name: &str, times: u64| {
            let beat = self.beat * times;
            let fields = [10 * beat, 0, 80 * beat, 20 * beat, 5 * beat, 0, 40 * beat, 50 * beat, 3, 7 * beat, 0];
            let fields = fields.map(|field| (field & 0xffff_ffff).to_string());
            format!(" 254       0 {name} {}\n", fields.join(" "))
        };
        ["vda", "vda1", "dm-0", "nvme0n1", "md127", "loop0", "zram0"].iter().map(|name| line(name, 1)).collect()
    }

    fn net(&self) -> String {
        let mut text = "Inter-|   Receive |  Transmit\n face |bytes    packets errs drop\n".to_owned();
        for name in ["lo", "eth0", "br0"] {
            let beat = self.beat;
            let receive = format!("{} {} 0 0 0 0 0 0", 1500 * beat, beat);
            let _ = writeln!(text, "{name:>6}: {receive} {} {} 0 0 0 0 0 0", 600 * beat, 2 * beat);
        }
        text
    }
}
