//! What happens during a run, for whoever watches: plain lines for a pipe, one live line for a terminal.

use crate::comparison::name;
use crate::live::short;
use crate::number::{count, duration, percent};
use crate::text::{Style, clean, cut};
use baremark_model::codes::Decision;
use baremark_model::document::LookRow;
use baremark_model::event::{Event, TrialStatus};
use baremark_model::loading::Loading;
use baremark_model::plan::Treatment;
use baremark_model::study::Design;
use baremark_model::units::Nanos;

/// Blocks at the end of the confirmation of a width that is met at `blocks`: a third more, two at least.
fn confirmed(blocks: u64) -> u64 {
    blocks + blocks.div_ceil(3).max(2)
}

/// For so long nothing is said of trials whose block is not finished.
const SILENCE: Nanos = Nanos(10_000_000_000);

/// A run as lines of a log: one for each block, and one for whatever else happens.
#[derive(Clone, Debug)]
pub struct Lines {
    per_block: u64,
    block: Option<Block>,
    /// What the trial that is running compares.
    compared: String,
    /// How long the loading of data had taken when it was last told.
    loading: Nanos,
}

/// The trials of a block that have ended, as far as they were not told.
#[derive(Clone, Copy, Debug)]
struct Block {
    number: u64,
    ended: u64,
    stored: u64,
    took: Nanos,
    untold: Nanos,
}

impl Default for Lines {
    fn default() -> Self {
        Lines { per_block: 1, block: None, compared: String::new(), loading: Nanos(0) }
    }
}

impl Lines {
    /// What an event gives to say.
    pub fn heard(&mut self, event: &Event) -> Vec<String> {
        if let Event::Started { trials_per_block, .. } = event {
            self.per_block = (*trials_per_block as u64).max(1);
        }
        let mut lines = Vec::new();
        match event {
            Event::Loading(loading) => lines.extend(self.loaded(loading)),
            Event::TrialStarted { treatments, .. } => {
                self.loading = Nanos(0);
                let names: Vec<String> = treatments.iter().filter_map(|one| name(one, &Treatment::new())).collect();
                self.compared = names.join(" and ");
            }
            Event::Phase { .. } | Event::Warning { .. } => {}
            Event::TrialEnded { block, status, elapsed_ns, .. } => {
                if self.block.is_some_and(|open| open.number != *block) {
                    lines.extend(self.end_of_block());
                }
                lines.extend(setback(*block, &std::mem::take(&mut self.compared), status));
                lines.extend(self.ended(*block, *status == TrialStatus::Ok, *elapsed_ns));
                return lines;
            }
            Event::Started { .. } | Event::Looked(_) | Event::Examining { .. } | Event::Stopped { .. } => {
                lines.extend(self.end_of_block());
            }
        }
        lines.extend(line(event));
        lines
    }

    /// A trial has ended, and is stored by now if it counts: whoever kills the run after its line does not lose it.
    fn ended(&mut self, number: u64, stored: bool, elapsed_ns: u64) -> Option<String> {
        let new = Block { number, ended: 0, stored: 0, took: Nanos(0), untold: Nanos(0) };
        let block = self.block.get_or_insert(new);
        block.ended += 1;
        block.stored += u64::from(stored);
        block.took.0 = block.took.0.saturating_add(elapsed_ns);
        block.untold.0 = block.untold.0.saturating_add(elapsed_ns);
        if block.ended >= self.per_block {
            return self.end_of_block();
        }
        let long = block.untold >= SILENCE;
        if long {
            block.untold = Nanos(0);
        }
        (long && block.stored > 0).then(|| block.so_far(self.per_block))
    }

    /// Data is being loaded: told in the same measure as trials, and at its end.
    fn loaded(&mut self, loading: &Loading) -> Option<String> {
        let silent = loading.elapsed_ns.saturating_sub(self.loading.0);
        if silent < SILENCE.0 && !loading.is_complete() {
            return None;
        }
        // Another arm of the trial may load its own data after this.
        self.loading = Nanos(if loading.is_complete() { 0 } else { loading.elapsed_ns });
        Some(rows(loading))
    }

    fn end_of_block(&mut self) -> Option<String> {
        let block = self.block.take().filter(|block| block.stored > 0)?;
        if block.ended < self.per_block {
            return Some(block.so_far(self.per_block));
        }
        let trials = if self.per_block > 1 { format!(": {}", count(block.stored, "trial")) } else { String::new() };
        Some(format!("block {} is stored{trials}, {}", block.number + 1, duration(block.took.0)))
    }
}

impl Block {
    fn so_far(&self, per_block: u64) -> String {
        let are = if self.stored == 1 { "is" } else { "are" };
        let (stored, took) = (self.stored, duration(self.took.0));
        format!("block {}: {stored} of {} {are} stored, {took}", self.number + 1, count(per_block, "trial"))
    }
}

/// "loading data: 123K of 471K rows, 52.1K rows/s"
#[expect(clippy::cast_precision_loss, reason = "three digits of a number of rows")]
fn rows(loading: &Loading) -> String {
    let Loading { rows, of, elapsed_ns } = *loading;
    let rate = loading.rows_per_s().map(|rate| format!(", {} rows/s", short(rate))).unwrap_or_default();
    match loading.is_complete() {
        true => format!("loaded {} rows in {}{rate}", short(rows as f64), duration(elapsed_ns)),
        false => format!("loading data: {} of {} rows{rate}", short(rows as f64), short(of as f64)),
    }
}

/// A trial that does not count, as a line of a log: "block 2, native and container: the trial failed: ...".
fn setback(block: u64, compared: &str, status: &TrialStatus) -> Option<String> {
    let compared = if compared.is_empty() { String::new() } else { format!(", {compared}") };
    let place = format!("block {}{compared}: the trial", block + 1);
    match status {
        TrialStatus::Ok => None,
        TrialStatus::Void { reasons } => Some(format!("{place} is invalid: {}", clean(&reasons.join("; ")))),
        TrialStatus::Failed { reason } => Some(format!("{place} failed: {}", clean(reason))),
    }
}

/// One event as a line of a log; `None` for what happens too often to be reported, and for trials, which [`Lines`] reports.
#[must_use]
pub fn line(event: &Event) -> Option<String> {
    match event {
        Event::Started { run, title, trials_per_block, blocks_done, .. } => {
            let trials = count(*trials_per_block as u64, "trial");
            let before = match blocks_done {
                0 => String::new(),
                n => format!(", {} done before", count(*n, "block")),
            };
            Some(format!("run {}: {} ({trials} in each block{before})", clean(run), clean(title)))
        }
        Event::TrialStarted { .. } | Event::Phase { .. } | Event::Loading(_) | Event::TrialEnded { .. } => None,
        Event::Looked(look) => {
            let width = look.half_width.map(|width| format!(", half-width ±{}", percent(width))).unwrap_or_default();
            Some(format!("after {}{width}: {}", count(look.blocks, "block"), clean(&look.decision)))
        }
        Event::Examining { treatments, most_ns } => {
            let names: Vec<String> = treatments.iter().filter_map(|one| name(one, &Treatment::new())).collect();
            Some(format!("examining the difference of {}, for about {}", names.join(" and "), duration(*most_ns)))
        }
        Event::Warning { text } => Some(format!("warning: {}", clean(text))),
        Event::Stopped { reason, blocks, elapsed_ns } => {
            Some(format!("stopped after {}, {}: {}", count(*blocks, "block"), duration(*elapsed_ns), clean(reason)))
        }
    }
}

/// The state of a run as its events have told it.
#[derive(Clone, Debug)]
pub struct Progress {
    design: Design,
    per_block: u64,
    before: u64,
    /// What earlier processes have spent of the budget.
    before_ns: u64,
    ended: u64,
    spent_ns: u64,
    phase: Option<(usize, usize)>,
    loading: Option<Loading>,
    half_width: Option<(u64, f64)>,
    confirming: bool,
}

impl Progress {
    /// Nothing has happened yet in a run of this design.
    #[must_use]
    pub fn new(design: &Design) -> Self {
        Progress {
            design: design.clone(),
            per_block: 1,
            before: 0,
            before_ns: 0,
            ended: 0,
            spent_ns: 0,
            phase: None,
            loading: None,
            half_width: None,
            confirming: false,
        }
    }

    /// Takes note of an event.
    pub fn heard(&mut self, event: &Event) {
        self.loading = match event {
            Event::Loading(loading) => Some(*loading),
            Event::Warning { .. } => self.loading,
            _ => None,
        };
        match event {
            Event::Started { trials_per_block, blocks_done, spent_ns, look, .. } => {
                self.per_block = (*trials_per_block as u64).max(1);
                (self.before, self.before_ns) = (*blocks_done, *spent_ns);
                look.iter().for_each(|look| self.looked(look));
            }
            Event::TrialStarted { .. } => self.phase = None,
            Event::Phase { position, of } => self.phase = Some((position + 1, *of)),
            Event::TrialEnded { elapsed_ns, .. } => {
                self.phase = None;
                self.ended += 1;
                self.spent_ns = self.spent_ns.saturating_add(*elapsed_ns);
            }
            Event::Looked(look) => self.looked(look),
            Event::Loading(_) | Event::Examining { .. } | Event::Warning { .. } | Event::Stopped { .. } => {}
        }
    }

    fn looked(&mut self, look: &LookRow) {
        self.half_width = look.half_width.map(|width| (look.blocks, width));
        self.confirming = look.step == Some(Decision::Confirm);
    }

    /// What of the budget is left to this process.
    fn budget_ns(&self) -> u64 {
        self.design.budget.0.saturating_sub(self.before_ns)
    }

    /// Blocks that are finished, those of earlier processes included.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.before + self.ended / self.per_block
    }

    /// About how long the run still takes: what the precision needs by the last analysis's width, and never beyond budget
    /// or the most blocks. `None` before the first trial has ended.
    #[must_use]
    pub fn to_go(&self, elapsed: Nanos) -> Option<Nanos> {
        let per_trial = self.spent_ns.checked_div(self.ended)?;
        let done = self.before.saturating_mul(self.per_block).saturating_add(self.ended);
        let trials = self.blocks_needed().saturating_mul(self.per_block).saturating_sub(done);
        let budget = self.budget_ns().saturating_sub(elapsed.0);
        Some(Nanos(per_trial.saturating_mul(trials).min(budget)))
    }

    /// Blocks that the run will probably have: the half-width shrinks with the square root of their number.
    fn blocks_needed(&self) -> u64 {
        let design = &self.design;
        let needed = match self.half_width {
            None => confirmed(design.least_blocks),
            Some((at, _)) if self.confirming => confirmed(at),
            Some((at, width)) => confirmed(scaled(at, (width / design.precision.0).powi(2)).max(at)),
        };
        needed.clamp(design.least_blocks, design.most_blocks.max(design.least_blocks))
    }

    /// The live line for a terminal, cut to its width, without a newline.
    #[must_use]
    pub fn status(&self, elapsed: Nanos, style: &Style) -> String {
        let bar = self.bar(style);
        if let Some(loading) = &self.loading {
            let line = format!("{bar} {} · {}", rows(loading), duration(elapsed.0));
            return cut(&style.plain(&line), style.width.saturating_sub(1));
        }
        let trial = self.ended % self.per_block + 1;
        let phase = self.phase.map(|(at, of)| format!(", phase {at} of {of}")).unwrap_or_default();
        let width = self
            .half_width
            .map(|(_, width)| format!(" · ±{} of ±{} requested", percent(width), percent(self.design.precision.0)));
        let to_go = match self.to_go(elapsed) {
            Some(Nanos(0)) => "about to end".to_owned(),
            Some(left) => format!("about {} to go", duration(left.0)),
            None => format!("at most {}", duration(self.budget_ns())),
        };
        let line = format!(
            "{bar} {to_go} · block {}, trial {trial} of {}{phase}{} · {}",
            self.blocks() + 1,
            self.per_block,
            width.unwrap_or_default(),
            duration(elapsed.0),
        );
        cut(&style.plain(&line), style.width.saturating_sub(1))
    }

    fn bar(&self, style: &Style) -> String {
        const CELLS: u64 = 12;
        let wanted = self.blocks_needed().saturating_mul(self.per_block).max(1);
        let done = self.before.saturating_mul(self.per_block).saturating_add(self.ended).min(wanted);
        let filled = done * CELLS / wanted;
        let (full, empty) = if style.unicode { ("━", "─") } else { ("#", "-") };
        (0..CELLS).map(|cell| if cell < filled { full } else { empty }).collect()
    }
}

/// `count * factor`, rounded up; a wild factor gives the most there is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded to 0..=1e9 first")]
#[expect(clippy::cast_precision_loss, reason = "counts of blocks are small")]
fn scaled(count: u64, factor: f64) -> u64 {
    (count as f64 * factor).ceil().clamp(0.0, 1e9) as u64
}
