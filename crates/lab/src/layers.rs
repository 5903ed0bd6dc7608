//! Which layer of a machine is saturated: utilization, saturation and errors of each, from what observers read.
//!
//! A layer is saturated where work waited for it, and the lower end of the interval of that waiting is at least the layer's limit. The
//! layers are in the order in which one makes another wait: memory that is short makes tasks wait for disks, and not the other way
//! round. The first that is saturated is named. Advice follows from the numbers that the sentence shows.

use crate::analysis::RATE;
use baremark_model::distinct::distinct;
use baremark_model::document::Document;
use baremark_model::layers::{Diagnosis, Explanation, FORMAT, LayerRow, Measure};
use baremark_model::observation::{Observed, ObservedRow, THIS_MACHINE, Values};
use baremark_model::observer::Absence;
use baremark_model::plan::Treatment;
use baremark_model::{quantity, view};
use baremark_stats::estimate::{mean, sd};
use baremark_stats::special::student_two_sided;
use std::collections::BTreeMap;

/// Of a busy machine: the CPUs are used to this share, in percent, at the lower end of the interval.
const USED: f64 = 90.0;
/// A device below this utilization, in percent, is not what its tasks wait for.
const IDLE_DEVICE: f64 = 50.0;

/// What is read at the ends of a trial and for points alone: of arms that take turns in one trial it is not known apart.
const AT_THE_ENDS: &str = "sockets.";

/// What a quantity is called in a sentence.
type Probe = (&'static str, &'static str);

/// A quantity by which a layer is saturated from a limit on, in the quantity's unit.
type Waiting = (Probe, f64);

/// How one layer is judged.
struct Rule {
    layer: &'static str,
    /// The first of these that was observed.
    utilization: &'static [Probe],
    /// The first of these that reaches its limit; else the first that was observed.
    saturation: &'static [Waiting],
    errors: &'static [Probe],
    /// Whether the waiting is this layer's, where others could be why; `None` where that is not known.
    applies: fn(&Rows<'_>) -> Option<bool>,
    advice: fn(&Rows<'_>) -> &'static str,
}

const WAITED_FOR_CPU: Probe = ("pressure.cpu", "of the time some task waited for a CPU");
const QUEUED: Probe = ("phases.queued", "of their time measured threads were runnable but not running");
const UTILIZATION: Probe = ("cpu.utilization", "of the CPUs used");

/// Every layer, from the one below all others to the application.
const RULES: &[Rule] = &[
    Rule {
        layer: "hypervisor",
        utilization: &[("cpu.guest_share", "of the CPUs used by guests of this machine")],
        saturation: &[(("phases.stolen", STOLEN), 5.0), (("cpu.steal_share", STOLEN), 5.0)],
        errors: &[],
        applies: |_| Some(true),
        advice: |_| "run fewer virtual machines on the host, or dedicate CPUs to this one",
    },
    Rule {
        layer: "CPU",
        utilization: &[UTILIZATION],
        saturation: &[(WAITED_FOR_CPU, 10.0), (QUEUED, 10.0)],
        errors: &[],
        applies: |rows| rows.lowest(UTILIZATION.0).map(|used| used >= USED),
        advice: |_| "stop other programs or pin the work to CPUs of its own (doctor names the busiest), or use more CPUs",
    },
    Rule {
        layer: "run queue",
        utilization: &[("kernel.running", "run or could")],
        saturation: &[(QUEUED, 10.0), (WAITED_FOR_CPU, 10.0)],
        errors: &[],
        applies: |rows| Some(rows.lowest(UTILIZATION.0).is_none_or(|used| used < USED)),
        advice: |rows| match rows.highest(UTILIZATION.0) {
            Some(used) if used < USED => {
                "some CPUs are idle while tasks wait for others: look for tasks pinned to the same CPU, and for CPU limits"
            }
            _ => "",
        },
    },
    Rule {
        layer: "memory",
        utilization: &[("memory.used", "in use")],
        saturation: &[
            (("pressure.memory", "of the time some task waited for memory"), 10.0),
            (("vm.refaults", "page faults read a page again that had been evicted"), 100.0),
        ],
        errors: &[("vm.oom_kill", "processes killed for lack of memory")],
        applies: |_| Some(true),
        advice: |rows| match rows.lowest("vm.major_faults") {
            Some(faults) if faults > 0.0 => {
                "pages that are in use are read from disk again: more memory, a higher limit, or a smaller working set"
            }
            _ => "more memory, a higher limit, or less in it",
        },
    },
    Rule {
        layer: "paging",
        utilization: &[("vm.major_faults", "page faults read from a disk")],
        saturation: &[(("vm.swapped", "pages swapped"), 100.0)],
        errors: &[],
        applies: |_| Some(true),
        advice: |_| "it swaps: more memory, or less in it",
    },
    Rule {
        layer: "disk",
        utilization: &[("disk.busy_share", "of the time the device was busy")],
        saturation: &[(("pressure.io", "of the time some task waited for a disk"), 10.0)],
        errors: &[],
        applies: |_| Some(true),
        advice: |rows| match rows.highest("disk.busy_share") {
            Some(busy) if busy < IDLE_DEVICE => {
                "the device itself is mostly idle: look for an I/O limit (blkio, io.max) or a layer above it"
            }
            Some(_) => "a faster device, or fewer requests that tasks wait for",
            None => "",
        },
    },
    Rule {
        layer: "network",
        utilization: &[("net.transmit_mb_per_s", "sent")],
        saturation: &[
            (
                ("sockets.in_transit_share", "of the time a connection's data was on its way to a peer that had room"),
                10.0,
            ),
            (
                (
                    "sockets.unsent",
                    "of the readings found a connection whose data still waited to be sent or confirmed",
                ),
                10.0,
            ),
        ],
        errors: &[
            ("sockets.segments_retransmitted", "TCP segments sent again"),
            ("net.errors", "packets lost or wrong"),
        ],
        applies: |_| Some(true),
        advice: |_| "look at the rate and delay of the link, and for a rate limit",
    },
    Rule {
        layer: "application tier",
        utilization: &[],
        saturation: &[(("sockets.unread", "of the readings found a request that no process had read"), 25.0)],
        errors: &[("sockets.accept_overflows", "connections refused because too many waited")],
        applies: |_| Some(true),
        advice: |_| "a server is slower than its requests come: more workers, or less work for each request",
    },
];

const STOLEN: &str = "of the time stolen: the hypervisor ran others on these CPUs (steal)";

/// What was observed at one place.
#[derive(Default)]
struct Rows<'r> {
    /// Of what is judged.
    own: Vec<&'r ObservedRow>,
    /// Of all arms of its trials together: what is read at the ends of a trial alone.
    together: Vec<&'r ObservedRow>,
}

impl<'r> Rows<'r> {
    /// The machine's row of a quantity; where only instances have it, the largest.
    fn find(&self, quantity: &str) -> Option<&'r ObservedRow> {
        let found = |rows: &[&'r ObservedRow]| {
            let of = || rows.iter().filter(|row| row.quantity == quantity);
            let largest = || of().max_by(|one, other| one.value.total_cmp(&other.value));
            of().find(|row| row.instance.is_empty()).or_else(largest).copied()
        };
        found(&self.own).or_else(|| found(&self.together))
    }

    fn lowest(&self, quantity: &str) -> Option<f64> {
        self.find(quantity)?.lo
    }

    fn highest(&self, quantity: &str) -> Option<f64> {
        self.find(quantity)?.hi
    }

    fn measure(&self, probes: &[Probe]) -> Option<Measure> {
        let (row, words) = probes.iter().find_map(|(quantity, words)| Some((self.find(quantity)?, words)))?;
        let mut what =
            if row.instance.is_empty() { (*words).to_owned() } else { format!("{words} ({})", row.instance) };
        if !self.own.iter().any(|own| own.quantity == row.quantity) {
            what.push_str(" (over all arms of its trials)");
        }
        Some(Measure { what, unit: row.unit.clone(), value: row.value, lo: row.lo, hi: row.hi, n: row.n })
    }
}

/// The layers of a stored run: of each treatment where it was observed, else of all trials together.
///
/// `None` where nothing was observed.
#[must_use]
pub fn of_run(document: &Document) -> Option<Explanation> {
    let observed = document.observed.as_ref()?;
    let of_arms: Vec<(&Treatment, &str)> = seats(observed).filter(|(treatment, _)| !treatment.is_empty()).collect();
    let seats = if of_arms.is_empty() { seats(observed).collect() } else { of_arms };
    let places = distinct(seats).into_iter().map(|(treatment, place)| {
        let of = |wanted: &Treatment| {
            observed.rows.iter().filter(|row| row.treatment == *wanted && row.place == place).collect::<Vec<_>>()
        };
        let own = of(treatment);
        let mut together = of(&Treatment::new());
        together.retain(|row| row.quantity.starts_with(AT_THE_ENDS));
        let mut found = diagnosis(treatment, place, &Rows { own, together });
        application(document, &mut found);
        found
    });
    let absent = observed.absent.iter().map(|absent| absent.absence.clone());
    Some(Explanation {
        format: FORMAT.to_owned(),
        run: Some(document.run.id.clone()),
        places: places.collect(),
        absent: absent.collect(),
    })
}

/// Treatments and places of which at least one layer could be judged.
fn seats(observed: &Observed) -> impl Iterator<Item = (&Treatment, &str)> {
    let judged = |row: &&ObservedRow| {
        let all = RULES.iter().flat_map(|rule| rule.saturation);
        row.lo.is_some() && all.clone().any(|((quantity, _), _)| *quantity == row.quantity)
    };
    observed.rows.iter().filter(judged).map(|row| (&row.treatment, row.place.as_str()))
}

/// What an application itself reports of the tier and resource that was used up where its limits were exceeded.
fn application(document: &Document, found: &mut Diagnosis) {
    let of_treatment = document.details.iter().filter(|detail| detail.treatment == found.treatment);
    let said = of_treatment.filter_map(|detail| detail.document["saturated"].as_str()).next();
    if let Some(said) = said.filter(|_| found.named.is_none()) {
        found.named = Some("application tier".to_owned());
        said.clone_into(&mut found.sentence);
    }
}

/// The layers of this machine over windows of time, each with its values and seconds.
#[must_use]
pub fn of_windows(windows: &[(Values, f64)], absent: &[Absence]) -> Explanation {
    let rows = rows_of(windows);
    let place = diagnosis(&Treatment::new(), THIS_MACHINE, &Rows { own: rows.iter().collect(), ..Rows::default() });
    Explanation { format: FORMAT.to_owned(), run: None, places: vec![place], absent: absent.to_vec() }
}

/// Windows that follow each other joined to one: counters add up, levels are averaged over the windows that have them.
#[must_use]
pub fn joined(windows: &[(Values, f64)]) -> (Values, f64) {
    let mut values = Values::new();
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    for (key, value) in windows.iter().flat_map(|(values, _)| values) {
        *values.entry(key.clone()).or_insert(0.0) += value;
        *counts.entry(key).or_insert(0.0) += 1.0;
    }
    for (key, value) in &mut values {
        let level = quantity::find(quantity::split(key).0).is_some_and(|row| row.growth == quantity::Growth::Level);
        *value /= if level { counts[key.as_str()] } else { 1.0 };
    }
    (values, windows.iter().map(|(_, seconds)| seconds).sum())
}

/// One row for each quantity. An instance's window in which nothing happened has no value and counts as 0.
fn rows_of(windows: &[(Values, f64)]) -> Vec<ObservedRow> {
    let mut all: BTreeMap<(String, String, String), Vec<f64>> = BTreeMap::new();
    for (values, seconds) in windows {
        for seen in view::views(values, *seconds) {
            let unit = view::find(&seen.key).map_or("", |view| view.unit).to_owned();
            all.entry((seen.key, seen.instance, unit)).or_default().push(seen.value);
        }
        for (seen, unit) in view::rates(values, *seconds) {
            if view::find(&seen.key).is_none() {
                all.entry((seen.key, seen.instance, unit)).or_default().push(seen.value);
            }
        }
    }
    let row = |((quantity, instance, unit), mut values): ((String, String, String), Vec<f64>)| {
        if !instance.is_empty() {
            values.resize(windows.len(), 0.0);
        }
        let [lo, hi] = limits(&values).map_or([None; 2], |limits| limits.map(Some));
        Some(ObservedRow {
            treatment: Treatment::new(),
            place: THIS_MACHINE.to_owned(),
            quantity,
            instance,
            unit,
            n: values.len(),
            value: mean(&values)?,
            lo,
            hi,
        })
    };
    all.into_iter().filter_map(row).collect()
}

/// The ends of Student's interval of the mean over windows, which are taken to be independent; `None` below four.
///
/// The mean, because a share of time is the question: the estimates of ratios leave out windows that are unlike the others.
#[expect(clippy::cast_precision_loss, reason = "a number of windows")]
fn limits(values: &[f64]) -> Option<[f64; 2]> {
    const FEWEST: usize = 4;
    let n = values.len() as f64;
    let half = student_two_sided(1.0 - RATE, n - 1.0) * sd(values).filter(|_| values.len() >= FEWEST)? / n.sqrt();
    let centre = mean(values)?;
    Some([centre - half, centre + half])
}

fn diagnosis(treatment: &Treatment, place: &str, rows: &Rows<'_>) -> Diagnosis {
    let layers: Vec<LayerRow> = RULES.iter().map(|rule| judged(rule, rows)).collect();
    let named = layers.iter().position(|layer| layer.saturated == Some(true));
    let sentence = match named {
        Some(named) => sentence(&layers, named),
        None => nothing(&layers),
    };
    Diagnosis {
        treatment: treatment.clone(),
        place: place.to_owned(),
        named: named.map(|named| layers[named].layer.clone()),
        advice: named.map_or("", |named| (RULES[named].advice)(rows)).to_owned(),
        sentence,
        layers,
    }
}

fn judged(rule: &Rule, rows: &Rows<'_>) -> LayerRow {
    let observed: Vec<(Measure, f64)> =
        rule.saturation.iter().filter_map(|(probe, limit)| Some((rows.measure(&[*probe])?, *limit))).collect();
    let waits = |(measure, limit): &&(Measure, f64)| measure.lo.is_some_and(|lo| lo >= *limit);
    let reached = observed.iter().find(waits);
    let known = observed.iter().any(|(measure, _)| measure.lo.is_some());
    let shown = reached.or(observed.first()).cloned();
    LayerRow {
        layer: rule.layer.to_owned(),
        utilization: rows.measure(rule.utilization),
        errors: rows.measure(rule.errors),
        limit: shown.as_ref().map_or(rule.saturation[0].1, |(_, limit)| *limit),
        saturated: match reached {
            None => known.then_some(false),
            Some(_) => (rule.applies)(rows),
        },
        saturation: shown.map(|(measure, _)| measure),
    }
}

/// "The disk is saturated: 96 % (93 to 99 %) of the time some task waited for a disk; 3 % ..."
fn sentence(layers: &[LayerRow], named: usize) -> String {
    let layer = &layers[named];
    let waited = layer.saturation.as_ref().map(evidence).unwrap_or_default();
    let used = layer.utilization.as_ref().map(|used| format!("; {}", evidence(used))).unwrap_or_default();
    let others: Vec<&str> = layers[named + 1..]
        .iter()
        .filter(|layer| layer.saturated == Some(true))
        .map(|layer| layer.layer.as_str())
        .collect();
    let others = if others.is_empty() { String::new() } else { format!(". Also saturated: {}", others.join(", ")) };
    format!("The {} is saturated: {waited}{used}{others}.", layer.layer)
}

fn evidence(measure: &Measure) -> String {
    let unit = if measure.unit.is_empty() { String::new() } else { format!(" {}", measure.unit) };
    let places = if measure.value.abs() < 10.0 { 1 } else { 0 };
    let interval = match (measure.lo, measure.hi) {
        (Some(lo), Some(hi)) => format!(" (95 % interval {:.places$} to {:.places$}{unit})", lo.max(0.0), hi),
        _ => String::new(),
    };
    format!("{:.places$}{unit}{interval} {}", measure.value, measure.what)
}

/// That nothing is saturated, as far as that was observed.
fn nothing(layers: &[LayerRow]) -> String {
    let unknown: Vec<&str> =
        layers.iter().filter(|layer| layer.saturated.is_none()).map(|layer| layer.layer.as_str()).collect();
    match unknown.as_slice() {
        [] => "No layer is saturated.".to_owned(),
        some if some.len() == layers.len() => "No layer was observed for long enough.".to_owned(),
        some => format!("No layer is saturated among those observed (not observed: {}).", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of two CPUs of which `used` is used, with shares of time in which tasks waited and others of these.
    fn second(used: f64, values: &[(&str, f64)]) -> (Values, f64) {
        let states = [("cpu.user", 2.0 * used), ("cpu.idle", 2.0 * (1.0 - used))];
        let others =
            ["cpu.nice", "cpu.system", "cpu.irq", "cpu.softirq", "cpu.iowait", "cpu.steal"].map(|key| (key, 0.0));
        let waits = ["pressure.cpu_some", "pressure.io_some", "pressure.memory_some", "vm.pswpin", "vm.pswpout"];
        let mut all: Values = states
            .into_iter()
            .chain(others)
            .chain(waits.map(|key| (key, 0.0)))
            .chain([("sockets.unsent", 0.0), ("sockets.unread", 0.0)])
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        all.extend(values.iter().map(|(key, value)| ((*key).to_owned(), *value)));
        (all, 1.0)
    }

    /// A program's start or a thrashing one: faults that read pages, none of which was evicted before.
    const FAULTS: [(&str, f64); 3] =
        [("vm.pgmajfault", 800.0), ("vm.workingset_refault_anon", 0.0), ("vm.pgpgin", 900.0 * 4096.0)];

    /// A layer, the share of the CPUs that is used, and what waits.
    type Case = (&'static str, f64, &'static [(&'static str, f64)]);

    /// What is named where the `values` of ten seconds are a bit more and a bit less than these.
    fn named(used: f64, values: &[(&str, f64)]) -> Diagnosis {
        let near = |round: u32| {
            let factor = 1.0 + 0.01 * (f64::from(round) - 4.5);
            let moved: Vec<(&str, f64)> = values.iter().map(|(key, value)| (*key, value * factor)).collect();
            second((used * factor).min(1.0), &moved)
        };
        let windows: Vec<(Values, f64)> = (0..10).map(near).collect();
        of_windows(&windows, &[]).places.remove(0)
    }

    #[test]
    fn the_layer_that_work_waits_for_is_named() {
        let cases: &[Case] = &[
            ("hypervisor", 0.5, &[("cpu.steal", 0.6), ("pressure.cpu_some", 0.5)]),
            ("CPU", 0.99, &[("pressure.cpu_some", 0.9), ("sockets.unread", 90.0)]),
            ("run queue", 0.5, &[("pressure.cpu_some", 0.9)]),
            ("memory", 0.2, &[("pressure.memory_some", 0.6), ("pressure.io_some", 0.7), ("vm.pgmajfault", 900.0)]),
            ("paging", 0.2, &[("vm.pswpin", 500.0), ("pressure.io_some", 0.4)]),
            ("disk", 0.1, &[("pressure.io_some", 0.95), ("disk.busy:vda", 0.03)]),
            ("network", 0.1, &[("sockets.unsent", 80.0)]),
            ("network", 0.1, &[("sockets.in_transit", 0.2), ("sockets.unsent", 5.0)]),
            ("application tier", 0.1, &[("sockets.unread", 70.0)]),
        ];
        for (expected, used, values) in cases {
            let found = named(*used, values);
            assert_eq!(found.named.as_deref(), Some(*expected), "{found:#?}");
            assert!(found.sentence.starts_with(&format!("The {expected} is saturated: ")), "{}", found.sentence);
        }
        let thrashes = [FAULTS[0], FAULTS[1], FAULTS[2], ("vm.workingset_refault_file", 900.0)];
        assert_eq!(named(0.2, &thrashes).named.as_deref(), Some("memory"));
        let both = named(0.2, &[("pressure.memory_some", 0.6), ("pressure.io_some", 0.7)]);
        assert!(both.sentence.ends_with("Also saturated: disk."), "{}", both.sentence);
    }

    #[test]
    fn nothing_is_named_where_nothing_waits_for_long_enough() {
        assert_eq!(named(0.3, &[]).sentence, "No layer is saturated.");
        assert_eq!(named(0.99, &[]).named, None, "all CPUs are used, and nobody waits for one");
        let little =
            [("pressure.io_some", 0.05), ("pressure.cpu_some", 0.05), ("sockets.unread", 10.0), ("cpu.steal", 0.02)];
        assert_eq!(named(0.3, &little).named, None);
        let start = [FAULTS[0], FAULTS[1], FAULTS[2], ("vm.workingset_refault_file", 5.0)];
        assert_eq!(named(0.3, &start).named, None, "a program that starts reads pages for the first time");
        // One second of ten: its mean is above the limit, the interval's lower end is not.
        let mut windows: Vec<(Values, f64)> = (0..9).map(|_| second(0.1, &[])).collect();
        windows.push(second(0.1, &[("pressure.io_some", 1.0)]));
        windows.push(second(0.1, &[("pressure.io_some", 1.0)]));
        assert_eq!(of_windows(&windows, &[]).places[0].named, None);
    }

    /// Where the kernel has no PSI, ranks that waited for half of their time on CPUs in full use were "ok", and nothing was saturated.
    #[test]
    fn ranks_that_wait_for_busy_cpus_show_the_processor_to_be_saturated() {
        let mut windows: Vec<(Values, f64)> = (0..10).map(|_| second(0.99, &[])).collect();
        windows.iter_mut().for_each(|(values, _)| values.retain(|key, _| !key.starts_with("pressure.")));
        let mut rows = rows_of(&windows);
        rows.push(ObservedRow {
            treatment: Treatment::new(),
            place: THIS_MACHINE.to_owned(),
            quantity: QUEUED.0.to_owned(),
            instance: String::new(),
            unit: "%".to_owned(),
            n: 10,
            value: 50.0,
            lo: Some(48.0),
            hi: Some(52.0),
        });
        let rows = Rows { own: rows.iter().collect(), ..Rows::default() };
        let found = diagnosis(&Treatment::new(), THIS_MACHINE, &rows);
        assert_eq!(found.named.as_deref(), Some("CPU"), "{found:#?}");
        // Whose fault it is follows from how much of the CPUs is used.
        let own = rows.own.iter().copied().filter(|row| row.quantity != UTILIZATION.0).collect();
        let found = diagnosis(&Treatment::new(), THIS_MACHINE, &Rows { own, ..Rows::default() });
        let of = |layer: &str| found.layers.iter().find(|row| row.layer == layer).map(|row| row.saturated);
        assert_eq!([of("CPU"), of("run queue")], [Some(None), Some(Some(true))], "{found:#?}");
    }

    #[test]
    fn advice_follows_from_the_evidence() {
        let waits = ("pressure.io_some", 0.95);
        assert!(named(0.1, &[waits, ("disk.busy:vda", 0.03)]).advice.contains("mostly idle"));
        assert!(named(0.1, &[waits, ("disk.busy:vda", 0.97)]).advice.contains("a faster device"));
        assert_eq!(named(0.1, &[waits]).advice, "", "what the device does was not observed");
        assert_eq!(named(0.3, &[]).advice, "");
    }

    #[test]
    fn what_was_not_observed_is_not_called_unsaturated() {
        let windows: Vec<(Values, f64)> =
            (0..10).map(|_| (Values::from([("sockets.unsent".to_owned(), 0.0)]), 1.0)).collect();
        let found = of_windows(&windows, &[]).places.remove(0);
        let state = |layer: &str| found.layers.iter().find(|row| row.layer == layer).expect("a layer").saturated;
        assert_eq!((state("network"), state("disk")), (Some(false), None));
        assert!(found.sentence.starts_with("No layer is saturated among those observed"), "{}", found.sentence);
        assert!(of_windows(&windows[..3], &[]).places[0].sentence.starts_with("No layer was observed for long enough"));
    }

    /// Arms that take turns in one trial have no readings of their own of what is read at its ends.
    #[test]
    fn what_is_read_at_the_ends_of_trials_is_judged_of_all_their_arms() {
        let windows: Vec<(Values, f64)> = (0..10).map(|_| second(0.2, &[("sockets.unsent", 80.0)])).collect();
        let rows = rows_of(&windows);
        let (together, own) = rows.iter().partition(|row| row.quantity.starts_with(AT_THE_ENDS));
        let found = diagnosis(&Treatment::new(), THIS_MACHINE, &Rows { own, together });
        assert_eq!(found.named.as_deref(), Some("network"), "{found:#?}");
        assert!(found.sentence.contains("to be sent or confirmed (over all arms of its trials)"), "{}", found.sentence);
        let disk = found.layers.iter().find(|row| row.layer == "disk").and_then(|row| row.saturation.as_ref());
        assert!(disk.is_some_and(|disk| !disk.what.contains("all arms")), "{disk:?}");
    }

    #[test]
    fn joined_windows_add_counts_and_average_levels() {
        let window = |faults: f64, unread: f64| {
            (Values::from([("vm.pgfault".to_owned(), faults), ("sockets.unread".to_owned(), unread)]), 0.5)
        };
        let (values, seconds) = joined(&[window(3.0, 100.0), window(4.0, 0.0)]);
        assert_eq!((values["vm.pgfault"], values["sockets.unread"], seconds), (7.0, 50.0, 1.0));
    }
}
