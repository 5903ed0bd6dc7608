//! Commands next to each other: what each took, and the ratios, in a few lines.

use crate::next_step::next_step;
use crate::number::{self, Digits, count, duration, fixed, ratio_decimals};
use crate::outline::{conditions, interval_head};
use crate::per_workload::parts;
use crate::text::{Style, beside, clean, cut, left, width};
use crate::treatment;
use crate::words::at_once;
use baremark_model::command::{
    self, CALL_COST, CONTEXT_SWITCHES, CPU, EXIT_COST, EXIT_SHARE, EXITLESS_CALLS, EXITLESS_FALLBACKS, FORWARDED_CALLS,
    GUEST_FAULTS, GUEST_SIGNALS, GUEST_START, MAJOR_FAULTS, PAGE_FAULTS, PEAK_MEMORY, POLLING_CPU, RUN_TIMES, SYSTEM,
    USER, VM_EXITS, WALL,
};
use baremark_model::distinct::grouped;
use baremark_model::document::{Document, EstimateRow, RatioRow};
use baremark_model::metric::{Better, Metric};
use baremark_model::plan::Treatment;
use baremark_model::units::Bytes;
use std::fmt::Write;

/// The least room for a command's own text.
const LEAST_ROOM: usize = 16;
/// Of the difference in wall time, the share that exits or CPU time must certainly make up to be called its cause.
const CAUSE_SHARE: f64 = 0.5;

/// The lines of a comparison. `commands` are the levels of the factor `command` with their texts, or one command without a name.
#[must_use]
pub fn render(document: &Document, commands: &[(String, String)], style: &Style) -> String {
    let all = treatment::measured(document);
    let rows: Vec<[String; 5]> = all.iter().map(|of| cells(document, of, commands)).collect();
    let widest = |at: usize| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0);
    let fixed_width: usize = [0, 2, 3, 4].into_iter().map(|at| widest(at) + 3).sum();
    let room = widest(1).min(style.width.saturating_sub(fixed_width).max(LEAST_ROOM));
    let mut text = String::new();
    for (row, treatment) in rows.iter().zip(all) {
        let line = format!(
            "  {}  {}   {}   {}   {}",
            left(&row[0], widest(0)),
            left(&cut(&row[1], room), room),
            left(&row[2], widest(2)),
            left(&row[3], widest(3)),
            row[4]
        );
        let _ = writeln!(text, "{}", line.trim_end());
        let spread = spread(document, treatment).map(|says| beside(&" ".repeat(widest(0) + 4), &says, style));
        text.push_str(&spread.unwrap_or_default());
    }
    let headline = |row: &&RatioRow| row.metric == document.run.metric;
    for row in document.ratios.iter().filter(headline) {
        paragraph(&mut text, "", &sentence(document, row), style);
        if let Some(cause) = cause(document, row) {
            text.push_str(&beside("Cause   ", &cause, style));
        }
    }
    for sentence in inside(document) {
        paragraph(&mut text, "", &sentence, style);
    }
    for absent in &document.absent {
        let labels: Vec<String> = absent.treatment.values().map(|label| clean(label)).collect();
        let says = format!("{}: not available here: {}", labels.join(" "), clean(&absent.reason));
        paragraph(&mut text, "", &says, style);
    }
    for (reason, trials) in discarded(document) {
        paragraph(&mut text, "", &format!("not counted ({}): {}", count(trials, "trial"), clean(&reason)), style);
    }
    if let Some(conditions) = conditions(document) {
        paragraph(&mut text, "", &conditions, style);
    }
    if let Some(next) = next_step(document, &parts(document)) {
        paragraph(&mut text, "Next    ", &next, style);
    }
    let end = format!("run {}; `baremark report --details` has the rest", clean(&document.run.id));
    paragraph(&mut text, "", &end, style);
    style.plain(&text)
}

/// A blank line, then what is said in lines that fit.
fn paragraph(text: &mut String, label: &str, says: &str, style: &Style) {
    text.push('\n');
    text.push_str(&beside(label, says, style));
}

/// The comparison as a table in Markdown.
#[must_use]
pub fn markdown(document: &Document, commands: &[(String, String)]) -> String {
    let mut text = format!(
        "| name | command | {} | CPU | memory | ratio | {} | outcome |\n|---|---|---:|---:|---:|---:|---|---|\n",
        document.run.metric,
        interval_head([document])
    );
    for treatment in treatment::measured(document) {
        let [name, command, value, cpu, memory] = cells(document, treatment, commands);
        let row = document.ratios.iter().find(|row| row.metric == document.run.metric && row.treatment == *treatment);
        let ratio = row.and_then(|row| row.ratio.map(|ratio| fixed(ratio, decimals(row, ratio)))).unwrap_or_default();
        let interval = row.and_then(interval).unwrap_or_default();
        let words = row.map(|row| clean(&row.words)).unwrap_or_default();
        let command = command.replace('|', "\\|");
        let _ =
            writeln!(text, "| {name} | `{command}` | {value} | {cpu} | {memory} | {ratio} | {interval} | {words} |");
    }
    if let Some(duet) = document.run.duet.filter(|_| !document.ratios.is_empty()) {
        let _ = writeln!(text, "\nPrograms {}.", at_once(duet));
    }
    text
}

/// The sides of a ratio: `B / A`.
#[must_use]
pub fn pair(row: &RatioRow) -> String {
    let differing = |of: &Treatment, other: &Treatment| {
        let own = of.iter().filter(|(key, label)| other.get(*key) != Some(label));
        own.map(|(_, label)| clean(label)).collect::<Vec<_>>().join(" ")
    };
    let (above, below) = (differing(&row.treatment, &row.relative_to), differing(&row.relative_to, &row.treatment));
    let shared = row.treatment.iter().filter(|(key, label)| row.relative_to.get(*key) == Some(label));
    let shared: Vec<String> = shared.map(|(key, label)| format!("{} {}", clean(key), clean(label))).collect();
    let at = if shared.is_empty() { String::new() } else { format!(" ({})", shared.join(", ")) };
    format!("{above} / {below}{at}")
}

/// Name, command, the headline's metric, CPU time and memory of one treatment.
fn cells(document: &Document, treatment: &Treatment, commands: &[(String, String)]) -> [String; 5] {
    let labels: Vec<String> = treatment.values().map(|label| clean(label)).collect();
    let name = treatment.get("command");
    let command = commands.iter().find(|(of, _)| name.is_none_or(|name| name == of));
    let of = |metric: &str| document.estimate_of(metric, treatment);
    let value = of(&document.run.metric).map(measured).unwrap_or_default();
    let cpu = of(CPU.key).map(|row| format!("CPU {}", brief(row.estimate))).unwrap_or_default();
    let memory = of(PEAK_MEMORY.key).map(|row| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of bytes")]
        let bytes = Bytes(row.estimate as u64);
        format!("{bytes:.1}")
    });
    [labels.join(" "), clean(command.map_or("", |(_, text)| text)), value, cpu, memory.unwrap_or_default()]
}

/// Mean and standard deviation of the runs, the shortest, the quartiles and the longest, then what the time was spent on:
/// `1392 runs: mean 18.2, sd 0.710, min 17.6, p25 17.9, p75 18.5, max 25.1 ms; user 16.7, system 1.15 ms`. `None` of runs that were stored
/// without their times. Of programs that ran at the same time how long each took is left out: it shows how long it waited for its CPU.
fn spread(document: &Document, treatment: &Treatment) -> Option<String> {
    let of = |metric: &Metric| document.estimate_of(metric.key, treatment);
    let [least, low, _, high, most] = RUN_TIMES.each_ref().map(of);
    let least = least?;
    let runs = least.samples?;
    let moments = [("mean", least.mean), ("sd", least.sd)].into_iter();
    let quartiles = low.zip(high).map(|(low, high)| [("p25", low.estimate), ("p75", high.estimate)]);
    let mut times: Vec<(&str, f64)> = moments.filter_map(|(name, value)| Some((name, value?))).collect();
    times.push(("min", least.estimate));
    times.extend(quartiles.into_iter().flatten());
    times.push(("max", most?.estimate));
    if document.run.duet.is_some() {
        times.clear();
    }
    let spent = [("user", of(&USER)), ("system", of(&SYSTEM))].into_iter();
    let spent: Vec<(&str, f64)> = spent.filter_map(|(name, row)| Some((name, row?.estimate))).collect();
    let parts = [times, spent].into_iter().filter(|part| !part.is_empty()).map(|part| in_one_unit(&part));
    let parts = parts.collect::<Vec<_>>().join("; ");
    Some(format!("{}{}{parts}", count(runs, "run"), if parts.is_empty() { "" } else { ": " }))
}

/// Times in the unit that suits the longest: `user 16.7, system 1.15 ms`.
fn in_one_unit(times: &[(&str, f64)]) -> String {
    let (unit, factor) = time_unit(times.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max));
    let of = |(name, seconds): &(&str, f64)| {
        let value = seconds * factor;
        format!("{name} {}", fixed(value, number::three_digits(value).clamp(0, 3)))
    };
    format!("{} {unit}", times.iter().map(of).collect::<Vec<_>>().join(", "))
}

/// An estimate with its half-width; seconds in the unit that suits them.
fn measured(row: &EstimateRow) -> String {
    let (unit, factor) = if row.unit == "s" { time_unit(row.estimate) } else { (row.unit.as_str(), 1.0) };
    let scaled = |value: f64| value * factor;
    let text = number::estimate(scaled(row.estimate), row.lo.map(scaled), row.hi.map(scaled));
    format!("{text} {unit}").trim_end().to_owned()
}

pub(crate) fn brief(seconds: f64) -> String {
    let (unit, factor) = time_unit(seconds);
    format!("{} {unit}", fixed(seconds * factor, number::three_digits(seconds * factor).max(0)))
}

fn time_unit(seconds: f64) -> (&'static str, f64) {
    match seconds {
        1.0.. => ("s", 1.0),
        1e-3.. => ("ms", 1e3),
        _ => ("us", 1e6),
    }
}

fn decimals(row: &RatioRow, ratio: f64) -> i32 {
    ratio_decimals(ratio, row.lo.zip(row.hi), 1.0, Digits::Two)
}

fn interval(row: &RatioRow) -> Option<String> {
    let (ratio, (lo, hi)) = row.ratio.zip(row.lo.zip(row.hi))?;
    let places = decimals(row, ratio);
    Some(format!("{} - {}", fixed(lo, places), fixed(hi, places)))
}

fn sentence(document: &Document, row: &RatioRow) -> String {
    let pair = pair(row);
    let Some(ratio) = row.ratio else { return format!("{pair}: {}", clean(&row.words)) };
    let elapsed: u64 = document.trials.iter().map(|trial| trial.elapsed_ns).sum();
    let how = document.run.duet.map(|duet| format!("; programs {}", at_once(duet))).unwrap_or_default();
    let ran = format!("{} in {}{how}", count(row.blocks as u64, "block"), duration(elapsed));
    let shown = fixed(ratio, decimals(row, ratio));
    match interval(row) {
        Some(interval) => {
            let confidence = fixed(100.0 * row.confidence, if row.confidence > 0.9501 { 1 } else { 0 });
            format!("{pair} = {shown} ({confidence} %: {interval}; {ran}): {}.", outcome(document, row, &pair))
        }
        None => format!("{pair} = {shown} ({ran}): {}.", clean(&row.words)),
    }
}

/// By how much the one side has more of the metric or less, where that is known; else what the outcome says.
fn outcome(document: &Document, row: &RatioRow, pair: &str) -> String {
    let better = document.estimates.iter().find(|of| of.metric == row.metric).map(|of| (of.better, of.unit.as_str()));
    let above = pair.split(" / ").next().unwrap_or_default();
    let (Some((lo, hi)), Some((better, unit))) = (row.lo.zip(row.hi), better) else { return clean(&row.words) };
    if row.emulated || (lo <= 1.0 && hi >= 1.0) {
        return clean(&row.words);
    }
    let (least, most) = if lo > 1.0 { (lo - 1.0, hi - 1.0) } else { (1.0 - hi, 1.0 - lo) };
    let places = number::decimals(50.0 * (most - least), Digits::Plain).unwrap_or(1).clamp(0, 4);
    // The interval excludes 1: its nearer end is not 0.
    let is_seen = |places: &i32| 100.0 * least >= 0.5 * 0.1_f64.powi(*places);
    let places = (places..4).find(is_seen).unwrap_or(4);
    let range = format!("{} - {} %", fixed(100.0 * least, places), fixed(100.0 * most, places));
    if let Some((verb, [more, less])) = in_words(&row.metric, unit, better) {
        return format!("{above} {verb} {range} {}", if lo > 1.0 { more } else { less });
    }
    match (lo > 1.0, better) {
        (true, Better::Higher) | (false, Better::Lower) => format!("{above} is better by {range}"),
        (true, Better::Lower) | (false, Better::Higher) => format!("{above} is worse by {range}"),
    }
}

/// How a program is compared by a metric: a verb, and what more and less of the metric is; `None` where better and worse say it as well.
fn in_words(metric: &str, unit: &str, better: Better) -> Option<(&'static str, [&'static str; 2])> {
    let of_programs = [
        (&CPU, "uses", ["more CPU time", "less CPU time"]),
        (&USER, "uses", ["more CPU time in user mode", "less CPU time in user mode"]),
        (&SYSTEM, "uses", ["more CPU time in the kernel", "less CPU time in the kernel"]),
        (&PEAK_MEMORY, "uses", ["more memory at its peak", "less memory at its peak"]),
        (&CONTEXT_SWITCHES, "has", ["more context switches", "fewer context switches"]),
        (&PAGE_FAULTS, "has", ["more page faults", "fewer page faults"]),
        (&MAJOR_FAULTS, "has", ["more page faults that read from a disk", "fewer page faults that read from a disk"]),
    ];
    let of_time = ("takes", ["longer", "less time"]);
    let own = of_programs.into_iter().find(|(of, ..)| of.key == metric).map(|(_, verb, words)| (verb, words));
    own.or_else(|| (unit == "s" && better == Better::Lower).then_some(of_time))
}

/// What makes up most of a difference in wall time: exits from the microVM, or a part of CPU time, user or system.
pub(crate) fn cause(document: &Document, row: &RatioRow) -> Option<String> {
    row.lo.zip(row.hi).filter(|(lo, hi)| *lo > 1.0 || *hi < 1.0)?;
    leaving(document, row).or_else(|| busy(document, row))
}

/// The least and the most by which a metric is larger, in its unit, where a ratio shows that it is; both below 0 where it is smaller.
fn grown(document: &Document, row: &RatioRow) -> Option<[f64; 2]> {
    let base = document.estimate_of(&row.metric, &row.relative_to)?.estimate;
    match [row.lo?, row.hi?].map(|ratio| base * (ratio - 1.0)) {
        [lo, hi] if lo > 0.0 => Some([lo, hi]),
        [lo, hi] if hi < 0.0 => Some([hi, lo]),
        _ => None,
    }
}

/// CPUs that a program uses on average: 0 where its CPU time is not known. `None` where its run time is not.
fn cpus(document: &Document, treatment: &Treatment) -> Option<f64> {
    let of = |metric: &str| document.estimate_of(metric, treatment).map(|of| of.estimate);
    let wall = of(WALL.key)?;
    Some((of(USER.key).unwrap_or(0.0) + of(SYSTEM.key).unwrap_or(0.0)) / wall)
}

/// Whether both sides use one CPU at most: what their threads do is a part of wall time, as nothing of it is done at once.
fn one_at_a_time(document: &Document, row: &RatioRow) -> bool {
    let one_cpu = |treatment| cpus(document, treatment).is_some_and(|cpus| cpus <= command::ONE_CPU);
    one_cpu(&row.treatment) && one_cpu(&row.relative_to)
}

/// That exits, their number times what one costs here, make up most of the time that a program takes longer in the microVM: also
/// where they take the least and it adds the most that the intervals allow. Exits of several CPUs take their time at once: no cause.
fn leaving(document: &Document, row: &RatioRow) -> Option<String> {
    // The least, the estimate and the most of the seconds that they take.
    let exits = |treatment: &Treatment| {
        let Some(share) = document.estimate_of(EXIT_SHARE.key, treatment) else { return Some([0.0; 3]) };
        let wall = document.estimate_of(WALL.key, treatment)?.estimate;
        Some([share.lo?, share.estimate, share.hi?].map(|percent| percent / 100.0 * wall))
    };
    let longer = document.estimate_of(WALL.key, &row.treatment)?.estimate;
    let added = [row.lo?, row.ratio?, row.hi?].map(|ratio| longer * (1.0 - 1.0 / ratio));
    let is_part = row.metric == WALL.key && one_at_a_time(document, row);
    let [least, added, most] = Some(added).filter(|[least, ..]| is_part && *least > 0.0)?;
    let (own, others) = (exits(&row.treatment)?, exits(&row.relative_to)?);
    let [lo, middle, hi] = [(own[0] - others[2]) / most, (own[1] - others[1]) / added, (own[2] - others[0]) / least];
    let percent = |share: f64| 100.0 * share.min(1.0);
    let part = match lo {
        lo if lo >= 1.0 => "all".to_owned(),
        lo => format!("{} %", number::estimate(percent(middle), Some(percent(lo)), Some(percent(hi)))),
    };
    (lo > CAUSE_SHARE)
        .then(|| format!("Exits from the microVM explain {part} of the time that it adds (number x cost of one here)."))
}

/// That a part of CPU time, user or system, makes up most of a difference in wall time: also where the part is the least and the difference the
/// most that the intervals allow.
fn busy(document: &Document, row: &RatioRow) -> Option<String> {
    let [_, most] = grown(document, row).filter(|_| row.metric == WALL.key && one_at_a_time(document, row))?;
    let shown = |metric: &str| {
        let same = |other: &&RatioRow| {
            other.metric == metric && other.treatment == row.treatment && other.relative_to == row.relative_to
        };
        let ratio = document.ratios.iter().find(same)?;
        let [least, _] = grown(document, ratio)?;
        // Both are below 0 where it takes less.
        (least / most >= CAUSE_SHARE).then_some(ratio.ratio?)
    };
    // All that the processor does in the microVM counts as the user mode of the process that carries it.
    let inside = [&row.treatment, &row.relative_to].iter().any(|of| document.estimate_of(EXIT_SHARE.key, of).is_some());
    let parts = [(USER.key, if inside { "user mode or the guest" } else { "user mode" }), (SYSTEM.key, "the kernel")];
    let (mode, ratio) = parts.into_iter().find_map(|(metric, mode)| Some((mode, shown(metric)?)))?;
    Some(format!("CPU time in {mode} ({} times).", fixed(ratio, 2)))
}

/// What leaving the microVM comes to, for each treatment that ran in it.
fn inside(document: &Document) -> Vec<String> {
    let mut sentences = Vec::new();
    for treatment in treatment::measured(document) {
        let of = |metric: &Metric| document.estimate_of(metric.key, treatment);
        let whole = |metric: &Metric| of(metric).map_or_else(|| "?".to_owned(), |row| fixed(row.estimate, 0));
        // Runs of older versions have the whole cost of a call alone, from which their share is.
        let cost = of(&EXIT_COST).map(|cost| (cost, "exit")).or_else(|| Some((of(&CALL_COST)?, "call")));
        let (Some(share), Some((cost, each))) = (of(&EXIT_SHARE), cost) else { continue };
        // Exits of several CPUs take their time at once: their sum may be longer than the wall time.
        let cpus = cpus(document, treatment).filter(|cpus| *cpus > command::ONE_CPU);
        let percent = |of_wall: f64| fixed(of_wall / cpus.unwrap_or(1.0), 1);
        let interval = share.lo.zip(share.hi).map(|(lo, hi)| format!(" (95 %: {} - {} %)", percent(lo), percent(hi)));
        let labels: Vec<String> = treatment.values().map(|label| clean(label)).collect();
        sentences.push(format!(
            "{}: {} system calls forwarded, {} page faults, {} exits and {} signals a run; exits explain {} %{} of its {} \
             ({} us for each {}, measured here), starting the microVM {}. Device and kernel work ran natively: a lower bound for a VM.",
            labels.join(" "),
            whole(&FORWARDED_CALLS),
            whole(&GUEST_FAULTS),
            whole(&VM_EXITS),
            whole(&GUEST_SIGNALS),
            percent(share.estimate),
            interval.unwrap_or_default(),
            if cpus.is_some() { "CPU time" } else { "time" },
            fixed(cost.estimate / 1e3, 1),
            each,
            of(&GUEST_START).map(|row| brief(row.estimate)).unwrap_or_default(),
        ));
        if let Some(cpu) = of(&POLLING_CPU) {
            sentences.push(format!(
                "{}: a polling thread answered {} system calls a run without an exit, {} more left the microVM after all. A CPU is spent on \
                 it: {} of CPU time a run.",
                labels.join(" "),
                whole(&EXITLESS_CALLS),
                whole(&EXITLESS_FALLBACKS),
                brief(cpu.estimate),
            ));
        }
    }
    sentences
}

/// Why trials do not count, with how many of each.
fn discarded(document: &Document) -> Vec<(String, u64)> {
    let reasons = document.trials.iter().filter_map(|trial| Some((trial.status.reason()?, trial)));
    grouped(reasons).into_iter().map(|(reason, trials)| (reason, trials.len() as u64)).collect()
}
