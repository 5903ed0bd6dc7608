//! Which arms are compared in addition to what a study asks for, and what the difference between two arms is.

use super::compared::{Contrast, Pair, PlannedArm};
use crate::arm::{ExecutorKind, Frames};
use crate::environments;
use crate::page_size::PageSize;

/// Every arm against itself; an arm that runs nothing has nothing to be compared.
pub(super) fn self_pairs(arms: &[PlannedArm]) -> Vec<Pair> {
    let runs = |arm: &usize| arms[*arm].arm.executor != ExecutorKind::Null;
    let pair =
        |arm| Pair { numerator: arm, denominator: arm, contrast: Contrast::SelfCheck, interleaved: true, asked: true };
    (0..arms.len()).filter(runs).map(pair).collect()
}

/// Large pages against small ones wherever both are measured and nothing else differs: what large pages alone would give.
pub(super) fn page_contrasts(arms: &[PlannedArm], asked: &[Pair]) -> Vec<Pair> {
    let mut found = Vec::new();
    for (numerator, large) in arms.iter().enumerate() {
        let mut small = large.treatment.clone();
        let is_large = small.insert("page".to_owned(), PageSize::Small.to_string()).as_deref() == Some("2m");
        let denominator = arms.iter().position(|arm| arm.treatment == small);
        let Some(denominator) = denominator.filter(|_| is_large && large.arm.executor != ExecutorKind::Null) else {
            continue;
        };
        if !asked.iter().any(|pair| pair.numerator == numerator && pair.denominator == denominator) {
            let contrast = Contrast::PageSize;
            found.push(Pair { numerator, denominator, contrast, interleaved: false, asked: false });
        }
    }
    found
}

/// Native memory whose frames lie as a study has them against such as the kernel gives: what frames alone give. Both take turns in a trial, for frames
/// that the kernel gives depend on what ran before.
pub(super) fn frame_contrasts(arms: &[PlannedArm], asked: &[Pair]) -> Vec<Pair> {
    let mut found = Vec::new();
    for (numerator, arm) in arms.iter().enumerate() {
        let mut usual = arm.treatment.clone();
        let varied = usual.insert("page_frames".to_owned(), Frames::AsGiven.to_string());
        let denominator = arms.iter().position(|other| other.treatment == usual);
        let Some(denominator) = denominator.filter(|&base| varied.is_some() && base != numerator) else { continue };
        let is_asked = asked.iter().any(|pair| pair.numerator == numerator && pair.denominator == denominator);
        if arm.environment == environments::NATIVE && !is_asked {
            let contrast = Contrast::Frames;
            found.push(Pair { numerator, denominator, contrast, interleaved: true, asked: false });
        }
    }
    found
}

/// Why native memory whose frames lie otherwise is not measured where nothing is compared with it.
pub(super) const REFERENCE_OF_NONE: &str = "no virtual machine of this study can be measured here whose memory lies so";

/// A native arm whose frames lie otherwise than the kernel gives them, in a study of environments where none is compared with it.
pub(super) fn reference_of_none(arms: &[PlannedArm], pairs: &[Pair]) -> Option<usize> {
    if !pairs.iter().any(|pair| pair.asked && pair.contrast == Contrast::Environment) {
        return None;
    }
    let compared =
        |arm: usize| pairs.iter().any(|pair| pair.asked && [pair.numerator, pair.denominator].contains(&arm));
    (0..arms.len()).find(|&arm| {
        let level = arms[arm].treatment.get("page_frames");
        level.is_some_and(|level| *level != Frames::AsGiven.to_string()) && !compared(arm)
    })
}

pub(super) fn contrast(above: &PlannedArm, below: &PlannedArm) -> Contrast {
    let same_work = above
        .treatment
        .iter()
        .all(|(key, label)| key == environments::FACTOR || below.treatment.get(key).is_none_or(|other| other == label));
    if above.arm.page != below.arm.page {
        Contrast::PageSize
    } else if above.environment != below.environment && same_work {
        Contrast::Environment
    } else {
        Contrast::Factor
    }
}
