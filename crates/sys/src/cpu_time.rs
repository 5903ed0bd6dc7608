//! Processor time that this machine has spent, from `/proc/stat`: by everybody, whoever asks.

use std::fs;
use std::io;

/// Processor time since the machine started, over all CPUs, in the kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time in which a CPU did something, stolen time included.
    pub busy: u64,
    /// All time.
    pub all: u64,
    /// Time that the hypervisor below took away.
    pub stolen: u64,
    /// How many CPUs there are.
    pub cpus: u64,
}

/// A tick of `/proc/stat`, in seconds: 1/USER_HZ, which is 1/100 on x86-64.
pub const TICK_S: f64 = 0.01;

impl CpuTime {
    /// Up to now.
    ///
    /// # Errors
    /// What reading `/proc/stat` gives; `InvalidData` when it has no line of all CPUs.
    pub fn now() -> io::Result<CpuTime> {
        parse(&fs::read_to_string("/proc/stat")?).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "/proc/stat has no line 'cpu' with its times; is this Linux?")
        })
    }

    /// Up to now, of these CPUs alone.
    ///
    /// # Errors
    /// What reading `/proc/stat` gives; `InvalidData` when it lacks one of them.
    pub fn of(cpus: &[usize]) -> io::Result<CpuTime> {
        let text = fs::read_to_string("/proc/stat")?;
        cpus.iter().try_fold(CpuTime::default(), |sum, cpu| {
            let lacks = || io::Error::new(io::ErrorKind::InvalidData, format!("/proc/stat has no line of CPU {cpu}"));
            let one = times(&text, &format!("cpu{cpu} ")).ok_or_else(lacks)?;
            Ok(CpuTime {
                busy: sum.busy + one.busy,
                all: sum.all + one.all,
                stolen: sum.stolen + one.stolen,
                cpus: sum.cpus + 1,
            })
        })
    }

    /// The share of the time from `earlier` to this in which CPUs were busy; `None` where no time has passed.
    #[must_use]
    pub fn share_since(&self, earlier: &CpuTime) -> Option<f64> {
        let all = self.all.saturating_sub(earlier.all);
        (all > 0).then(|| self.busy.saturating_sub(earlier.busy) as f64 / all as f64)
    }
}

fn parse(text: &str) -> Option<CpuTime> {
    let own = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let cpus = text.lines().filter(own).count() as u64;
    Some(CpuTime { cpus, ..times(text, "cpu ")? })
}

/// The times of the line with this head. Columns: user nice system idle iowait irq softirq steal; guest times are in user already
/// (proc_stat(5)).
fn times(text: &str, head: &str) -> Option<CpuTime> {
    let line = text.lines().find_map(|line| line.strip_prefix(head))?;
    let times: Vec<u64> = line.split_ascii_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let [_, _, _, idle, rest @ ..] = &times[..] else { return None };
    let waiting = rest.first().copied().unwrap_or(0);
    let stolen = rest.get(3).copied().unwrap_or(0);
    let all = times.iter().sum::<u64>();
    Some(CpuTime { busy: all.saturating_sub(idle + waiting), all, stolen, cpus: 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_idle_and_stolen_time_is_busy() {
        let text = "cpu  100 10 40 800 50 0 0 20 0 0\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n";
        assert_eq!(parse(text), Some(CpuTime { busy: 170, all: 1020, stolen: 20, cpus: 2 }));
        assert_eq!(parse("intr 5\n"), None);
        assert_eq!(times(text, "cpu1 "), Some(CpuTime { busy: 6, all: 10, stolen: 0, cpus: 1 }));
        assert_eq!(times(text, "cpu2 "), None);
        let (before, after) = (
            CpuTime { busy: 100, all: 1000, ..CpuTime::default() },
            CpuTime { busy: 175, all: 1100, stolen: 11, cpus: 1 },
        );
        assert_eq!(after.share_since(&before), Some(0.75));
        assert_eq!(before.share_since(&before), None);
        assert!(CpuTime::now().is_ok_and(|now| now.all > 0));
    }
}
