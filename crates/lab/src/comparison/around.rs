//! What observers saw on both sides of a comparison.
//!
//! A quantity is compared where both sides saw it alike: the place of the work with the place of the work, and this machine
//! alongside sites elsewhere with the same. Runs are the units between runs, trials within one; all quantities together are
//! judged together, and a difference is shown when its interval leaves out 0 and it is more than delta of the larger value.

use super::sides::{Chosen, matched, together, without};
use crate::activity::{CAUSES, own_place};
use crate::analysis::RATE;
use baremark_model::comparison::{Method, ObservedComparison};
use baremark_model::document::RunHead;
use baremark_model::environments;
use baremark_model::observation::ObservedRow;
use baremark_model::plan::Treatment;
use baremark_model::units::Share;
use baremark_model::view;
use baremark_stats::Interval;
use baremark_stats::estimate::mean;
use baremark_stats::interim::rate;
use baremark_stats::runs::{self, Run, Shift};

/// Where something was seen, apart from the environment's name.
#[derive(Clone, Debug, PartialEq)]
enum Seat {
    /// Where the work ran: all of it, or one of several members.
    Own(String),
    /// In addition to it.
    Beside(String),
}

impl Seat {
    fn of(run: &RunHead, row: &ObservedRow) -> Self {
        let environment = environments::of(&row.treatment);
        match row.place.strip_prefix(own_place(environment, run.can(environment))) {
            Some(member) if member.is_empty() || member.starts_with(", ") => Seat::Own(member.to_owned()),
            _ => Seat::Beside(row.place.clone()),
        }
    }
}

/// Every quantity that both sides saw alike.
pub(super) fn observed(base: &Chosen, other: &Chosen, method: Method, delta: Share) -> Vec<ObservedComparison> {
    let mut rows = Vec::new();
    let mut shifts = Vec::new();
    for (of_base, of_other) in matched(base, other) {
        for (quantity, _) in CAUSES {
            for (seat, place) in seats(other, &of_other, quantity) {
                let [here, there] = [(base, &of_base), (other, &of_other)]
                    .map(|(side, treatment)| units(side, treatment, quantity, &seat, method));
                let (Some(below), Some(above)) = (mean_of(&here), mean_of(&there)) else { continue };
                rows.push(ObservedComparison {
                    treatment: without(&of_base, &base.levels),
                    place,
                    quantity: (*quantity).to_owned(),
                    unit: view::find(quantity).map_or("", |view| view.unit).to_owned(),
                    base_units: count(&here, method),
                    other_units: count(&there, method),
                    base_value: below,
                    other_value: above,
                    difference: above - below,
                    lo: None,
                    hi: None,
                    differs: false,
                });
                shifts.push(shift(&here, &there, method));
            }
        }
    }
    // Levels of one run, whose error rate is smaller where it was extended.
    let rate = match (method, base.documents.first()) {
        (Method::Paired, Some(document)) => rate(document.run.extensions.len()),
        _ => RATE,
    };
    for (row, interval) in rows.iter_mut().zip(together(&shifts, rate)) {
        let Some(interval) = interval else { continue };
        (row.lo, row.hi) = (Some(interval.lo), Some(interval.hi));
        let larger = row.base_value.abs().max(row.other_value.abs());
        row.differs = !interval.contains(0.0) && row.difference.abs() > delta.0 * larger;
    }
    rows
}

fn rows_of<'d>(
    side: &'d Chosen,
    treatment: &'d Treatment,
    quantity: &'d str,
) -> impl Iterator<Item = impl Iterator<Item = (Seat, &'d ObservedRow)>> {
    side.documents.iter().map(move |document| {
        let all = document.observed.iter().flat_map(|observed| &observed.rows);
        let own =
            all.filter(move |row| row.treatment == *treatment && row.quantity == quantity && row.instance.is_empty());
        own.map(|row| (Seat::of(&document.run, row), row))
    })
}

/// Where a side saw a quantity, with the place's name there.
fn seats(side: &Chosen, treatment: &Treatment, quantity: &str) -> Vec<(Seat, String)> {
    let mut found: Vec<(Seat, String)> = Vec::new();
    for (seat, row) in rows_of(side, treatment, quantity).flatten() {
        if !found.iter().any(|(_, place)| *place == row.place) {
            found.push((seat, row.place.clone()));
        }
    }
    found
}

/// A side's rows of one quantity: one for each run.
fn units<'d>(
    side: &'d Chosen,
    treatment: &'d Treatment,
    quantity: &'d str,
    seat: &Seat,
    method: Method,
) -> Vec<&'d ObservedRow> {
    let of_run = rows_of(side, treatment, quantity);
    let mut rows: Vec<&ObservedRow> =
        of_run.filter_map(|mut rows| rows.find(|(own, _)| own == seat).map(|(_, row)| row)).collect();
    if method == Method::Paired {
        rows.truncate(1);
    }
    rows
}

fn mean_of(rows: &[&ObservedRow]) -> Option<f64> {
    mean(&rows.iter().map(|row| row.value).collect::<Vec<_>>())
}

/// Runs, or the trials of the one run.
fn count(rows: &[&ObservedRow], method: Method) -> usize {
    match (method, rows) {
        (Method::Paired, [row]) => row.n,
        _ => rows.len(),
    }
}

/// Other less base: over runs, or over the trials of the one run.
fn shift(here: &[&ObservedRow], there: &[&ObservedRow], method: Method) -> Option<Shift> {
    if let (Method::Paired, [below], [above]) = (method, here, there) {
        return runs::of_intervals(&of_trials(below)?, &of_trials(above)?);
    }
    let side = |rows: &[&ObservedRow]| rows.iter().map(|row| Run { centre: row.value, error: 0.0 }).collect::<Vec<_>>();
    runs::compare(&side(here), &side(there))
}

/// The interval of the trials' mean, as wide on both sides as on the wider one: it ends at 0, that of a share at 100 %, and there the value is known no better.
fn of_trials(row: &ObservedRow) -> Option<Interval> {
    let half = (row.hi? - row.value).max(row.value - row.lo?);
    let (lo, hi) = (row.value - half, row.value + half);
    Some(Interval { centre: row.value, lo, hi, confidence: 1.0 - RATE, units: row.n })
}
