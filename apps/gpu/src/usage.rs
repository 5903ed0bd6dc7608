//! What members use of the machine: processors from /proc/stat, memory of a process, a GPU from nvidia-smi, which reads NVML.

use std::io::Read;
use std::process::{Child, Command, Stdio};

/// Busy and all time of the machine's CPUs since it started, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    busy: u64,
    all: u64,
}

impl Ticks {
    /// Now; `None` where /proc cannot be read.
    #[must_use]
    pub fn now() -> Option<Ticks> {
        Ticks::of(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// From the text of /proc/stat: time that was idle, waited for disks or was stolen is not busy, and that of guests is in user's.
    fn of(text: &str) -> Option<Ticks> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times: Vec<u64> = line.split_whitespace().take(8).map_while(|time| time.parse().ok()).collect();
        let all = times.iter().sum();
        let away = times.get(3)? + times.get(4)? + times.get(7)?;
        Some(Ticks { busy: all - away, all })
    }

    /// What was used from `self` until `end`.
    #[must_use]
    pub fn until(self, end: Ticks) -> Ticks {
        Ticks { busy: end.busy.saturating_sub(self.busy), all: end.all.saturating_sub(self.all) }
    }

    /// Both spans.
    #[must_use]
    pub fn and(self, other: Ticks) -> Ticks {
        Ticks { busy: self.busy + other.busy, all: self.all + other.all }
    }

    /// The busy share in percent; `None` of no time.
    #[must_use]
    pub fn percent(self) -> Option<f64> {
        (self.all > 0).then(|| 100.0 * self.busy as f64 / self.all as f64)
    }
}

/// The most memory that this process has had, in bytes.
#[must_use]
pub fn peak_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(1024 * line.split_whitespace().next()?.parse::<u64>().ok()?)
}

/// Readings of the GPUs' utilization while it lives.
#[derive(Debug)]
pub struct Utilization(Option<Child>);

impl Utilization {
    /// Starts reading five times a second, where nvidia-smi is and `hardware` is used.
    #[must_use]
    pub fn watched(hardware: bool) -> Self {
        let mut command = Command::new("nvidia-smi");
        command.args(["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=200"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Utilization(hardware.then(|| command.spawn().ok()).flatten())
    }

    /// Ends reading; the readings in percent.
    #[must_use]
    pub fn ended(mut self) -> Vec<f64> {
        let Some(mut child) = self.0.take() else { return Vec::new() };
        let _ = child.kill();
        let mut text = String::new();
        if let Some(mut stdout) = child.stdout.take() {
            let _ = stdout.read_to_string(&mut text);
        }
        let _ = child.wait();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }
}

impl Drop for Utilization {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_was_idle_or_stolen_is_not_busy() {
        let before = Ticks::of("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1").expect("times");
        let after = Ticks::of("cpu  150 10 120 850 30 5 5 30 50 0\n").expect("times");
        assert_eq!(before.until(after), Ticks { busy: 90, all: 200 });
        assert_eq!(before.until(after).percent(), Some(45.0));
        assert_eq!(before.until(before).percent(), None);
        assert_eq!(Ticks::of("intr 1"), None);
    }
}
