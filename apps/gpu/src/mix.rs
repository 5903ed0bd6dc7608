//! The conductor: several members `render` and one `train`, together or one kind after the other, and one line of JSON about both.
//!
//! One after the other, each kind has the machine for itself: its times are those of the kind alone, and their sum is the total time. Members
//! are made ready before the clock of their kind runs and check their work after all are done, so that neither is in a time.

use crate::member::{CHECK, DONE, GO, On, READY, Report};
use crate::usage::{Ticks, Utilization};
use serde::Serialize;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// When members run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// First all that draw, then the one that trains.
    Sequential,
    /// All at once.
    Together,
    /// Those that draw, and nothing else.
    Render,
    /// The one that trains, and nothing else.
    Train,
}

impl Mode {
    /// The words of the command line.
    pub const WORDS: [(&'static str, Mode); 4] = [
        ("together", Mode::Together),
        ("sequential", Mode::Sequential),
        ("render", Mode::Render),
        ("train", Mode::Train),
    ];
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When.
    pub mode: Mode,
    /// On what.
    pub on: On,
    /// Members that draw.
    pub renders: usize,
    /// Options of each member that draws.
    pub render: Vec<(&'static str, u64)>,
    /// Options of the member that trains.
    pub train: Vec<(&'static str, u64)>,
}

/// What became of it. Times are in seconds; what was not run or cannot be read is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Mixed {
    /// Mean time of the members that draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub render_s: Option<f64>,
    /// Time of the slowest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub render_longest_s: Option<f64>,
    /// Time of the member that trains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_s: Option<f64>,
    /// From the first begin to the last end; one after the other, the sum of both.
    pub total_s: f64,
    /// Frames per second of all members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames_per_s: Option<f64>,
    /// Images per second that the network was trained with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images_per_s: Option<f64>,
    /// The part of the total time in which both kinds ran, in percent.
    pub overlap_percent: f64,
    /// Busy time of all CPUs of the machine meanwhile, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Utilization of the GPUs as NVML has it, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_percent: Option<f64>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_percent_blank: Option<&'static str>,
    /// Members that draw.
    pub renders: usize,
    /// Whether a GPU was used: 1, else 0.
    pub gpus: u8,
    /// The devices that were used.
    pub devices: Vec<String>,
    /// The most memory that a member had, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// The share of other digits that the network recognises, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recognised_percent: Option<f64>,
}

/// A member that runs.
struct Member {
    kind: &'static str,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Member {
    fn started(kind: &'static str, on: On, options: &[(&'static str, u64)]) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|why| format!("finding this program: {why}"))?;
        let mut command = Command::new(own);
        command.arg(kind).args(["--device", on.word()]);
        command.args(options.iter().flat_map(|(name, value)| [format!("--{name}"), value.to_string()]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|why| format!("starting {kind}: {why}"))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(to), Some(from)) => Ok(Member { kind, child, to, from: BufReader::new(from) }),
            _ => Err(format!("starting {kind}: no pipes")),
        }
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(0) => Err(format!("a member {} failed; its reason is above", self.kind)),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(why) => Err(format!("hearing from {}: {why}", self.kind)),
        }
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        let line = self.line()?;
        if line == word { Ok(()) } else { Err(format!("{} said '{line}' in place of '{word}'", self.kind)) }
    }

    fn say(&mut self, word: &str) -> Result<(), String> {
        writeln!(self.to, "{word}").map_err(|why| format!("speaking to {}: {why}", self.kind))
    }
}

/// The reports of one phase, and what was used meanwhile.
struct Phase {
    render: Vec<Report>,
    train: Option<Report>,
    ticks: Option<Ticks>,
    gpu: Vec<f64>,
}

/// Runs all members of a phase at once.
fn phase(settings: &Settings, (draws, trains): (bool, bool)) -> Result<Phase, String> {
    let mut members = Vec::new();
    for _ in 0..if draws { settings.renders } else { 0 } {
        members.push(Member::started("render", settings.on, &settings.render)?);
    }
    if trains {
        members.push(Member::started("train", settings.on, &settings.train)?);
    }
    members.iter_mut().try_for_each(|member| member.expect(READY))?;
    let watched = Utilization::watched(settings.on == On::Vulkan);
    let before = Ticks::now();
    members.iter_mut().try_for_each(|member| member.say(GO))?;
    members.iter_mut().try_for_each(|member| member.expect(DONE))?;
    let ticks = before.zip(Ticks::now()).map(|(before, after)| before.until(after));
    let gpu = watched.ended();
    members.iter_mut().try_for_each(|member| member.say(CHECK))?;
    let mut of = Phase { render: Vec::new(), train: None, ticks, gpu };
    for mut member in members {
        let line = member.line()?;
        let report: Report = serde_json::from_str(&line).map_err(|why| format!("{}: {why}: {line}", member.kind))?;
        match member.kind {
            "train" => of.train = Some(report),
            _ => of.render.push(report),
        }
    }
    Ok(of)
}

/// Runs everything.
///
/// # Errors
/// Where a member failed, whose reason is then on standard error.
pub fn run(settings: &Settings) -> Result<Mixed, String> {
    let phases = match settings.mode {
        Mode::Together => vec![(true, true)],
        Mode::Sequential => vec![(true, false), (false, true)],
        Mode::Render => vec![(true, false)],
        Mode::Train => vec![(false, true)],
    };
    let phases = phases.into_iter().map(|kinds| phase(settings, kinds)).collect::<Result<Vec<_>, _>>()?;
    Ok(mixed(settings, &phases))
}

fn mixed(settings: &Settings, phases: &[Phase]) -> Mixed {
    let total_s: f64 = phases.iter().map(|phase| length_s(phase.render.iter().chain(&phase.train))).sum();
    let overlap_s: f64 = phases.iter().map(overlap_s).sum();
    let render: Vec<&Report> = phases.iter().flat_map(|phase| &phase.render).collect();
    let train: Option<&Report> = phases.iter().find_map(|phase| phase.train.as_ref());
    let all = || render.iter().copied().chain(train);
    let gpu: Vec<f64> = phases.iter().flat_map(|phase| &phase.gpu).copied().collect();
    let used = all().any(|report| report.gpu);
    let gpu_percent = (used && !gpu.is_empty()).then(|| gpu.iter().sum::<f64>() / gpu.len() as f64);
    let blank = if used { "no NVML: nvidia-smi gives no readings here" } else { "no GPU was used" };
    let mut devices: Vec<String> = all().map(|report| report.device.clone()).collect();
    devices.sort();
    devices.dedup();
    let longest = render.iter().map(|report| report.seconds()).fold(0.0, f64::max);
    let drawing = length_s(render.iter().copied());
    let drawn = !render.is_empty();
    let ticks =
        phases.iter().map(|phase| phase.ticks).reduce(|one, other| one.zip(other).map(|(one, other)| one.and(other)));
    Mixed {
        render_s: drawn.then(|| render.iter().map(|report| report.seconds()).sum::<f64>() / render.len() as f64),
        render_longest_s: drawn.then_some(longest),
        train_s: train.map(Report::seconds),
        total_s,
        frames_per_s: drawn.then(|| render.iter().map(|report| report.items as f64).sum::<f64>() / drawing),
        images_per_s: train.map(|report| report.items as f64 / report.seconds()),
        overlap_percent: 100.0 * overlap_s / total_s,
        cpu_percent: ticks.flatten().and_then(Ticks::percent),
        gpu_percent,
        gpu_percent_blank: gpu_percent.is_none().then_some(blank),
        renders: if drawn { settings.renders } else { 0 },
        gpus: u8::from(used),
        devices,
        peak_bytes: all().filter_map(|report| report.peak_bytes).max(),
        recognised_percent: train.map(|report| 100.0 * report.right),
    }
}

/// From the first begin to the last end.
fn length_s<'r>(reports: impl Iterator<Item = &'r Report> + Clone) -> f64 {
    let begun = reports.clone().map(|report| report.begun_ns).min().unwrap_or(0);
    let done = reports.map(|report| report.done_ns).max().unwrap_or(0);
    done.saturating_sub(begun) as f64 / 1e9
}

/// How long both kinds ran.
fn overlap_s(phase: &Phase) -> f64 {
    let Some(train) = &phase.train else { return 0.0 };
    let begun = phase.render.iter().map(|report| report.begun_ns).min().unwrap_or(u64::MAX).max(train.begun_ns);
    let done = phase.render.iter().map(|report| report.done_ns).max().unwrap_or(0).min(train.done_ns);
    done.saturating_sub(begun) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(begun: u64, done: u64, items: u64) -> Report {
        let (begun_ns, done_ns) = (begun * 1_000_000_000, done * 1_000_000_000);
        Report {
            begun_ns,
            done_ns,
            items,
            device: "d".to_owned(),
            gpu: false,
            device_bytes: 0,
            peak_bytes: Some(items),
            right: 0.9,
        }
    }

    fn settings(mode: Mode) -> Settings {
        Settings { mode, on: On::None, renders: 2, render: Vec::new(), train: Vec::new() }
    }

    #[test]
    fn times_of_members_become_those_of_both_kinds() {
        let together = [Phase {
            render: vec![report(1, 3, 10), report(1, 5, 10)],
            train: Some(report(1, 9, 80)),
            ticks: None,
            gpu: vec![50.0],
        }];
        let of = mixed(&settings(Mode::Together), &together);
        assert_eq!((of.render_s, of.render_longest_s, of.train_s, of.total_s), (Some(3.0), Some(4.0), Some(8.0), 8.0));
        assert_eq!((of.frames_per_s, of.images_per_s, of.overlap_percent), (Some(5.0), Some(10.0), 50.0));
        assert_eq!(
            (of.gpu_percent, of.gpu_percent_blank),
            (None, Some("no GPU was used")),
            "readings are of another's work"
        );
        assert_eq!((of.peak_bytes, of.gpus, of.devices.len(), of.recognised_percent), (Some(80), 0, 1, Some(90.0)));
        let alone = |render, train| Phase { render, train, ticks: None, gpu: Vec::new() };
        let in_turn =
            [alone(vec![report(0, 2, 10), report(0, 3, 10)], None), alone(Vec::new(), Some(report(10, 14, 80)))];
        let of = mixed(&settings(Mode::Sequential), &in_turn);
        assert_eq!((of.render_s, of.train_s, of.total_s, of.overlap_percent), (Some(2.5), Some(4.0), 7.0, 0.0));
        let of = mixed(&settings(Mode::Train), &in_turn[1..]);
        assert_eq!((of.render_s, of.frames_per_s, of.train_s, of.renders), (None, None, Some(4.0), 0));
    }
}
