//! What the memory of a guest is made of, as it is requested and as the kernel counts it.

use super::difference::Difference;
use baremark_model::site::Missing;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Where the kernel counts its reserved huge pages of 2 MiB.
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
const HUGE_PAGE: u64 = 2 << 20;

/// What the guest's memory is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// What the kernel gives.
    #[default]
    AsIs,
    /// Small pages: the hypervisor's process gets no transparent huge ones.
    Small,
    /// Transparent huge pages, touched before the guest starts and counted after.
    Huge,
    /// Huge pages that the machine has reserved.
    Reserved,
}

impl Backing {
    /// What a study's word for it says.
    pub(crate) fn of_word(word: Option<&str>) -> Backing {
        match word {
            Some("4k") => Backing::Small,
            Some("2m") => Backing::Huge,
            Some("hugetlb") => Backing::Reserved,
            _ => Backing::AsIs,
        }
    }
}

/// Says what of it this machine has not.
///
/// # Errors
/// What is missing, with the remedy.
pub(crate) fn check(backing: Backing, memory_bytes: u64) -> Result<(), Missing> {
    if backing == Backing::Reserved {
        let free: u64 = fs::read_to_string(HUGE_PAGES).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let needed = memory_bytes.div_ceil(HUGE_PAGE);
        if free < needed {
            let what = format!("the guest needs {needed} reserved huge pages and {free} are free");
            return Err(Missing { what, remedy: "reserve them: vm.nr_hugepages".to_owned() });
        }
    }
    if backing == Backing::Huge
        && fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").is_ok_and(|text| text.contains("[never]"))
    {
        let what = "transparent huge pages are disabled on this machine".to_owned();
        let remedy = "write madvise into /sys/kernel/mm/transparent_hugepage/enabled".to_owned();
        return Err(Missing { what, remedy });
    }
    Ok(())
}

/// Has the hypervisor that `command` starts get no transparent huge pages, where small ones are requested.
pub(crate) fn hold_to(backing: Backing, command: &mut Command) {
    if backing == Backing::Small {
        // SAFETY: prctl with numbers alone is async-signal-safe and changes the child only.
        unsafe { command.pre_exec(without_huge_pages) };
    }
}

fn without_huge_pages() -> std::io::Result<()> {
    // SAFETY: PR_SET_THP_DISABLE takes numbers alone.
    let rc = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    if rc == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Says when the memory of the hypervisor's process is not made of what was requested, by the kernel's own count.
///
/// # Errors
/// What it is made of.
pub(crate) fn backing_is(asked: Backing, memory_bytes: u64, pid: u32) -> Result<(), Difference> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        number.unwrap_or(0) * 1024
    };
    let huge = field("AnonHugePages") + field("ShmemPmdMapped");
    let reserved = field("Shared_Hugetlb") + field("Private_Hugetlb");
    let only =
        |bytes: u64, kind| Err(Difference::Backing { kind, found_mib: bytes >> 20, wanted_mib: memory_bytes >> 20 });
    match asked {
        Backing::Small if huge > 0 => Err(Difference::Huge(huge >> 20)),
        Backing::Huge if huge < memory_bytes / 10 * 9 => only(huge, "huge"),
        Backing::Reserved if reserved < memory_bytes / 10 * 9 => only(reserved, "reserved"),
        _ => Ok(()),
    }
}
