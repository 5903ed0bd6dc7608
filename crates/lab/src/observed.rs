//! System activity, from the observations of stored trials: one row for each treatment, place and quantity,
//! and series over the time of the run.
//!
//! The unit is the trial, as everywhere: a trial's rates are taken first, then their estimate over trials with its interval.

mod imported;

use crate::activity::own_place;
use crate::run::{Run, places};
use crate::trials::Finished;
use crate::used_by_others;
use crate::values;
use baremark_model::arm::ExecutorKind;
use baremark_model::environments::{self, NATIVE};
use baremark_model::observation::{
    Observation, Observed, ObservedAbsence, ObservedCost, ObservedRow, ObservedSeries, THIS_MACHINE, Values,
};
use baremark_model::observer::Absence;
use baremark_model::plan::{Cell, Treatment};
use baremark_model::seam::TickRate;
use baremark_model::view::{self, Seen};
use baremark_model::wire::TrialResult;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Points of one series that a document holds; of more, neighbours become one.
const MOST_POINTS: usize = 1000;

/// What was observed in a run; `None` where nothing was.
pub(crate) fn observed(run: &Run) -> Option<Observed> {
    let all = || run.trials.iter().filter_map(|trial| trial.result.as_ref()).flat_map(|result| &result.observations);
    if run.imported.is_empty() {
        all().next()?;
    }
    let mut found = run.trials.iter().filter_map(Finished::counted).filter_map(|result| result.disturbance.as_ref());
    // One count for all arms of a run: that which all agents have.
    let is_beyond_agent = found.any(|found| found.hidden_programs);
    let mut rows = Vec::new();
    for (arm, planned) in run.plan.arms.iter().enumerate() {
        let mut table = Table::default();
        for (trial, index) in places(&run.plan, &run.trials, arm) {
            let Some(result) = trial.counted() else { continue };
            for observation in &result.observations {
                table.arm_of_trial(trial, result, index, observation);
            }
            table.counts_of_machine(result, index);
            table.disturbance(result, index, is_beyond_agent);
        }
        rows.extend(table.rows(&planned.treatment));
    }
    let mut whole = Table::default();
    for result in run.trials.iter().filter_map(Finished::counted) {
        result.observations.iter().for_each(|observation| whole.whole_trial(observation));
        whole.lost_time(result);
    }
    rows.extend(whole.rows(&Treatment::new()));
    rows.extend(imported::rows(run));
    let mut series = series(run);
    series.extend(imported::series(run));
    let mut notes = notes(run, all());
    notes.extend(imported::notes(run));
    Some(Observed {
        interval_ns: run.plan.observe.interval.0,
        rows,
        series,
        absent: absent(run, all()),
        notes,
        cost: cost(all()),
    })
}

/// What the values of a window show.
struct Window {
    /// The views, and the rates that no view shows, with their units.
    seen: Vec<(Seen, String)>,
    /// What an instance is 0 of that is not among them.
    idle: BTreeSet<&'static str>,
}

impl Window {
    fn of(values: &Values, seconds: f64) -> Self {
        let with_unit = |seen: Seen| {
            let unit = view::find(&seen.key).map_or("", |view| view.unit).to_owned();
            (seen, unit)
        };
        // Ticks by state are shares already, and a view of the same name says the same.
        let is_shown = |key: &str| view::find(key).is_some() || key.starts_with(OF_CPUS) || key.starts_with("lost.");
        let rates = view::rates(values, seconds).into_iter().filter(|(seen, _)| !is_shown(&seen.key));
        let seen = view::views(values, seconds).into_iter().map(with_unit).chain(rates).collect();
        Window { seen, idle: view::idle(values, seconds) }
    }

    /// The same with what only `whole` has: what is too dear to be read between phases was read at the ends of the trial, and single CPUs are kept of whole
    /// trials alone. A device that was idle in the phases does not have there what it did before them.
    fn with(mut self, whole: Window) -> Self {
        let known: BTreeSet<String> = self.seen.iter().map(|(seen, _)| seen.key.clone()).collect();
        let is_of_a_cpu = |seen: &Seen| seen.key.starts_with(OF_CPUS) && !seen.instance.is_empty();
        let is_more = |seen: &Seen| !known.contains(&seen.key) || is_of_a_cpu(seen);
        self.seen.extend(whole.seen.into_iter().filter(|(seen, _)| is_more(seen)));
        self.idle.extend(whole.idle);
        self
    }
}

/// The family of what CPUs did.
const OF_CPUS: &str = "cpu.";

/// The values of many trials, by place, key, instance and unit, in the order in which they came up.
#[derive(Default)]
struct Table {
    order: Vec<Key>,
    values: HashMap<Key, Vec<f64>>,
    /// By place and key, in how many windows instances that were not named were at 0.
    windows: HashMap<String, BTreeMap<&'static str, usize>>,
}

/// Place, quantity, instance and unit.
type Key = (String, String, String, String);

impl Table {
    fn add(&mut self, place: &str, seen: Seen, unit: &str) {
        let key = (place.to_owned(), seen.key, seen.instance, unit.to_owned());
        match self.values.entry(key) {
            Entry::Occupied(mut values) => values.get_mut().push(seen.value),
            Entry::Vacant(free) => {
                self.order.push(free.key().clone());
                let before = windows(&self.windows, free.key());
                free.insert(vec![0.0; before]).push(seen.value);
            }
        }
    }

    /// Adds a window of a place; an instance in which nothing happened is 0 there.
    fn window(&mut self, place: &str, window: Window) {
        for (seen, unit) in window.seen {
            self.add(place, seen, &unit);
        }
        let own = self.windows.entry(place.to_owned()).or_default();
        window.idle.into_iter().for_each(|key| *own.entry(key).or_default() += 1);
        for key in self.order.iter().filter(|(at, ..)| at == place) {
            let count = windows(&self.windows, key);
            if let Some(values) = self.values.get_mut(key).filter(|values| values.len() < count) {
                values.resize(count, 0.0);
            }
        }
    }

    /// What is known of one arm of a trial: its own phases where they were distinguished; the whole trial where it ran alone.
    fn arm_of_trial(&mut self, trial: &Finished, result: &TrialResult, index: usize, observation: &Observation) {
        let place = observation.place.as_str();
        let own = observation.arms.iter().find(|arm| arm.arm == index);
        let own = own.map(|arm| Window::of(&arm.values, arm.seconds));
        let alone = trial.spec.arms.len() == 1;
        let is_own = own.is_some();
        let whole = alone.then(|| Window::of(&observation.whole, observation.seconds));
        let window = match (own, whole) {
            (Some(own), Some(whole)) => Some(own.with(whole)),
            (own, whole) => own.or(whole),
        };
        if let Some(window) = window {
            self.window(place, window);
        }
        if alone && is_own {
            self.lost_time(result);
        }
    }

    fn whole_trial(&mut self, observation: &Observation) {
        self.window(&observation.place, Window::of(&observation.whole, observation.seconds));
    }

    /// What the trial's own look at the clock found, before and after its phases.
    fn lost_time(&mut self, result: &TrialResult) {
        let place = result.observations.first().map_or(THIS_MACHINE, |observation| &observation.place).to_owned();
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a short look")]
        let looked = [result.lost_before, result.lost_after].map(|lost| (lost.looked_ns as f64, lost.share));
        let time: f64 = looked.iter().map(|(looked, _)| looked).sum();
        if time > 0.0 {
            let lost: f64 = looked.iter().map(|(looked, share)| looked * share).sum();
            let seen = Seen { key: "lost.share".to_owned(), instance: String::new(), value: 100.0 * lost / time };
            self.add(&place, seen, "%");
        }
    }

    /// What others took of the CPUs while the arm's phases ran; of the machine as a whole over the phases of all arms. Where some agent of the run did not see
    /// the programs of its machine, also all that the arm's own agent and its work did not use, which all agents of the run have.
    fn disturbance(&mut self, result: &TrialResult, index: usize, is_beyond_agent: bool) {
        let Some(found) = &result.disturbance else { return };
        // Of two sites this machine's comes first, and has seen the phases of both arms; an arm's own is the last that has.
        let has_seen = |seen: &&Observation| seen.arms.iter().any(|of| of.arm == index);
        let own = result.observations.iter().rev().find(has_seen).or(result.observations.first());
        let place = own.map_or(THIS_MACHINE, |observation| &observation.place).to_owned();
        let queued = found.queued.get(index).copied().flatten();
        let arms = || result.series.iter().map(|phase| phase.arm);
        // Not where the agent did not see them: what it has then is the kernel's work, too.
        let others = (!found.hidden_programs).then(|| found.others_of(index, arms())).flatten();
        let beyond = is_beyond_agent.then(|| found.beyond_agent_of(index, arms())).flatten();
        let shares = [
            ("phases.queued", queued),
            ("phases.others", others),
            ("phases.beyond_agent", beyond.map(|share| share.max(0.0))),
            ("phases.stolen", found.stolen_of(index, arms())),
        ];
        for (key, share) in shares {
            let Some(share) = share else { continue };
            let seen = Seen { key: key.to_owned(), instance: String::new(), value: 100.0 * share };
            self.add(&place, seen, "%");
        }
    }

    /// What KVM counted of the arm's own microVM: growth inside what is timed, and how it mapped the memory.
    fn counts_of_machine(&mut self, result: &TrialResult, index: usize) {
        let rate: TickRate = result.tick_rate_per_s;
        let of_arm = result.arms.get(index).map(|arm| &arm.grown);
        let mut grown: BTreeMap<&str, u64> =
            of_arm.into_iter().flatten().map(|(name, count)| (name.as_str(), *count)).collect();
        let mut seconds = 0.0;
        for run in result.series.iter().filter(|phase| phase.arm == index).flat_map(|phase| &phase.runs) {
            seconds += rate.span(&run.times).unwrap_or(0.0);
            // In results of format 1 each run has its own counts.
            for (name, count) in &run.audit.counters {
                *grown.entry(name).or_default() += count;
            }
        }
        let levels = result.arms.get(index).map(|arm| &arm.counters);
        let is_level = |name: &str| name.starts_with("pages_") || name.starts_with("max_") || name == "nx_lpage_splits";
        #[expect(clippy::cast_precision_loss, reason = "counts of a trial stay far below 2^53")]
        for (name, count) in grown.into_iter().filter(|(name, _)| seconds > 0.0 && !is_level(name)) {
            let value = count as f64 / seconds;
            let seen = |key: &str, instance: &str| Seen { key: key.to_owned(), instance: instance.to_owned(), value };
            if name == "exits" {
                self.add(MACHINE, seen("kvm.exits", ""), "1/s");
            }
            self.add(MACHINE, seen("kvm.event", name), "1/s");
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of pages stay far below 2^53")]
        for (name, count) in levels.into_iter().flatten().filter(|(name, _)| is_level(name)) {
            let seen = Seen { key: "kvm.level".to_owned(), instance: name.clone(), value: *count as f64 };
            self.add(MACHINE, seen, "");
        }
    }

    fn rows(mut self, treatment: &Treatment) -> Vec<ObservedRow> {
        let mut rows = Vec::new();
        for key in std::mem::take(&mut self.order) {
            let values = self.values.remove(&key).unwrap_or_default();
            let Some(value) = values::of(&values) else { continue };
            let (place, quantity, instance, unit) = key;
            let interval = value.interval.map(|interval| values::of_unit(interval, &unit));
            rows.push(ObservedRow {
                treatment: treatment.clone(),
                place,
                quantity,
                instance,
                unit,
                n: value.n,
                value: value.estimate,
                lo: interval.map(|interval| interval.lo),
                hi: interval.map(|interval| interval.hi),
            });
        }
        rows
    }
}

/// In how many windows an instance that was not named was at 0; of what is of the machine in none.
fn windows(all: &HashMap<String, BTreeMap<&'static str, usize>>, (place, quantity, instance, _): &Key) -> usize {
    if instance.is_empty() {
        return 0;
    }
    all.get(place).and_then(|own| own.get(quantity.as_str())).copied().unwrap_or(0)
}

/// The place at which a microVM's own counts are taken.
const MACHINE: &str = "microvm";

/// Views over the time of the run, by place. A trial that was shorter than an interval is one point.
fn series(run: &Run) -> Vec<ObservedSeries> {
    let mut all: BTreeMap<(String, usize, String), Vec<[f64; 2]>> = BTreeMap::new();
    let mut trials: Vec<&Observation> =
        run.trials.iter().filter_map(|trial| trial.result.as_ref()).flat_map(|result| &result.observations).collect();
    baremark_model::order::by_key(&mut trials, |observation| observation.began_unix_ns);
    for observation in trials {
        #[expect(clippy::cast_precision_loss, reason = "to a microsecond over centuries")]
        let began = observation.began_unix_ns.saturating_sub(run.started.0) as f64 / 1e9;
        let mut point = |at: f64, values: &Values, seconds: f64| {
            for seen in view::views(values, seconds) {
                let place = view::VIEWS.iter().position(|view| view.key == seen.key).unwrap_or(usize::MAX);
                all.entry((observation.place.clone(), place, seen.instance)).or_default().push([at, seen.value]);
            }
        };
        if observation.series.at_s.is_empty() && observation.seconds > 0.0 {
            point(began + observation.seconds, &observation.whole, observation.seconds);
        }
        for (index, at) in observation.series.at_s.iter().enumerate() {
            let there = observation
                .series
                .values
                .iter()
                .filter_map(|(key, points)| Some((key.clone(), (*points.get(index)?)?)));
            point(began + at, &there.collect(), 1.0);
        }
    }
    // A CPU of its own has no line in a report; whoever requested them finds them in the store.
    let shown = all.into_iter().filter(|((_, place, instance), _)| {
        instance.is_empty()
            || !view::VIEWS.get(*place).is_some_and(|view| view.key.starts_with("cpu."))
            || run.plan.observe.per_cpu
    });
    shown
        .filter_map(|((place, index, instance), points)| {
            let view = view::VIEWS.get(index)?;
            let (quantity, unit) = (view.key.to_owned(), view.unit.to_owned());
            Some(ObservedSeries { place, quantity, instance, unit, points: thinned(points) })
        })
        .collect()
}

/// From when to when a trial was observed, in seconds since the run began; `None` where it was not, or where the times are beyond all numbers.
pub(crate) fn of_trial(run: &Run, trial: &Finished) -> Option<[f64; 2]> {
    #[expect(clippy::cast_precision_loss, reason = "to a microsecond over centuries")]
    let of = |observation: &Observation| {
        let began = observation.began_unix_ns.saturating_sub(run.started.0) as f64 / 1e9;
        [began, began + observation.seconds]
    };
    let all = trial.result.iter().flat_map(|result| &result.observations).map(of);
    let whole = all.reduce(|[from, to], [other_from, other_to]| [from.min(other_from), to.max(other_to)])?;
    let rounded = whole.map(|at| (at * 1e3).round() / 1e3);
    rounded.iter().all(|at| at.is_finite()).then_some(rounded)
}

/// At most [`MOST_POINTS`]: each the mean of neighbours, at the last one's time.
#[expect(clippy::cast_precision_loss, reason = "few neighbours")]
fn thinned(points: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    let group = points.len().div_ceil(MOST_POINTS).max(1);
    let one = |group: &[[f64; 2]]| {
        let sum: f64 = group.iter().map(|[_, value]| value).sum();
        group.last().map(|[at, _]| [(at * 1e3).round() / 1e3, sum / group.len() as f64])
    };
    points.chunks(group).filter_map(one).collect()
}

fn absent<'o>(run: &Run, all: impl Iterator<Item = &'o Observation>) -> Vec<ObservedAbsence> {
    let mut absent: BTreeSet<ObservedAbsence> = BTreeSet::new();
    for observation in all {
        let place = observation.place.clone();
        absent.extend(
            observation.absent.iter().map(|absence| ObservedAbsence { place: place.clone(), absence: absence.clone() }),
        );
    }
    if run.plan.arms.iter().any(|planned| planned.arm.executor == ExecutorKind::Microvm) {
        let reason = "no guest OS: inside a microVM only the workload runs; KVM's counts are shown with its arms";
        absent.insert(ObservedAbsence { place: MACHINE.to_owned(), absence: Absence::new("all", reason) });
    }
    let compared = run.plan.pairs.iter().enumerate().filter(|(_, pair)| pair.is_compared());
    for (index, pair) in compared {
        let Err(why) = used_by_others::differences(&run.plan, &run.trials, index) else { continue };
        let [above, below] = [pair.numerator, pair.denominator].map(|arm| &run.plan.arms[arm]);
        let place = own_place(&above.environment, environments::can(above.place())).to_owned();
        let what = format!("{} beyond {}", used_by_others::WHAT, below.environment);
        absent.insert(ObservedAbsence { place, absence: Absence::new(&what, why.to_string()) });
    }
    absent.into_iter().collect()
}

fn notes<'o>(run: &Run, all: impl Iterator<Item = &'o Observation>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut events: BTreeMap<String, usize> = BTreeMap::new();
    let mut elsewhere = false;
    let mut stretched = false;
    for observation in all {
        for note in &observation.notes {
            *events.entry(format!("{}: {note}", observation.place)).or_default() += 1;
        }
        elsewhere |= observation.place != THIS_MACHINE;
        stretched |= observation.series.interval_ns > run.plan.observe.interval.0;
    }
    let sites_of = |cell: &Cell| run.plan.environments_of(*cell).len();
    let pairs = || run.plan.cells.iter().filter(|cell| matches!(cell, Cell::Pair(_)));
    if pairs().any(|cell| sites_of(cell) == 1) {
        notes.push(
            "Arms of one trial take turns in one process, faster than series have points: series show them together. Their totals are read between the phases, so they are separate."
                .to_owned(),
        );
    }
    if pairs().any(|cell| sites_of(cell) > 1) {
        notes.push(
            "Arms of one trial take turns at two sites: each site's totals are of its own arm's phases; where one of them is this machine, its totals are of the phases of both arms, separately."
                .to_owned(),
        );
    }
    let is_here = |cell: &Cell| run.plan.environments_of(*cell).contains(&NATIVE);
    let runs_elsewhere = |cell: &Cell| matches!(cell, Cell::Single(_)) || sites_of(cell) > 1 && !is_here(cell);
    if elsewhere && run.plan.cells.iter().any(runs_elsewhere) {
        notes.push(
            "While an arm runs elsewhere this machine is observed over the whole trial, preparation and verification \
             included; the environment itself over the arm's phases."
                .to_owned(),
        );
    }
    if stretched {
        notes.push("Trials were so long that neighbouring points of series became one.".to_owned());
    }
    notes.extend(events.into_iter().map(|(note, trials)| match trials {
        1 => note,
        _ => format!("{note} (in {trials} trials)"),
    }));
    notes
}

fn cost<'o>(all: impl Iterator<Item = &'o Observation>) -> Vec<ObservedCost> {
    let mut places: BTreeMap<&str, (u64, f64, f64)> = BTreeMap::new();
    for observation in all {
        let (readings, cpu_ns, seconds) = places.entry(&observation.place).or_default();
        *readings += observation.cost.readings;
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of months are exact enough")]
        let spent = observation.cost.cpu_ns as f64;
        *cpu_ns += spent;
        *seconds += observation.seconds;
    }
    let row = |(place, (readings, cpu_ns, seconds)): (&str, (u64, f64, f64))| {
        #[expect(clippy::cast_precision_loss, reason = "counts of readings")]
        let of = readings as f64;
        let place = place.to_owned();
        (readings > 0 && seconds > 0.0).then(|| ObservedCost {
            place,
            readings,
            share: cpu_ns / 1e9 / seconds,
            reading_ns: cpu_ns / of,
        })
    };
    places.into_iter().filter_map(row).collect()
}
