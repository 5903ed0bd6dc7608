//! Which arms are compared, which of them share a trial, and whether the memory of each trial suffices.

use super::compared::{Contrast, Pair, PlannedArm, Treatment};
use super::contrasts::{contrast, frame_contrasts, page_contrasts, self_pairs};
use super::{Cell, Resolver};
use crate::arm::ExecutorKind;
use crate::environments;
use crate::tables;
use crate::units::Bytes;

impl Resolver<'_> {
    /// The ratios that are requested and the trials that give them: arms that can take turns share a trial, every other arm has one of
    /// its own.
    pub(super) fn compare(&mut self, arms: &[PlannedArm]) -> (Vec<Pair>, Vec<Cell>) {
        let mut pairs = if self.mode.self_check { self_pairs(arms) } else { self.pairs(arms) };
        if !self.mode.self_check && !pairs.is_empty() {
            let contrasts = frame_contrasts(arms, &pairs);
            pairs.extend(contrasts);
        }
        let interleaved = |index: &usize| pairs[*index].interleaved;
        let mut cells: Vec<Cell> = (0..pairs.len()).filter(interleaved).map(Cell::Pair).collect();
        let has_trial = |arm: usize| {
            let mut of_arm = pairs.iter().filter(|pair| pair.numerator == arm || pair.denominator == arm);
            of_arm.clone().next().is_some() && of_arm.all(|pair| pair.interleaved)
        };
        cells.extend((0..arms.len()).filter(|&arm| !has_trial(arm)).map(Cell::Single));
        if !self.mode.self_check && !pairs.is_empty() {
            let contrasts = page_contrasts(arms, &pairs);
            pairs.extend(contrasts);
        }
        (pairs, cells)
    }

    fn pairs(&mut self, arms: &[PlannedArm]) -> Vec<Pair> {
        let wanted: Treatment =
            self.study.layout.ratio_to.iter().map(|(key, value)| (key.clone(), value.to_string())).collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        let is_base = |arm: &PlannedArm| wanted.iter().all(|(key, label)| arm.treatment.get(key) == Some(label));
        let is_absent = self.absent.iter().any(|a| wanted.iter().all(|(k, label)| a.treatment.get(k) == Some(label)));
        // Where arms are missing because of their own mistakes, nothing is known of the others.
        if !arms.iter().any(is_base) && !is_absent && self.problems.is_empty() {
            let named: Vec<String> = wanted.iter().map(|(key, label)| format!("{key} = {label}")).collect();
            let what = format!("ratio_to matches no treatment of this study with {}", named.join(" and "));
            let remedy = format!(
                "leave out what does not apply there; native has no {}",
                tables::MACHINE_FACTORS.join(" and no ")
            );
            self.report(self.study.line("report.ratio_to"), what, remedy);
        }
        let mut pairs = Vec::new();
        for (numerator, arm) in arms.iter().enumerate() {
            if is_base(arm) || arm.arm.executor == ExecutorKind::Null {
                continue;
            }
            let agrees = |base: &PlannedArm| {
                base.treatment.iter().all(|(key, label)| {
                    wanted.contains_key(key) || arm.treatment.get(key).is_none_or(|mine| mine == label)
                })
            };
            // Of several, that whose memory lies alike: else the ratio would be one of frames, too.
            let bases = || (0..arms.len()).filter(|&base| is_base(&arms[base]) && agrees(&arms[base]));
            let found = bases().find(|&base| arms[base].arm.lies() == arm.arm.lies()).or_else(|| bases().next());
            if let Some(denominator) = found {
                let contrast = contrast(arm, &arms[denominator]);
                // A feature of the host is set for a whole trial.
                let host = |arm: &PlannedArm| -> Vec<(String, String)> {
                    let levels = tables::host_levels(&arm.treatment);
                    levels.map(|(key, level)| (key.to_owned(), level.to_owned())).collect()
                };
                let together = host(arm) == host(&arms[denominator]);
                let below = &arms[denominator];
                let here = arm.on_this_machine() && below.on_this_machine();
                let apart = arm.site() != below.site();
                let interleaved = together && (here || apart && self.alternate(arm, below));
                pairs.push(Pair { numerator, denominator, contrast, interleaved, asked: true });
            }
        }
        pairs
    }

    /// Whether two arms take turns phase by phase though they share no process: both stay where they are, and nothing of the work runs at the
    /// side that waits. Arms that do not fit into memory at the same time do not, nor does an emulated one, whose phases of the same work last much longer.
    fn alternate(&self, above: &PlannedArm, below: &PlannedArm) -> bool {
        let both = [above, below];
        let [descriptor, other] = both.map(|arm| self.workload_of(arm));
        let alone = |arm: &PlannedArm| arm.arm.parts == 1 && arm.arm.executor != ExecutorKind::Null;
        let bytes = |arm: &PlannedArm| descriptor.footprint.and_then(|of| (of.bytes)(&arm.arm)).unwrap_or(0);
        let together = bytes(above).saturating_add(bytes(below));
        both.iter().all(|arm| (descriptor.alternates)(&arm.arm))
            && descriptor.kind == other.kind
            && both.into_iter().all(alone)
            && !both.iter().any(|arm| arm.emulated)
            && together <= self.limits.memory_available.0
    }

    /// The pairs of one environment whose arms have a site each: of a place on this machine's processors that shares no process with others, as its ratios are measured.
    /// Two jobs of a cluster may wait for each other's end.
    pub(super) fn apart(&self, arms: &[PlannedArm], pairs: &[Pair]) -> Vec<usize> {
        let here = |arm: &PlannedArm| environments::can(arm.place()).on_these_processors();
        let has_two = |pair: &Pair| {
            let arm = &arms[pair.numerator];
            pair.contrast == Contrast::SelfCheck && !arm.on_this_machine() && here(arm) && self.alternate(arm, arm)
        };
        (0..pairs.len()).filter(|&pair| has_two(&pairs[pair])).collect()
    }

    /// Arms that do not fit into memory, in order, and why: where the study varies the size, the one that would take turns with another; where the size is the
    /// machine's own, all of a workload without which the study goes on.
    pub(super) fn too_large_together(
        &self,
        arms: &[PlannedArm],
        pairs: &[Pair],
        cells: &[Cell],
    ) -> Option<(Vec<usize>, String)> {
        let varied = |key: &str| self.study.factors.iter().any(|factor| factor.key == key);
        let kind = |arm: usize| self.workload_of(&arms[arm]).kind;
        cells.iter().find_map(|&cell| {
            let (key, what) = self.lacks_memory_together(arms, pairs, cell)?;
            let (own, in_turns) = match cell {
                Cell::Pair(pair) => (kind(pairs[pair].denominator), Some(pairs[pair].numerator)),
                Cell::Single(arm) => (kind(arm), None),
            };
            if let Some(arm) = in_turns.filter(|_| varied(key)) {
                return Some((vec![arm], what));
            }
            let all: Vec<usize> = (0..arms.len()).filter(|&arm| kind(arm) == own).collect();
            (self.goes_on_without(own, key) && all.len() < arms.len()).then_some((all, what))
        })
    }

    /// Refuses a study whose largest trial would not fit into memory.
    pub(super) fn check_memory(&mut self, arms: &[PlannedArm], pairs: &[Pair], cells: &[Cell]) {
        let mut problems = Vec::new();
        for &cell in cells {
            let Some((key, what)) = self.lacks_memory_together(arms, pairs, cell) else { continue };
            let arm = match cell {
                Cell::Pair(pair) => pairs[pair].denominator,
                Cell::Single(arm) => arm,
            };
            let line = self.line_of_parameter(self.workload_of(&arms[arm]).kind, key);
            problems.push((line, what, format!("write a smaller {key}")));
        }
        problems.into_iter().for_each(|(line, what, remedy)| self.report(line, what, remedy));
    }

    /// The parameter that decides the size of a trial that does not fit into memory, and what it needs: each arm of a trial has a buffer of its own.
    fn lacks_memory_together(&self, arms: &[PlannedArm], pairs: &[Pair], cell: Cell) -> Option<(&'static str, String)> {
        let size = |arm: usize| {
            let footprint = self.workload_of(&arms[arm]).footprint_of_each_arm()?;
            Some((footprint.key, (footprint.bytes)(&arms[arm].arm)?))
        };
        let (key, need) = match cell {
            Cell::Single(arm) => size(arm)?,
            Cell::Pair(pair) => {
                let (key, below) = size(pairs[pair].denominator)?;
                (key, below.saturating_add(size(pairs[pair].numerator)?.1))
            }
        };
        let available = self.limits.memory_available;
        let what = || format!("{key} needs {} of memory in one trial, and {available:.1} are available", Bytes(need));
        (need > available.0).then(|| (key, what()))
    }
}
