//! What happens on a machine now, on one screen: the same quantities that a run records.

use crate::number::{fixed, rounded, three_digits};
use crate::text::{Paint, Style, clean, cut, left, right, width};
use baremark_model::observation::Values;
use baremark_model::observer::Absence;
use baremark_model::order;
use baremark_model::quantity::split;
use baremark_model::view::{self, Seen};
use std::collections::{BTreeSet, VecDeque};

/// Loads of the past that the line over the CPUs shows.
const PAST: usize = 60;
/// From this many CPUs on each is one character.
const MANY: usize = 9;
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PLAIN_LEVELS: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '#', '@'];
const BAR: usize = 24;
const LABEL: usize = 10;
const SOURCES: usize = 6;

/// A screen that is drawn again and again.
#[derive(Debug, Default)]
pub struct Live {
    machine: String,
    past: VecDeque<f64>,
    seen: Vec<Seen>,
    rates: Vec<(Seen, String)>,
    absent: Vec<Absence>,
    cost: Option<f64>,
    interval: String,
}

impl Live {
    /// Of a machine, in one line, every so often.
    #[must_use]
    pub fn new(machine: &str, interval: &str) -> Self {
        Live { machine: clean(machine), interval: interval.to_owned(), ..Live::default() }
    }

    /// Takes what happened in the last `seconds`; `cost` is the share of one CPU that observing took.
    pub fn take(&mut self, values: &Values, seconds: f64, absent: &[Absence], cost: Option<f64>) {
        self.seen = view::views(values, seconds);
        self.rates = view::rates(values, seconds);
        self.absent = absent.to_vec();
        self.cost = cost;
        if let Some(utilization) = self.get("cpu.utilization", "") {
            self.past.push_back(utilization);
            if self.past.len() > PAST {
                self.past.pop_front();
            }
        }
    }

    fn get(&self, key: &str, instance: &str) -> Option<f64> {
        self.seen.iter().find(|seen| seen.key == key && seen.instance == instance).map(|seen| seen.value)
    }

    fn instances(&self, key: &str) -> Vec<&str> {
        let of = self.seen.iter().filter(|seen| seen.key == key && !seen.instance.is_empty());
        let mut all: Vec<&str> = of.map(|seen| seen.instance.as_str()).collect::<BTreeSet<_>>().into_iter().collect();
        order::by_key(&mut all, |name| (name.len(), *name));
        all
    }

    /// The screen, at most `rows` lines of the style's width.
    #[must_use]
    pub fn render(&self, style: &Style, rows: usize) -> String {
        let mut screen = Screen { style, lines: Vec::new() };
        self.head(&mut screen);
        self.cpus(&mut screen);
        self.scheduler(&mut screen);
        self.memory(&mut screen);
        self.disks(&mut screen);
        self.networks(&mut screen);
        self.sources(&mut screen);
        for absence in &self.absent {
            screen.line(Paint::Faint, &format!("{}: {}", clean(&absence.observer), clean(&absence.reason)));
        }
        screen.lines.truncate(rows.max(1));
        screen.lines.join("\n") + "\n"
    }

    fn head(&self, screen: &mut Screen<'_>) {
        let cost = self.cost.map_or_else(String::new, |share| {
            format!(" · observing {} % of one CPU", fixed(100.0 * share, three_digits(100.0 * share).min(3)))
        });
        screen.line(Paint::Strong, &format!("{} · every {}{cost}", self.machine, self.interval));
    }

    fn cpus(&self, screen: &mut Screen<'_>) {
        let of = |instance: &str| {
            let told = |word: &str, share: f64| share >= 0.5 || matches!(word, "user" | "kernel");
            let parts = [
                ("user", "cpu.user_share"),
                ("kernel", "cpu.system_share"),
                ("irq", "cpu.interrupt_share"),
                ("iowait", "cpu.iowait_share"),
                ("steal", "cpu.steal_share"),
                ("guest", "cpu.guest_share"),
            ];
            let shown: Vec<String> = parts
                .iter()
                .filter_map(|&(word, key)| Some((word, self.get(key, instance)?)))
                .filter(|(word, share)| told(word, *share))
                .map(|(word, share)| format!("{word} {share:.0}"))
                .collect();
            shown.join("  ")
        };
        let Some(utilization) = self.get("cpu.utilization", "") else { return };
        let names = self.instances("cpu.utilization");
        screen.row("CPU", &format!("{} {utilization:>4.0} %  {}", screen.bar(utilization), of("")));
        if names.len() >= MANY {
            let each: String =
                names.iter().map(|name| screen.level(self.get("cpu.utilization", name).unwrap_or(0.0))).collect();
            let room = screen.style.width.saturating_sub(LABEL).max(8);
            let each: Vec<char> = each.chars().collect();
            for (number, part) in each.chunks(room).enumerate() {
                let head = if number == 0 { format!("0-{}", names.len() - 1) } else { String::new() };
                screen.row(&format!("  {head}"), &part.iter().collect::<String>());
            }
        } else {
            for name in names {
                let share = self.get("cpu.utilization", name).unwrap_or(0.0);
                screen
                    .row(&format!("  {}", clean(name)), &format!("{} {share:>4.0} %  {}", screen.bar(share), of(name)));
            }
        }
        let past: String = self.past.iter().map(|share| screen.level(*share)).collect();
        screen.row("  past", &past);
    }

    fn scheduler(&self, screen: &mut Screen<'_>) {
        let rate = |key: &str, word: &str| Some(format!("{} {word}", short(self.get(key, "")?)));
        let parts = [
            rate("kernel.context_switches", "switches/s"),
            rate("kernel.interrupts", "interrupts/s"),
            rate("tlb.shootdowns", "TLB shootdowns/s"),
            rate("kernel.forks", "forks/s"),
            self.get("kernel.load1", "").map(|load| format!("load {load:.2}")),
        ];
        screen.words("Kernel", parts);
        let waited = |key: &str, word: &str| Some(format!("{word} {:.0} %", self.get(key, "")?));
        let pressure = [
            waited("pressure.cpu", "for a CPU"),
            waited("pressure.io", "for a disk"),
            waited("pressure.memory", "for memory"),
            waited("lost.share", "stalls"),
        ];
        screen.words("Waited", pressure);
    }

    fn memory(&self, screen: &mut Screen<'_>) {
        let size = |key: &str, word: &str| Some(format!("{} GB {word}", fixed(self.get(key, "")? / 1e3, 2)));
        let rate = |key: &str, word: &str| Some(format!("{} {word}", short(self.get(key, "")?)));
        let parts = [
            size("memory.used", "in use"),
            size("memory.available", "available"),
            rate("vm.faults", "faults/s"),
            self.get("vm.major_faults", "").filter(|rate| *rate > 0.0).map(|rate| format!("{} from disk", short(rate))),
            self.get("numa.local_share", "").map(|share| format!("{share:.0} % local")),
        ];
        screen.words("Memory", parts);
    }

    fn disks(&self, screen: &mut Screen<'_>) {
        let heads = ["reads/s", "writes/s", "MB/s in", "MB/s out", "ms", "busy %"];
        let keys = [
            "disk.read_iops",
            "disk.write_iops",
            "disk.read_mb_per_s",
            "disk.write_mb_per_s",
            "disk.latency",
            "disk.busy_share",
        ];
        self.table(screen, "Disk", &heads, &keys);
    }

    fn networks(&self, screen: &mut Screen<'_>) {
        let heads = ["packets in", "out", "MB/s in", "out", "B each in", "out"];
        let keys = [
            "net.receive_packets",
            "net.transmit_packets",
            "net.receive_mb_per_s",
            "net.transmit_mb_per_s",
            "net.receive_packet_bytes",
            "net.transmit_packet_bytes",
        ];
        self.table(screen, "Network", &heads, &keys);
    }

    fn table(&self, screen: &mut Screen<'_>, head: &str, heads: &[&str], keys: &[&str]) {
        let names = self.instances(keys[0]);
        if names.is_empty() {
            if self.get(keys[0], "").is_some() {
                screen.row(head, "idle");
            }
            return;
        }
        let cells = |cells: &mut dyn Iterator<Item = String>| cells.map(|cell| right(&cell, 11)).collect::<String>();
        screen.row(head, &cells(&mut heads.iter().map(|&head| head.to_owned())));
        for name in names {
            let mut values = keys.iter().map(|key| self.get(key, name).map_or_else(|| "-".to_owned(), short));
            screen.row(&format!("  {}", clean(name)), &cells(&mut values));
        }
    }

    /// The sources with the most interrupts, and what KVM counts most.
    fn sources(&self, screen: &mut Screen<'_>) {
        for (head, quantity) in [("Sources", "interrupts.source"), ("KVM", "kvm.event")] {
            let mut most: Vec<(&str, f64)> = self
                .rates
                .iter()
                .filter(|(seen, _)| seen.key == quantity && seen.value > 0.0)
                .map(|(seen, _)| (seen.instance.as_str(), seen.value))
                .collect();
            order::by(&mut most, |a, b| b.1.total_cmp(&a.1));
            let parts =
                most.iter().take(SOURCES).map(|(name, rate)| Some(format!("{} {}/s", clean(name), short(*rate))));
            screen.words(head, parts);
        }
    }
}

/// Lines that grow.
struct Screen<'s> {
    style: &'s Style,
    lines: Vec<String>,
}

impl Screen<'_> {
    fn line(&mut self, paint: Paint, text: &str) {
        let text = self.fit(text, self.style.width);
        self.lines.push(self.style.paint(paint, text.trim_end()));
    }

    /// `text` as the place can show it, in so many columns.
    fn fit(&self, text: &str, columns: usize) -> String {
        let text = self.style.plain(text);
        if self.style.unicode || width(&text) <= columns {
            return cut(&text, columns);
        }
        // The mark of what was cut is one column there and three here.
        self.style.plain(&cut(&text, columns.saturating_sub(2)))
    }

    fn row(&mut self, label: &str, text: &str) {
        let room = self.style.width.saturating_sub(LABEL);
        let label = left(&self.fit(label, LABEL - 1), LABEL);
        let text = self.fit(text, room);
        let label = self.style.paint(if label.starts_with(' ') { Paint::Faint } else { Paint::Strong }, &label);
        self.lines.push(format!("{label}{}", text.trim_end()));
    }

    /// Words alongside a label, as many in a line as fit; no line where there are none.
    fn words(&mut self, label: &str, words: impl IntoIterator<Item = Option<String>>) {
        let room = self.style.width.saturating_sub(LABEL);
        let (mut text, mut head) = (String::new(), label);
        for word in words.into_iter().flatten() {
            if !text.is_empty() && width(&text) + 2 + width(&word) > room {
                self.row(head, &text);
                (text, head) = (String::new(), "");
            }
            if !text.is_empty() {
                text.push_str("  ");
            }
            text.push_str(&word);
        }
        if !text.is_empty() {
            self.row(head, &text);
        }
    }

    /// A share of 100 as one character.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 8")]
    fn level(&self, share: f64) -> char {
        let levels = if self.style.unicode { LEVELS } else { PLAIN_LEVELS };
        levels[(share.clamp(0.0, 100.0) / 12.5).round() as usize]
    }

    /// A share of 100 as a bar.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "0 to BAR"
    )]
    fn bar(&self, share: f64) -> String {
        let full = (share.clamp(0.0, 100.0) / 100.0 * BAR as f64).round() as usize;
        let (on, off) = if self.style.unicode { ("█", "·") } else { ("#", ".") };
        format!("{}{}", on.repeat(full), off.repeat(BAR - full))
    }
}

/// Three digits, with K, M or G from ten thousand on.
pub(crate) fn short(value: f64) -> String {
    let (value, suffix) = match value.abs() {
        large if large >= 999_500_000.0 => (value / 1e9, "G"),
        large if large >= 999_500.0 => (value / 1e6, "M"),
        large if large >= 9_995.0 => (value / 1e3, "K"),
        _ => (value, ""),
    };
    if value == 0.0 { "0".to_owned() } else { format!("{}{suffix}", rounded(value)) }
}

/// One lap as an object for programs: views by key, with `:` and the instance where there is one.
#[must_use]
pub fn json(values: &Values, seconds: f64) -> serde_json::Value {
    let views = view::views(values, seconds).into_iter();
    let views = views.map(|seen| (baremark_model::quantity::join(&seen.key, &seen.instance), seen.value.into()));
    let mut all: serde_json::Map<String, serde_json::Value> = views.collect();
    for (seen, _) in view::rates(values, seconds) {
        if !split(&seen.key).0.starts_with("cpu.") {
            all.entry(baremark_model::quantity::join(&seen.key, &seen.instance)).or_insert_with(|| seen.value.into());
        }
    }
    serde_json::json!({ "format": "baremark-top/1", "seconds": seconds, "values": all })
}
