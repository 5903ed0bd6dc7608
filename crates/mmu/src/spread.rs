//! Which of the unknown parameters make a prediction wide.
//!
//! The measure is the *correlation ratio* (Pearson 1905; in sensitivity analysis the first-order index of Sobol' 1993): the
//! variance, over a parameter's values, of the prediction's conditional mean, as a share of its whole variance. Parameters of few values
//! are grouped by value, others by tenths of their draws. What no parameter explains alone is interaction of several.
//! A grouping into k groups explains (k - 1) / n of pure noise, where n is how many values the parameter was drawn: once for each
//! structure, or once for each draw. That much is subtracted.

use crate::predict::Structure;
use crate::sets::{Geometry, Replacement};
use crate::tables::Placement;

/// Groups of a parameter of many values.
const GROUPS: usize = 10;

/// A parameter as drawn, by name.
pub type Parameter = (&'static str, f64);

/// One draw: which structure it belongs to, that structure's parameters, and those of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draw {
    /// The number of its structure.
    pub structure: usize,
    /// What was drawn with the structure, by name.
    pub of_structure: Vec<Parameter>,
    /// What was drawn alongside it, by name.
    pub own: Vec<Parameter>,
}

/// The name under which everything that is drawn with a structure is told together.
pub const STRUCTURE: &str = "all of the above that is drawn with the processor and its memory";

/// What one parameter explains.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The parameter.
    pub name: &'static str,
    /// The share of variance that it explains alone, from 0 to 1.
    pub share: f64,
    /// Half of the 95 % interval that would be left on average if it were known.
    pub half_width_left: f64,
}

/// The parameters of a structure that a walk depends on, as numbers: entries, or 0 and 1 for one of two alternatives.
#[must_use]
pub fn of_structure(structure: &Structure) -> Vec<Parameter> {
    let part = &structure.drawn.part;
    let entries = |geometry: Option<Geometry>| geometry.map_or(0.0, |geometry| f64::from(geometry.entries));
    let scattered = |placement: Placement| match placement {
        Placement::Contiguous => 0.0,
        Placement::Scattered { span } | Placement::Touched { span, .. } => span as f64,
    };
    let policy = |at: usize| {
        part.caches.get(at).map_or(0.0, |cache| match cache.replacement {
            Replacement::Lru => 0.0,
            Replacement::Plru => 1.0,
            Replacement::Random => 2.0,
        })
    };
    let [data, tables, host_tables] = structure.placement.map(scattered);
    vec![
        ("PDE cache", entries(part.walk_caches[2])),
        ("PDPTE cache", entries(part.walk_caches[3])),
        ("PML4E cache", entries(part.walk_caches[4])),
        ("nested PDE cache", entries(part.nested_walk_caches[2])),
        ("nested PDPTE cache", entries(part.nested_walk_caches[3])),
        ("nested PML4E cache", entries(part.nested_walk_caches[4])),
        ("nested TLB", entries(part.nested_tlb)),
        ("over how much memory its pages lie in no order", data),
        ("the same of its tables", tables),
        ("the same of the second table", host_tables),
        ("replacement in L1", policy(0)),
        ("replacement in L2", policy(1)),
        ("replacement in L3", policy(2)),
    ]
}

/// What each parameter explains of `values`, the most first, and as the last one everything that belongs to a structure.
/// Every draw has the same names in the same order. Empty below 100 draws, where nothing can be told.
#[must_use]
pub fn explain(values: &[f64], draws: &[Draw]) -> Vec<Part> {
    let Some(first) = draws.first().filter(|_| values.len() >= 100 && values.len() == draws.len()) else {
        return Vec::new();
    };
    let identity: Vec<f64> = draws.iter().map(|draw| draw.structure as f64).collect();
    let structures = by_value(values, &identity);
    let all = explained(values, &structures, values.len());
    let mut parts = Vec::new();
    for (at, (name, _)) in first.of_structure.iter().enumerate() {
        let column: Vec<f64> = draws.iter().filter_map(|draw| Some(draw.of_structure.get(at)?.1)).collect();
        let (share, half_width_left) = explained(values, &grouped(values, &column), structures.len());
        parts.push(Part { name, share, half_width_left });
    }
    for (at, (name, _)) in first.own.iter().enumerate() {
        let column: Vec<f64> = draws.iter().filter_map(|draw| Some(draw.own.get(at)?.1)).collect();
        let (share, half_width_left) = explained(values, &grouped(values, &column), values.len());
        parts.push(Part { name, share, half_width_left });
    }
    parts.sort_by(|a, b| b.share.total_cmp(&a.share));
    parts.push(Part { name: STRUCTURE, share: all.0, half_width_left: all.1 });
    parts
}

/// The values by groups of a parameter.
fn grouped(values: &[f64], parameter: &[f64]) -> Vec<Vec<f64>> {
    let mut distinct = parameter.to_vec();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    if distinct.len() <= GROUPS {
        return by_value(values, parameter);
    }
    let order = ordered(parameter);
    let take = |at: &usize| values[*at];
    order.chunks(order.len().div_ceil(GROUPS)).map(|chunk| chunk.iter().map(take).collect()).collect()
}

fn by_value(values: &[f64], parameter: &[f64]) -> Vec<Vec<f64>> {
    let order = ordered(parameter);
    order
        .chunk_by(|a, b| parameter[*a] == parameter[*b])
        .map(|chunk| chunk.iter().map(|at| values[*at]).collect())
        .collect()
}

fn ordered(parameter: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..parameter.len()).collect();
    order.sort_by(|a, b| parameter[*a].total_cmp(&parameter[*b]));
    order
}

/// The share of variance between groups, less the noise of `drawn` values, and half of what is left of the interval.
fn explained(values: &[f64], groups: &[Vec<f64>], drawn: usize) -> (f64, f64) {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let all = mean(values);
    let whole: f64 = values.iter().map(|value| (value - all).powi(2)).sum();
    let between: f64 = groups.iter().map(|group| group.len() as f64 * (mean(group) - all).powi(2)).sum();
    let noise = (groups.len() - 1) as f64 / drawn as f64;
    let share = if whole > 0.0 { (between / whole - noise).clamp(0.0, 1.0) } else { 0.0 };
    let halves = groups.iter().map(|group| group.len() as f64 * half_width(group));
    (share, halves.sum::<f64>() / values.len() as f64)
}

fn half_width(values: &[f64]) -> f64 {
    let weights = vec![1.0; values.len()];
    crate::predict::Interval::of(values, &weights).map_or(f64::NAN, |interval| interval.half_width())
}
