//! Which MMU virtualization is at work: what the machine's measured translations go through.
//!
//! *Nested*: the processor walks two tables (Intel's EPT, AMD's NPT). *Shadow*: KVM merges both tables in software, and
//! the processor walks the merged one; the layout of the guest's own tables then does not matter to a walk. The vendor
//! modules say it in their parameters; a PVM back end has no hardware help and always shadows.

use baremark_model::codes::Translation;
use std::fmt;
use std::fs;
use std::path::Path;

/// How guest-physical addresses are translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MmuMode {
    /// By the processor, from a second table; its name, "EPT" or "NPT".
    Nested(&'static str),
    /// By tables that KVM keeps merged; why, such as "PVM" or "EPT off".
    Shadow(&'static str),
    /// Nothing on this machine says.
    Unknown,
}

/// The mode and what it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MmuVirtualization {
    /// How guest-physical addresses are translated.
    pub mode: MmuMode,
    /// The facts behind it, for a reader.
    pub detail: String,
}

impl MmuMode {
    /// The mode as a code.
    #[must_use]
    pub fn translation(&self) -> Translation {
        match self {
            MmuMode::Nested(_) => Translation::Nested,
            MmuMode::Shadow(_) => Translation::Shadow,
            MmuMode::Unknown => Translation::Unknown,
        }
    }
}

impl fmt::Display for MmuMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MmuMode::Nested(name) => write!(f, "nested ({name})"),
            MmuMode::Shadow(why) => write!(f, "shadow ({why})"),
            MmuMode::Unknown => f.write_str("unknown"),
        }
    }
}

impl fmt::Display for MmuVirtualization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mode.fmt(f)
    }
}

/// The mode of this machine's KVM.
#[must_use]
pub fn mmu_virtualization() -> MmuVirtualization {
    mmu_virtualization_in(Path::new("/"))
}

/// The mode according to the `sys` and `proc` below `root`; for recorded machines.
#[must_use]
pub fn mmu_virtualization_in(root: &Path) -> MmuVirtualization {
    let modules = root.join("sys/module");
    let parameter = |path: &str| fs::read_to_string(modules.join(path)).ok().map(|text| text.trim().to_owned());
    let ept = parameter("kvm_intel/parameters/ept");
    let npt = parameter("kvm_amd/parameters/npt");
    let pvm = modules.join("kvm_pvm").is_dir();
    let mode = if pvm {
        MmuMode::Shadow("PVM")
    } else if let Some(ept) = &ept {
        if is_on(ept) { MmuMode::Nested("EPT") } else { MmuMode::Shadow("EPT off") }
    } else if let Some(npt) = &npt {
        if is_on(npt) { MmuMode::Nested("NPT") } else { MmuMode::Shadow("NPT off") }
    } else {
        MmuMode::Unknown
    };
    let mut facts = Vec::new();
    let mut say = |name: &str, value: Option<&str>| facts.extend(value.map(|value| format!("{name}={value}")));
    say("kvm_intel.ept", ept.as_deref());
    say("kvm_amd.npt", npt.as_deref());
    say("kvm_pvm", pvm.then_some("loaded"));
    say("kvm.tdp_mmu", parameter("kvm/parameters/tdp_mmu").as_deref());
    say("cpu", has_hypervisor_flag(root).then_some("itself virtual"));
    if facts.is_empty() {
        facts.push("no KVM module is loaded: load kvm_intel or kvm_amd".into());
    }
    MmuVirtualization { mode, detail: facts.join(", ") }
}

/// Module parameters print booleans as Y and N, integers that mean booleans as 1 and 0.
fn is_on(value: &str) -> bool {
    matches!(value, "Y" | "y" | "1")
}

fn has_hypervisor_flag(root: &Path) -> bool {
    let Ok(text) = fs::read_to_string(root.join("proc/cpuinfo")) else { return false };
    text.lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A recorded machine below the system's directory for temporary files, removed when dropped.
    struct Recorded(PathBuf);

    impl Recorded {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("baremark-mmu-{}-{name}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("a file in a directory")).expect("writable");
                fs::write(path, text).expect("writable");
            }
            Recorded(root)
        }
    }

    impl Drop for Recorded {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn mode_of(name: &str, files: &[(&str, &str)]) -> MmuVirtualization {
        mmu_virtualization_in(&Recorded::new(name, files).0)
    }

    #[test]
    fn intel_with_and_without_ept() {
        let on = mode_of("ept", &[("sys/module/kvm_intel/parameters/ept", "Y\n")]);
        assert_eq!((on.mode, on.detail.as_str()), (MmuMode::Nested("EPT"), "kvm_intel.ept=Y"));
        let off = mode_of("no-ept", &[("sys/module/kvm_intel/parameters/ept", "N\n")]);
        assert_eq!(off.mode.to_string(), "shadow (EPT off)");
    }

    #[test]
    fn amd_prints_a_number_or_a_letter() {
        let files =
            |value| [("sys/module/kvm_amd/parameters/npt", value), ("sys/module/kvm/parameters/tdp_mmu", "Y\n")];
        assert_eq!(mode_of("npt", &files("1\n")).to_string(), "nested (NPT)");
        assert_eq!(mode_of("npt-y", &files("Y\n")).detail, "kvm_amd.npt=Y, kvm.tdp_mmu=Y");
        assert_eq!(mode_of("no-npt", &files("0\n")).mode, MmuMode::Shadow("NPT off"));
    }

    #[test]
    fn pvm_shadows_and_a_virtual_cpu_is_said() {
        let pvm = mode_of(
            "pvm",
            &[
                ("sys/module/kvm_pvm/parameters/force", "N\n"),
                ("sys/module/kvm/parameters/tdp_mmu", "N\n"),
                ("proc/cpuinfo", "processor : 0\nflags\t\t: fpu hypervisor lahf_lm\n"),
            ],
        );
        assert_eq!(pvm.to_string(), "shadow (PVM)");
        assert_eq!(pvm.detail, "kvm_pvm=loaded, kvm.tdp_mmu=N, cpu=itself virtual");
    }

    #[test]
    fn without_a_module_nothing_is_known() {
        let none = mode_of("none", &[("proc/cpuinfo", "flags : fpu\n")]);
        assert_eq!(none.mode, MmuMode::Unknown);
        assert!(none.detail.contains("load kvm_intel or kvm_amd"));
    }
}
