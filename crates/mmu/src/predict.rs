//! Predictions with intervals: everything unknown is drawn, and the spread of the results is the interval.
//!
//! A *structure* is one drawn processor and one drawn placement; it is simulated once for every scheme. Each structure is
//! combined with many draws of latencies, overlap and tax, which need no simulation. What was measured on the machine, given
//! as intervals, weighs the draws by their likelihood (importance sampling; the effective number of draws is reported). A
//! seed fixes all of it.
//!
//! A program that was traced is known by windows of its accesses. Each window is counted, in each structure, and its time is the mean over them. How far another
//! sample of windows would lie from it is drawn for each result by weights of the windows (Rubin, "The Bayesian bootstrap", Annals of Statistics 1981), made as
//! wide as Student's t of so few demands and as narrow as the share of the program's accesses that is counted allows.

use crate::counts::Counts;
use crate::machine::{Drawn, Machine, Range, Timing};
use crate::page::Page;
use crate::prior::Priors;
use crate::random::Random;
use crate::scheme::{Scheme, Setup};
use crate::simulator::{SetupError, Simulator};
use crate::stream::{Dependence, Stream};
use crate::tables::Placement;
use crate::time::{self, Overlap};
use crate::trace::Windows;
use crate::workload::Kernel;

/// Of the lines that data and low entries take one in 2^THINNING is simulated ([`Setup::thinning`]); `make bench-mmu` prints
/// what that misses and what it saves.
pub const THINNING: u32 = 4;

/// So many groups of a stream's addresses are translated as the one before them was, where addresses are independent
/// ([`Setup::repeats`]).
pub const REPEATS: u32 = 15;

/// How much is drawn and simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Processors and placements that are simulated.
    pub structures: usize,
    /// Draws of latencies for each of them.
    pub draws: usize,
    /// Accesses that are counted; before them as many as fill the caches twice, and a quarter, are not, 32 times these at most.
    pub accesses: usize,
    /// Seed of everything drawn.
    pub seed: u64,
}

impl Effort {
    /// Of the validation: many processors and placements, since these make its intervals wide.
    pub const VALIDATION: Effort = Effort { structures: 288, draws: 200, accesses: 1 << 15, seed: 1 };
}

impl Default for Effort {
    fn default() -> Self {
        Effort { structures: 24, draws: 400, accesses: 1 << 17, seed: 1 }
    }
}

/// What is predicted for.
pub struct Question<'q> {
    /// The processor.
    pub machine: &'q Machine,
    /// Cores that do the same work side by side.
    pub busy: u32,
    /// A fresh stream of the program's addresses.
    pub stream: &'q dyn Fn() -> Box<dyn Stream>,
    /// The windows of a stream that is a sample of a program, which are counted one by one; `None` of a stream that is whole in itself.
    pub sample: Option<Windows>,
    /// Nanoseconds of other work for each access, which data and walks come on top of where they are not hidden.
    pub work_ns: Range,
    /// Page faults for each access, which change a page table; each costs what a fault does, and under shadow paging exits.
    pub faults: f64,
    /// Loads of another page table and flushes of translations for each access, such as switches between processes: their time is
    /// part of the work, and each exits under shadow paging.
    pub switches: f64,
    /// Accesses in each unit of which `work_ns`, `faults` and `switches` are told.
    pub accesses: Range,
    /// The schemes; the first one that is native with a page size is the denominator of those with this page size.
    pub schemes: Vec<Scheme>,
    /// What the machine's own memory may be made of when it is itself virtual: every scheme is then walked in two
    /// dimensions. Empty on bare metal.
    pub outer: Vec<Page>,
    /// What was measured of this very stream on this machine: a scheme's nanoseconds for each access, as a 95 % interval.
    pub measured: Vec<(Scheme, Range)>,
    /// What was measured of other kernels on this machine, natively; it weighs the draws, too.
    pub known: Vec<Known>,
    /// How the program's pages come to lie in memory.
    pub layout: Layout,
    /// What is assumed of virtual machines.
    pub priors: &'q Priors,
    /// How much is drawn.
    pub effort: Effort,
}

/// A kernel that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The kernel.
    pub kernel: Kernel,
    /// How it translated.
    pub scheme: Scheme,
    /// Its nanoseconds for each access, as a 95 % interval.
    pub ns: Range,
}

/// What is known of how pages and tables lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Nothing: in order, or anywhere.
    Unknown,
    /// A Linux before 2.6.24 whose busy cores first touch their pages side by side.
    Touched {
        /// The most bytes that were touched in the system since it was started.
        memory: u64,
    },
}

impl<'q> Question<'q> {
    /// What `schemes` cost a stream on one core, with nothing measured, no other work, and the usual effort.
    pub fn new(
        machine: &'q Machine,
        priors: &'q Priors,
        stream: &'q dyn Fn() -> Box<dyn Stream>,
        schemes: Vec<Scheme>,
    ) -> Self {
        Question {
            machine,
            busy: 1,
            stream,
            sample: None,
            work_ns: Range::exactly(0.0),
            faults: 0.0,
            switches: 0.0,
            accesses: Range::exactly(1.0),
            schemes,
            outer: Vec::new(),
            measured: Vec::new(),
            known: Vec::new(),
            layout: Layout::Unknown,
            priors,
            effort: Effort::default(),
        }
    }
}

/// A value with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The median of the draws.
    pub median: f64,
    /// The 2.5th percentile.
    pub low: f64,
    /// The 97.5th percentile.
    pub high: f64,
}

impl Interval {
    /// Half of its width.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether a value lies in it.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Whether it and a measured interval have nothing in common: such a cell wants an explanation.
    #[must_use]
    pub fn disagrees(&self, measured: Range) -> bool {
        measured.high < self.low || self.high < measured.low
    }

    /// Of values and their weights; `None` when there are none or all weigh nothing.
    #[must_use]
    pub fn of(values: &[f64], weights: &[f64]) -> Option<Self> {
        let mut sorted: Vec<(f64, f64)> = values.iter().copied().zip(weights.iter().copied()).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = sorted.iter().map(|(_, weight)| weight).sum();
        if sorted.is_empty() || all <= 0.0 {
            return None;
        }
        let quantile = |share: f64| {
            let mut below = 0.0;
            let reached = sorted.iter().find(|(_, weight)| {
                below += weight;
                below >= share * all
            });
            reached.or(sorted.last()).map_or(f64::NAN, |(value, _)| *value)
        };
        Some(Interval { median: quantile(0.5), low: quantile(0.025), high: quantile(0.975) })
    }
}

/// One scheme's prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The scheme.
    pub scheme: Scheme,
    /// Nanoseconds for each access.
    pub ns: Interval,
    /// Run time relative to native with the same page size; `None` where no such scheme was requested.
    pub relative: Option<Interval>,
    /// Run time relative to native with each page size that was requested: a program in the microVM may have other pages than its guest.
    pub against: Vec<(Page, Interval)>,
    /// The share of an access's time that walking would take if nothing hid it.
    pub walking_share: Interval,
    /// Walks for each access, the mean over structures.
    pub walks: f64,
    /// References of walks for each access.
    pub walk_references: f64,
    /// Those that went to memory.
    pub walk_references_to_memory: f64,
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// A cell for each scheme, in the order asked.
    pub cells: Vec<Cell>,
    /// The contrast of page sizes: run time native with small pages over native with large ones, where both were requested.
    pub page_contrast: Option<Interval>,
    /// Run time under nested paging over that under shadow paging, of the first scheme of each, where both were requested.
    pub nested_over_shadow: Option<Interval>,
    /// Draws that count after weighing; few mean that the measurements contradict the model.
    pub effective_draws: f64,
    /// Draws in all.
    pub draws: usize,
    /// The windows of which the program is known; `None` of a stream that is whole in itself.
    pub sample: Option<Windows>,
}

/// Why nothing could be predicted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PredictError {
    /// A scheme cannot be simulated.
    #[error("{scheme}: {why}")]
    Setup {
        /// The scheme.
        scheme: String,
        /// Why not.
        why: SetupError,
    },
    /// Nothing was asked.
    #[error("no scheme and no draws: request at least one of each")]
    Nothing,
    /// A measurement is not an interval.
    #[error("the measurement of {0} is not an interval of positive times; give low < high in ns")]
    Measurement(String),
    /// No draw fits what was measured.
    #[error("no drawn processor comes near the measured values; check the machine file and the page size")]
    Contradiction,
}

/// A drawn processor and placement, simulated for every scheme.
#[derive(Clone, Debug)]
pub struct Structure {
    /// The processor.
    pub drawn: Drawn,
    /// Where the program's pages, the tables that map them and the second table lie.
    pub placement: [Placement; 3],
    /// Counts by scheme.
    pub counts: Vec<Counts>,
    /// By scheme the counts of each window, of which those are the sum; one of a stream that is no sample.
    pub windows: Vec<Vec<Counts>>,
    /// Counts of what was measured, in the question's order.
    pub known: Vec<Counts>,
}

/// Predicts.
///
/// # Errors
/// When a scheme does not fit the processor, nothing is asked, or measurements contradict every draw.
pub fn predict(question: &Question<'_>) -> Result<Prediction, PredictError> {
    let bad = |(_, range): &&(Scheme, Range)| !(range.low > 0.0 && range.low < range.high);
    if let Some((scheme, _)) = question.measured.iter().find(bad) {
        return Err(PredictError::Measurement(scheme.to_string()));
    }
    let structures = simulate(question)?;
    let dependence = (question.stream)().dependence();
    let mut random = Random::new(question.effort.seed ^ 0x74);
    let mut draws = Draws::new(question.schemes.len());
    for structure in &structures {
        for _ in 0..question.effort.draws {
            draws.add(question, structure, dependence, &mut random);
        }
    }
    draws.summary(question, &structures)
}

/// Draws structures and simulates every scheme in each.
///
/// # Errors
/// When a scheme does not fit the processor, or nothing is asked.
pub fn simulate(question: &Question<'_>) -> Result<Vec<Structure>, PredictError> {
    if question.schemes.is_empty() || question.effort.structures == 0 || question.effort.draws == 0 {
        return Err(PredictError::Nothing);
    }
    let mut random = Random::new(question.effort.seed);
    (0..question.effort.structures).map(|_| one_structure(question, &mut random)).collect()
}

fn one_structure(question: &Question<'_>, random: &mut Random) -> Result<Structure, PredictError> {
    let drawn = question.machine.draw_busy(random, question.busy);
    let footprint = (question.stream)().footprint() as f64;
    let placement = |random: &mut Random| {
        let span = (footprint * question.priors.span.draw(random)) as u64;
        if random.uniform() < question.priors.scattered { Placement::Scattered { span } } else { Placement::Contiguous }
    };
    let (mut data, mut tables, host_tables) = (placement(random), placement(random), placement(random));
    if let Layout::Touched { memory } = question.layout {
        // What ran before has left its pages at the heads of the free lists. Every 512 small pages bring a table with them.
        let piece = question.priors.piece_bits.draw(random).round() as u32;
        let least = footprint * f64::from(question.busy) * (1.0 + 1.0 / 512.0);
        let span = random.between(least, least.max(memory as f64)) as u64;
        let whole = ((span >> piece) + 1) << piece;
        let shuffled = random.uniform() < question.priors.shuffled;
        data = Placement::Touched { sharers: question.busy, span: if shuffled { whole } else { 0 }, piece };
        tables = data;
    }
    let outer = question.outer.get(random.below(question.outer.len() as u64) as usize).copied();
    let counted = |asked: Scheme, stream: &dyn Fn() -> Box<dyn Stream>, sample: Option<Windows>| {
        let scheme = beneath(asked, outer);
        let setup = Setup { data, tables, host_tables, ..Setup::new(scheme) };
        let counted = count(&drawn, setup, stream, (question.effort.accesses, sample));
        counted.map_err(|why| PredictError::Setup { scheme: asked.to_string(), why })
    };
    let mut windows: Vec<Vec<Counts>> = Vec::new();
    for (at, scheme) in question.schemes.iter().enumerate() {
        // Schemes that walk alike are simulated once.
        let alike = |other: &Scheme| beneath(*other, outer) == beneath(*scheme, outer);
        let before = question.schemes.iter().take(at).position(alike).and_then(|at| windows.get(at).cloned());
        windows.push(before.map_or_else(|| counted(*scheme, question.stream, question.sample), Ok)?);
    }
    let sum = |windows: &Vec<Counts>| windows.iter().fold(Counts::default(), |sum, window| sum + *window);
    let known = question.known.iter().map(|known| counted(known.scheme, &|| known.kernel.stream(), None));
    let known = known.map(|counts| counts.map(|counts| sum(&counts))).collect::<Result<Vec<_>, _>>()?;
    let counts = windows.iter().map(sum).collect();
    Ok(Structure { drawn, placement: [data, tables, host_tables], counts, windows, known })
}

/// What is really walked when the machine is itself virtual: its own hypervisor's table is the second one, and whatever a
/// hypervisor on it adds is merged into the first. A shadow table is walked as a native one of its leaves is.
fn beneath(scheme: Scheme, outer: Option<Page>) -> Scheme {
    let Some(outer) = outer else {
        let shadowed = matches!(scheme, Scheme::Shadow { .. });
        return if shadowed { Scheme::Native { page: scheme.translation() } } else { scheme };
    };
    match scheme {
        Scheme::Native { page } => Scheme::Nested { guest_page: page, host_backing: outer },
        Scheme::Shadow { .. } => Scheme::Nested { guest_page: scheme.translation(), host_backing: outer },
        Scheme::Nested { guest_page, host_backing } => {
            Scheme::Nested { guest_page, host_backing: host_backing.min(outer) }
        }
    }
}

/// Accesses of a window before those that are counted, at most: they fill the TLBs, and the caches of a processor's core.
const SETTLING: usize = 1 << 15;

/// Of each window the accesses before those that are counted, and those: of all windows twice as many as a stream alone has counted, where they have them.
fn parts_of(windows: Windows, accesses: usize) -> (usize, usize) {
    let settling = SETTLING.min(windows.length / 2);
    let most = (windows.length - settling).max(1);
    (settling, (2 * accesses / windows.count.max(1)).clamp(1, most))
}

/// What a stream counts, of a sample of each window.
fn count(
    drawn: &Drawn,
    setup: Setup,
    fresh: &dyn Fn() -> Box<dyn Stream>,
    (accesses, sample): (usize, Option<Windows>),
) -> Result<Vec<Counts>, SetupError> {
    let counted = |setup: Setup| -> Result<(Vec<Counts>, bool), SetupError> {
        let mut simulator = Simulator::new(&drawn.part, setup)?;
        let mut stream = fresh();
        let lines: u32 = drawn.part.caches.iter().map(|cache| cache.entries).sum();
        // A look at a large cache leaves part of it empty: what it misses then, it misses for every scheme.
        let warm = (2 * lines as usize + accesses / 4).min(32 * accesses);
        drive(&mut simulator, stream.as_mut(), warm);
        let Some(windows) = sample else {
            simulator.forget();
            drive(&mut simulator, stream.as_mut(), accesses);
            return Ok((vec![simulator.counts()], simulator.is_fair()));
        };
        let mut stream = fresh();
        let (settling, own) = parts_of(windows, accesses);
        let (mut counts, mut fair) = (Vec::with_capacity(windows.count), 0);
        for _ in 0..windows.count {
            drive(&mut simulator, stream.as_mut(), settling);
            simulator.forget();
            drive(&mut simulator, stream.as_mut(), own);
            stream.skip(windows.length - settling - own);
            counts.push(simulator.counts());
            fair += usize::from(simulator.is_fair());
        }
        Ok((counts, fair == windows.count))
    };
    let thinned = sampled(setup, fresh().as_ref());
    match counted(thinned)? {
        (counts, true) => Ok(counts),
        _ => Ok(counted(Setup { thinning: 0, ..thinned })?.0),
    }
}

/// What makes the spread of weights drawn for so many windows that of Student's t, of the accesses of the program that are not counted, `counted` of each window
/// being so. Weights of n windows have (n - 1)/(n + 1) of the variance of a mean of n.
fn spread_of(sample: Windows, counted: usize) -> f64 {
    /// 97.5 % quantiles of Student's t by degrees of freedom, from 1; of more than 15 that of 15, which is larger than theirs.
    const T: [f64; 15] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131];
    const NORMAL: f64 = 1.960;
    let count = sample.count as f64;
    let t = T.get(sample.count.saturating_sub(2)).copied().unwrap_or(T[T.len() - 1]);
    let share = sample.share * counted as f64 / sample.length as f64;
    t / NORMAL * ((1.0 - share).max(0.0) * (count + 1.0) / (count - 1.0)).sqrt()
}

/// The sample of lines and translations that predictions take of a stream.
#[must_use]
pub fn sampled(setup: Setup, stream: &dyn Stream) -> Setup {
    Setup { thinning: THINNING, repeats: if stream.is_independent() { REPEATS } else { 0 }, ..setup }
}

/// Runs `accesses` of a stream, by blocks.
pub fn drive(simulator: &mut Simulator, stream: &mut dyn Stream, accesses: usize) {
    let mut block = [0; 1024];
    let mut left = accesses;
    while left > 0 {
        let now = left.min(block.len());
        let Some(part) = block.get_mut(..now) else { return };
        stream.fill(part);
        simulator.run(part);
        left -= now;
    }
}

/// Results of all draws, by scheme.
struct Draws {
    ns: Vec<Vec<f64>>,
    share: Vec<Vec<f64>>,
    log_weights: Vec<f64>,
}

impl Draws {
    fn new(schemes: usize) -> Self {
        Draws { ns: vec![Vec::new(); schemes], share: vec![Vec::new(); schemes], log_weights: Vec::new() }
    }

    fn add(&mut self, question: &Question<'_>, structure: &Structure, dependence: Dependence, random: &mut Random) {
        let timing: Timing = question.machine.draw_timing(random);
        let overlap = question.priors.overlap(dependence, random);
        let tax = question.priors.tax.draw(random);
        let work = question.work_ns.draw(random);
        let fault = question.faults * question.priors.fault_ns.draw(random);
        let (per_change, exit) = (question.priors.exits_per_change.draw(random), question.priors.exit_ns.draw(random));
        let exits = (question.faults * per_change + question.switches) * exit;
        // What is known of one access draws nothing.
        let one = Range::exactly(1.0);
        let accesses = if question.accesses == one { 1.0 } else { question.accesses.draw(random).max(1.0) };
        let [work, fault, exits] = [work, fault, exits].map(|unit| unit / accesses);
        // Nothing hides a fault, nor its walk.
        let overlap = if question.faults > 0.0 { Overlap::NONE } else { overlap };
        // One weight for each window, the same for every scheme: Dirichlet's distribution, as exponential variables over their sum.
        let weights: Vec<f64> = match question.sample {
            Some(sample) => (0..sample.count).map(|_| -(1.0 - random.uniform()).ln()).collect(),
            None => Vec::new(),
        };
        let all: f64 = weights.iter().sum();
        let spread =
            question.sample.map_or(0.0, |sample| spread_of(sample, parts_of(sample, question.effort.accesses).1));
        let mut log_weight = 0.0;
        for (measured, counts) in question.known.iter().zip(&structure.known) {
            let dependence = measured.kernel.stream().dependence();
            let overlap = Overlap { dependence, ..overlap };
            let walking = time::walking(counts, &timing, overlap);
            let ns = time::together(time::data(counts, &timing, dependence), walking, overlap);
            log_weight -= distance(ns, measured.ns).powi(2) / 2.0;
        }
        for (index, scheme) in question.schemes.iter().enumerate() {
            let Some(windows) = structure.windows.get(index).filter(|windows| !windows.is_empty()) else { continue };
            let taxed = if matches!(scheme, Scheme::Native { .. }) { 1.0 } else { 1.0 + tax };
            let left = if matches!(scheme, Scheme::Shadow { .. }) { exits } else { 0.0 };
            let of_window = |counts: &Counts| {
                let walking = time::walking(counts, &timing, overlap);
                let data = time::data(counts, &timing, dependence).max(work);
                let ns = (time::together(data, walking, overlap) + fault) * taxed + left;
                (walking, ns)
            };
            let times: Vec<(f64, f64)> = windows.iter().map(of_window).collect();
            let count = times.len() as f64;
            let walking = times.iter().map(|(walking, _)| walking).sum::<f64>() / count;
            let mean = times.iter().map(|(_, ns)| ns).sum::<f64>() / count;
            let weighed = |of: fn(&(f64, f64)) -> f64| {
                times.iter().zip(&weights).map(|(time, weight)| of(time) * weight / all).sum::<f64>()
            };
            // By its logarithm, so that no draw is below nothing. What is nothing in each window stays so.
            let drawn = |mean: f64, of: fn(&(f64, f64)) -> f64| match question.sample {
                Some(_) if mean > 0.0 => mean * (spread * (weighed(of) / mean - 1.0)).exp(),
                _ => mean,
            };
            let ns = drawn(mean, |(_, ns)| *ns);
            // What no window shows, walks for more than all of the time, is not drawn.
            let most = times.iter().map(|(walking, ns)| walking / ns).fold(1.0, f64::max);
            let share = (drawn(walking, |(walking, _)| *walking) / ns).min(most);
            for (_, range) in question.measured.iter().filter(|(measured, _)| measured == scheme) {
                log_weight -= distance(ns, *range).powi(2) / 2.0;
            }
            self.ns[index].push(ns);
            self.share[index].push(share);
        }
        self.log_weights.push(log_weight);
    }

    fn summary(&self, question: &Question<'_>, structures: &[Structure]) -> Result<Prediction, PredictError> {
        let best = self.log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if best < -50.0 {
            return Err(PredictError::Contradiction);
        }
        let weights: Vec<f64> = self.log_weights.iter().map(|weight| (weight - best).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
        let native_page = |(at, scheme): (usize, &Scheme)| match scheme {
            Scheme::Native { page } => Some((*page, at)),
            _ => None,
        };
        let natives: Vec<(Page, usize)> = question.schemes.iter().enumerate().filter_map(native_page).collect();
        let mut cells = Vec::new();
        for (index, scheme) in question.schemes.iter().enumerate() {
            let native = Scheme::Native { page: scheme.application_page() };
            let base = question.schemes.iter().position(|other| *other == native).and_then(|at| self.ns.get(at));
            let ratios =
                |base: &Vec<f64>| -> Vec<f64> { self.ns[index].iter().zip(base).map(|(ns, base)| ns / base).collect() };
            let against = |page: Page, base: &Vec<f64>| Some((page, Interval::of(&ratios(base), &weights)?));
            let mean = |of: &dyn Fn(&Counts) -> u64| {
                let each = structures.iter().filter_map(|one| one.counts.get(index));
                each.map(|counts| counts.per_translation(of(counts))).sum::<f64>() / structures.len() as f64
            };
            cells.push(Cell {
                scheme: *scheme,
                ns: Interval::of(&self.ns[index], &weights).ok_or(PredictError::Nothing)?,
                relative: base.and_then(|base| Interval::of(&ratios(base), &weights)),
                against: natives.iter().filter_map(|(page, at)| against(*page, self.ns.get(*at)?)).collect(),
                walking_share: Interval::of(&self.share[index], &weights).ok_or(PredictError::Nothing)?,
                walks: mean(&|counts| counts.walks),
                walk_references: mean(&Counts::walk_references),
                walk_references_to_memory: mean(&|counts| {
                    counts.table[crate::counts::MEMORY] + counts.nested[crate::counts::MEMORY]
                }),
            });
        }
        let natives = [Page::Small, Page::Large].map(|page| {
            let at = question.schemes.iter().position(|scheme| *scheme == Scheme::Native { page });
            at.and_then(|at| self.ns.get(at))
        });
        let page_contrast = match natives {
            [Some(small), Some(large)] => {
                let contrast: Vec<f64> = small.iter().zip(large).map(|(small, large)| small / large).collect();
                Interval::of(&contrast, &weights)
            }
            _ => None,
        };
        let first = |of: fn(&Scheme) -> bool| question.schemes.iter().position(of).and_then(|at| self.ns.get(at));
        let nested = first(|scheme| matches!(scheme, Scheme::Nested { .. }));
        let nested_over_shadow = nested.zip(first(|scheme| matches!(scheme, Scheme::Shadow { .. })));
        let nested_over_shadow = nested_over_shadow.and_then(|(nested, shadow)| {
            let contrast: Vec<f64> = nested.iter().zip(shadow).map(|(nested, shadow)| nested / shadow).collect();
            Interval::of(&contrast, &weights)
        });
        let effective_draws = sum * sum / squares;
        let (draws, sample) = (weights.len(), question.sample);
        Ok(Prediction { cells, page_contrast, nested_over_shadow, effective_draws, draws, sample })
    }
}

/// How far a time is from what was measured, in standard deviations of the measurement's logarithm.
fn distance(ns: f64, measured: Range) -> f64 {
    let middle = (measured.low * measured.high).sqrt();
    let deviation = (measured.high / measured.low).ln() / (2.0 * 1.96);
    (ns / middle).ln() / deviation
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose trace was kept whole had nothing drawn for it, though one access in sixteen was counted.
    #[test]
    fn what_is_not_counted_of_a_window_is_part_of_the_spread() {
        let of = |count, share| Windows { count, length: 1 << 18, share };
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value} {expected}");
        near(spread_of(of(2, 0.0), 1 << 18), 12.706 / 1.96 * 3_f64.sqrt());
        near(spread_of(of(2, 1.0), 1 << 18), 0.0);
        near(spread_of(of(16, 1.0), 1 << 14), 2.131 / 1.96 * (15.0 / 16.0 * 17.0 / 15.0_f64).sqrt());
        near(spread_of(of(100, 0.5), 1 << 17), 2.131 / 1.96 * (0.75 * 101.0 / 99.0_f64).sqrt());
    }

    /// Two windows were counted for an eighth each, as 16 are.
    #[test]
    fn windows_are_counted_for_twice_the_accesses_of_a_stream_however_few_they_are() {
        let of = |count, length| parts_of(Windows { count, length, share: 0.0 }, 1 << 17);
        assert_eq!(of(16, 1 << 18), (SETTLING, 1 << 14));
        assert_eq!(of(2, 1 << 18), (SETTLING, 1 << 17));
        assert_eq!(of(2, 1 << 13), (1 << 12, 1 << 12), "no more than a window has");
        assert_eq!(of(1 << 20, 1 << 13), (1 << 12, 1));
    }
}
