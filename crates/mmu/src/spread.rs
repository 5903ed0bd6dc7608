//! Which of the unknown parameters make a prediction wide.
//!
//! The measure is the *correlation ratio* (Pearson 1905; in sensitivity analysis the first-order index of Sobol' 1993): the
//! variance, over a parameter's values, of the prediction's conditional mean, as a share of its whole variance. Parameters of few values
//! are grouped by value, others by tenths of their draws. What no parameter explains alone is interaction of several.
//! A grouping into k groups of n draws explains about k / n of pure noise; that much is subtracted.

use crate::predict::Structure;
use crate::sets::{Geometry, Replacement};
use crate::tables::Placement;

/// Groups of a parameter of many values.
const GROUPS: usize = 10;

/// A parameter as drawn, by name.
pub type Parameter = (&'static str, f64);

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
        ("where the program's pages lie", data),
        ("where its tables lie", tables),
        ("where the second table lies", host_tables),
        ("replacement in L1", policy(0)),
        ("replacement in L2", policy(1)),
        ("replacement in L3", policy(2)),
    ]
}

/// What each parameter explains of `values`, the most first. `parameters` are by draw, each draw with the same names in
/// the same order. Empty below 100 draws, where nothing can be told.
#[must_use]
pub fn explain(values: &[f64], parameters: &[Vec<Parameter>]) -> Vec<Part> {
    let Some(first) = parameters.first().filter(|_| values.len() >= 100 && values.len() == parameters.len()) else {
        return Vec::new();
    };
    let column = |at: usize| parameters.iter().map(move |draw| draw.get(at).map_or(f64::NAN, |(_, value)| *value));
    let mut parts: Vec<Part> = first
        .iter()
        .enumerate()
        .map(|(at, (name, _))| {
            let groups = grouped(values, &column(at).collect::<Vec<_>>());
            let (share, half_width_left) = explained(values, &groups);
            Part { name, share, half_width_left }
        })
        .collect();
    parts.sort_by(|a, b| b.share.total_cmp(&a.share));
    parts
}

/// The values by groups of a parameter.
fn grouped(values: &[f64], parameter: &[f64]) -> Vec<Vec<f64>> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| parameter[*a].total_cmp(&parameter[*b]));
    let mut distinct: Vec<f64> = order.iter().map(|at| parameter[*at]).collect();
    distinct.dedup();
    let take = |at: &usize| values[*at];
    if distinct.len() <= GROUPS {
        let of = |value: &f64| order.iter().filter(|at| parameter[**at] == *value).map(take).collect();
        return distinct.iter().map(of).collect();
    }
    order.chunks(order.len().div_ceil(GROUPS)).map(|chunk| chunk.iter().map(take).collect()).collect()
}

fn explained(values: &[f64], groups: &[Vec<f64>]) -> (f64, f64) {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let all = mean(values);
    let whole: f64 = values.iter().map(|value| (value - all).powi(2)).sum();
    let between: f64 = groups.iter().map(|group| group.len() as f64 * (mean(group) - all).powi(2)).sum();
    let noise = (groups.len() - 1) as f64 / values.len() as f64;
    let share = if whole > 0.0 { (between / whole - noise).clamp(0.0, 1.0) } else { 0.0 };
    let halves = groups.iter().map(|group| group.len() as f64 * half_width(group));
    (share, halves.sum::<f64>() / values.len() as f64)
}

fn half_width(values: &[f64]) -> f64 {
    let weights = vec![1.0; values.len()];
    crate::predict::Interval::of(values, &weights).map_or(f64::NAN, |interval| interval.half_width())
}
