//! What KVM counts over all virtual machines of this host: `/sys/kernel/debug/kvm`.
//!
//! Whoever owns a machine can read its own statistics by `KVM_GET_STATS_FD`; the microVM does, and its arms have them.
//! The machines of other processes, such as QEMU's, are seen here, by root alone.

use crate::source::{Root, Source, row};
use baremark_model::observer::{Absence, Observer, Price, Readings};
use baremark_model::quantity::Quantity;

const FOLDER: &str = "sys/kernel/debug/kvm";
/// Statistics that stand at something instead of counting.
const LEVELS: [&str; 12] = [
    "pages_4k",
    "pages_2m",
    "pages_1g",
    "max_mmu_page_hash_collisions",
    "max_mmu_rmap_size",
    "nx_lpage_splits",
    "lpages",
    "mmu_unsync",
    "guest_mode",
    "blocking",
    "mmu_cache_miss_max",
    "halt_poll_ns",
];

pub(crate) struct Kvm {
    root: Root,
    files: Vec<(String, Source)>,
    event: &'static Quantity,
    level: &'static Quantity,
}

impl Kvm {
    pub(crate) fn new(root: Root) -> Self {
        Kvm { root, files: Vec::new(), event: row("kvm.event"), level: row("kvm.level") }
    }

    fn reason(&self) -> String {
        let kvm = self.root.path("dev/kvm").exists() || self.root.path("sys/module/kvm").exists();
        let debug = !self.root.names("sys/kernel/debug").is_empty();
        match (kvm, debug) {
            (false, _) => "there is no KVM here".to_owned(),
            (true, false) => format!(
                "/{FOLDER} does not exist; as root, mount -t debugfs debugfs /sys/kernel/debug (a microVM's own counts are \
                 with its arms)"
            ),
            (true, true) => format!("/{FOLDER} has no statistics; this back end does not provide them"),
        }
    }
}

impl Observer for Kvm {
    fn price(&self) -> Price {
        Price::High
    }

    fn start(&mut self) -> Result<(), Absence> {
        self.files.clear();
        for name in self.root.names(FOLDER) {
            // Folders in it are single machines, which are part of the sums.
            if self.root.path(&format!("{FOLDER}/{name}")).is_file() {
                let mut source = Source::new("kvm", format!("{FOLDER}/{name}"));
                source.open(&self.root)?;
                self.files.push((name, source));
            }
        }
        if self.files.is_empty() { Err(Absence::new("kvm", self.reason())) } else { Ok(()) }
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        if self.files.is_empty() {
            return Err(Absence::new("kvm", "it was read before it was started"));
        }
        for (name, source) in &mut self.files {
            // Some files hold histograms or words; only whole numbers are statistics of this kind.
            let Ok(count) = source.read()?.trim().parse::<u64>() else { continue };
            let quantity = if LEVELS.contains(&name.as_str()) { self.level } else { self.event };
            into.beside(quantity, name, count);
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.files.clear();
    }
}
