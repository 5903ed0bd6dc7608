//! What kept tasks from the CPUs: quotas of their control groups, and other tasks.
//!
//! A control group that has used up its quota is throttled until its period ends. Its file `cpu.stat` has for how long, in version 2 in
//! microseconds (`throttled_usec`), in version 1 in nanoseconds (`throttled_time`), in both summed over the CPUs that had tasks of it: a time that
//! can grow by several seconds a second. What it means is seen next to the CPU time that the group used. The quotas of the groups around a group
//! hold for it, too. Tasks that waited for a CPU are counted by the kernel for the whole machine (PSI, Linux documentation, accounting/psi).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where version 2 has its groups: alone, or next to version 1.
const UNIFIED: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
/// Where version 1 has a folder for each hierarchy, by the names of its controllers.
const HIERARCHIES: &str = "sys/fs/cgroup";

/// The CPU time of a control group, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupTime {
    /// That its quota withheld.
    throttled_us: u64,
    /// That it used.
    used_us: u64,
}

/// What had kept tasks from the CPUs up to one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// Of this process's control group and those around it, by their folders.
    groups: BTreeMap<PathBuf, GroupTime>,
    /// For how long some task of the machine was ready to run and had no CPU, in microseconds.
    pressure_us: Option<u64>,
}

impl HeldBack {
    /// Up to now. Reads at most two files of each control group around this process.
    #[must_use]
    pub fn now() -> Self {
        HeldBack::below(Path::new("/"))
    }

    /// The same of a machine whose files are below `root`.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let mut groups = BTreeMap::new();
        for line in text("proc/self/cgroup").lines() {
            // Number of the hierarchy, controllers of version 1, path of the group.
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
            if controllers.is_empty() {
                groups.extend(second_version(root, group));
            } else if controllers.split(',').any(|controller| controller == "cpu") {
                groups.extend(first_version(root, controllers, group));
            }
        }
        HeldBack { groups, pressure_us: pressure(&text("proc/pressure/cpu")) }
    }

    /// The share of its CPU time that a quota withheld from `earlier` to this: of what the group used and what was withheld from it, from 0 to 1. Of
    /// this process's control group and those around it the one with the largest share; `None` where the kernel counts it of none.
    #[must_use]
    pub fn throttled_since(&self, earlier: &Self) -> Option<f64> {
        let share = |(folder, now): (&PathBuf, &GroupTime)| {
            let before = earlier.groups.get(folder)?;
            let throttled = now.throttled_us.saturating_sub(before.throttled_us) as f64;
            let used = now.used_us.saturating_sub(before.used_us) as f64;
            Some(if throttled > 0.0 { throttled / (throttled + used) } else { 0.0 })
        };
        self.groups.iter().filter_map(share).reduce(f64::max)
    }

    /// The share of the time `elapsed` between `earlier` and this in which some task of the machine waited for a CPU, from 0 to 1; `None` where the
    /// kernel does not count it, or no time has passed.
    #[must_use]
    pub fn pressure_since(&self, earlier: &Self, elapsed: Duration) -> Option<f64> {
        let us = self.pressure_us?.saturating_sub(earlier.pressure_us?) as f64;
        (!elapsed.is_zero()).then(|| (us / 1e6 / elapsed.as_secs_f64()).min(1.0))
    }
}

/// The CPU time that quotas permit this process on a machine whose files are below `root`, in thousandths of a CPU: the least of its control group and those
/// around it. `None` where none has a quota, or none can be read.
#[must_use]
pub fn quota_millicpus(root: &Path) -> Option<u32> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let of = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let mounts = match controllers {
            "" => UNIFIED.map(|mount| root.join(mount)),
            several if several.split(',').any(|controller| controller == "cpu") => {
                ["cpu", controllers].map(|name| root.join(HIERARCHIES).join(name))
            }
            _ => return None,
        };
        let quotas =
            mounts.iter().flat_map(|mount| around(group).filter_map(move |group| quota_of(&mount.join(group))));
        quotas.min()
    };
    groups.lines().filter_map(of).min()
}

/// The quota of one control group, in thousandths of a CPU; `None` where it has none.
fn quota_of(group: &Path) -> Option<u32> {
    let text = |name: &str| fs::read_to_string(group.join(name)).ok();
    let both =
        text("cpu.max").or_else(|| Some(format!("{} {}", text("cpu.cfs_quota_us")?, text("cpu.cfs_period_us")?)))?;
    // Version 2 writes "max" for none, version 1 "-1".
    let mut numbers = both.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
    let (quota_us, period_us) = (numbers.next()??, numbers.next()??);
    u32::try_from(quota_us.saturating_mul(1000).checked_div(period_us)?).ok()
}

/// Of a group of version 2 and those around it, as far as the controller counts: the folder, and the CPU time.
fn second_version(root: &Path, group: &str) -> Vec<(PathBuf, GroupTime)> {
    let of = |folder: PathBuf| {
        let counts = fs::read_to_string(root.join(&folder).join("cpu.stat")).ok()?;
        let throttled_us = count(&counts, "throttled_usec")?;
        Some((folder, GroupTime { throttled_us, used_us: count(&counts, "usage_usec")? }))
    };
    let folders = UNIFIED.iter().flat_map(|mount| around(group).map(move |group| Path::new(mount).join(group)));
    folders.filter_map(of).collect()
}

/// The same of version 1, in the hierarchy of these `controllers`. Time that is used is counted by the controller `cpuacct`, whose hierarchy is the
/// same or has the same groups: container engines and systemd give a process one path in both. Where it lacks the group, as of one made by hand, the
/// group used at most its quota in each of its periods, so that the share that was withheld is at least what that gives.
fn first_version(root: &Path, controllers: &str, group: &str) -> Vec<(PathBuf, GroupTime)> {
    let hierarchies = root.join(HIERARCHIES);
    // A hierarchy of several controllers has a link for each of them, or only the folder of all.
    let text = |controller: &str, file: &Path| {
        let read = |name: &str| fs::read_to_string(hierarchies.join(name).join(file)).ok();
        read(controller).or_else(|| read(controllers))
    };
    let of = |group: &Path| {
        let counts = text("cpu", &group.join("cpu.stat"))?;
        let throttled_us = count(&counts, "throttled_time")? / 1000;
        let number = |controller: &str, file: &str| text(controller, &group.join(file))?.trim().parse::<u64>().ok();
        let permitted = || count(&counts, "nr_periods")?.checked_mul(number("cpu", "cpu.cfs_quota_us")?);
        let used_us = number("cpuacct", "cpuacct.usage").map(|ns| ns / 1000).or_else(permitted)?;
        let time = GroupTime { throttled_us, used_us };
        Some((Path::new(HIERARCHIES).join(controllers).join(group), time))
    };
    around(group).filter_map(of).collect()
}

/// The paths of a group and of those around it below the first, whose own is empty. In a container the first one that is shown may be its own: then
/// the others are not there.
fn around(group: &str) -> impl Iterator<Item = &Path> {
    Path::new(group).ancestors().filter_map(|group| group.strip_prefix("/").ok())
}

/// The number of a line such as `throttled_usec 1500`.
fn count(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?.trim().parse().ok()
}

/// The total of a line such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=4242`, in microseconds.
fn pressure(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tree::unpacked;

    /// A machine of version 2: so many microseconds that the slice withheld and used, of its scope, and that some task waited.
    fn of_slice(slice: [u64; 2], scope: [u64; 2], waited: u64) -> HeldBack {
        let stat = |[throttled, used]: [u64; 2]| {
            format!(
                "usage_usec {used}\nuser_usec 1\nsystem_usec 1\nnr_periods 9\nnr_throttled 2\nthrottled_usec {throttled}\n"
            )
        };
        let machine = unpacked(&format!(
            "== proc/self/cgroup\n0::/user.slice/job.scope\n\
             == proc/pressure/cpu\nsome avg10=1.00 avg60=0.00 avg300=0.00 total={waited}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n\
             == sys/fs/cgroup/cpu.stat\nusage_usec 90000000\nuser_usec 1\nsystem_usec 1\n\
             == sys/fs/cgroup/user.slice/cpu.stat\n{}\
             == sys/fs/cgroup/user.slice/job.scope/cpu.stat\n{}",
            stat(slice),
            stat(scope)
        ));
        HeldBack::below(machine.path())
    }

    #[test]
    fn the_least_quota_of_a_group_and_those_around_it_holds() {
        let quota = |files: &str| quota_millicpus(unpacked(files).path());
        let second = "== proc/self/cgroup\n0::/user.slice/job.scope\n";
        let of = |slice: &str, scope: &str| {
            let slice = format!("== sys/fs/cgroup/user.slice/cpu.max\n{slice} 100000\n");
            quota(&format!("{second}{slice}== sys/fs/cgroup/user.slice/job.scope/cpu.max\n{scope} 100000\n"))
        };
        assert_eq!([of("max", "max"), of("150000", "max"), of("400000", "50000")], [None, Some(1500), Some(500)]);
        assert_eq!(quota(second), None, "the group of all has no file");
        let first = |quota_us: &str| {
            quota(&format!(
                "== proc/self/cgroup\n4:memory:/job\n3:cpu,cpuacct:/job\n\
                 == sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us\n{quota_us}\n\
                 == sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us\n50000\n"
            ))
        };
        assert_eq!([first("-1"), first("100000")], [None, Some(2000)]);
    }

    #[test]
    fn a_quota_of_a_group_or_of_one_around_it_is_seen() {
        let before = of_slice([1000, 5000], [0, 5000], 100);
        // The slice could have used another 4,000 us, of which its quota withheld 1,000.
        let slice = of_slice([2000, 8000], [0, 6000], 500_100);
        assert_eq!(slice.throttled_since(&before), Some(0.25));
        // Of one CPU half; of two that were both withheld, two thirds.
        assert_eq!(of_slice([1000, 5000], [500, 5500], 100).throttled_since(&before), Some(0.5));
        assert_eq!(of_slice([1000, 5000], [2000, 6000], 100).throttled_since(&before), Some(2.0 / 3.0));
        assert_eq!(before.throttled_since(&before), Some(0.0));
        assert_eq!(slice.pressure_since(&before, Duration::from_secs(1)), Some(0.5));
        assert_eq!(slice.pressure_since(&before, Duration::from_millis(100)), Some(1.0), "a share is not above 1");
        assert_eq!(slice.pressure_since(&before, Duration::ZERO), None);
    }

    /// A machine of version 1, with the first group of version 2 next to it: hierarchies by their names, and where the group has its folder.
    fn of_container([cpu, accounting]: [&str; 2], group: &str, throttled_ns: u64, used_ns: u64) -> HeldBack {
        let (line, usage_line) = match cpu == accounting {
            true => (cpu, String::new()),
            false => ("cpu", format!("3:cpuacct:{group}\n")),
        };
        let machine = unpacked(&format!(
            "== proc/self/cgroup\n5:memory:{group}\n4:{line}:{group}\n{usage_line}0::/\n\
             == sys/fs/cgroup/unified/cpu.stat\nusage_usec 1\nuser_usec 1\nsystem_usec 0\n\
             == sys/fs/cgroup/{cpu}/docker/a/cpu.stat\nnr_periods 9\nnr_throttled 2\nthrottled_time {throttled_ns}\n\
             == sys/fs/cgroup/{accounting}/docker/a/cpuacct.usage\n{used_ns}\n"
        ));
        HeldBack::below(machine.path())
    }

    #[test]
    fn version_1_counts_in_nanoseconds_in_the_hierarchy_of_the_controller() {
        for hierarchies in [["cpu", "cpuacct"], ["cpu,cpuacct", "cpu,cpuacct"]] {
            let [before, after] = [(0, 7_000_000), (3_000_000, 8_000_000)]
                .map(|(ns, used)| of_container(hierarchies, "/docker/a", ns, used));
            assert_eq!(after.throttled_since(&before), Some(0.75), "{hierarchies:?}");
            assert_eq!(after.pressure_since(&before, Duration::from_secs(1)), None, "a kernel without PSI");
        }
        let elsewhere = of_container(["cpu", "cpuacct"], "/docker/b", 3_000_000, 8_000_000);
        assert_eq!(elsewhere.throttled_since(&elsewhere), None, "the group of another process");
    }

    /// A group of the hierarchy `cpu` alone: its 10 periods of 2 ms more permitted 20 ms, and 60 ms were withheld.
    #[test]
    fn a_group_whose_use_is_not_counted_used_at_most_its_quota() {
        let of = |periods: u64, throttled_ms: u64, quota: &str| {
            let machine = unpacked(&format!(
                "== proc/self/cgroup\n4:cpu:/job\n3:cpuacct:/\n\
                 == sys/fs/cgroup/cpu/job/cpu.stat\nnr_periods {periods}\nnr_throttled 2\nthrottled_time {throttled_ms}000000\n\
                 == sys/fs/cgroup/cpu/job/cpu.cfs_quota_us\n{quota}\n\
                 == sys/fs/cgroup/cpuacct/cpuacct.usage\n8000\n"
            ));
            HeldBack::below(machine.path())
        };
        assert_eq!(of(30, 100, "2000").throttled_since(&of(20, 40, "2000")), Some(0.75));
        let unlimited = of(0, 0, "-1");
        assert_eq!(unlimited.throttled_since(&unlimited), None, "a group without a quota");
    }

    /// In a container without a name space of control groups the path is the host's, and the first folder is the container's own group.
    #[test]
    fn a_group_that_is_shown_as_the_first_one_is_found() {
        let of = |throttled: u64| {
            let machine = unpacked(&format!(
                "== proc/self/cgroup\n4:cpu,cpuacct:/docker/a\n\
                 == sys/fs/cgroup/cpu/cpu.stat\nnr_periods 9\nthrottled_time {throttled}\n\
                 == sys/fs/cgroup/cpuacct/cpuacct.usage\n8000\n"
            ));
            HeldBack::below(machine.path())
        };
        assert_eq!(of(9000).throttled_since(&of(1000)), Some(1.0));
    }

    #[test]
    fn where_nothing_is_counted_nothing_is_known() {
        let machine = unpacked(
            "== proc/self/cgroup\n0::/\n== sys/fs/cgroup/cpu.stat\nusage_usec 9\nuser_usec 9\nsystem_usec 0\n",
        );
        let found = HeldBack::below(machine.path());
        assert_eq!(found.throttled_since(&found), None, "the first group has no quota");
        let empty = HeldBack::below(&machine.path().join("proc"));
        assert_eq!((&empty, empty.throttled_since(&found)), (&HeldBack::default(), None));
        assert_eq!(empty.pressure_since(&found, Duration::from_secs(1)), None);
        assert_eq!(pressure("some avg10=0.00 total=4242\nfull avg10=0.00 total=1\n"), Some(4242));
        assert_eq!((pressure("full total=1\n"), count("throttled_usecs 5\n", "throttled_usec")), (None, None));
    }
}
