//! System activity, as tables: a short one for every report, and all of it by kind.
//!
//! A column is a treatment at a place; a row is one quantity. What was not observed is blank, never 0, and says below why.

use crate::grid::{Cell, Grid, GridRow};
use crate::number::{self, count, percent};
use crate::text::clean;
use crate::treatment::Factors;
use baremark_model::distinct::grouped;
use baremark_model::document::Document;
use baremark_model::environments;
use baremark_model::observation::{Observed, ObservedCost, ObservedRow, THIS_MACHINE};
use baremark_model::plan::Treatment;
use baremark_model::view;
use std::collections::BTreeMap;

/// Columns that a short table has.
const MOST_SHORT: usize = 4;
/// Rows of one table; a machine can have thousands of interrupt sources.
const MOST_ROWS: usize = 200;

/// Kinds of quantities, by what precedes the dot in their key, with the heads of their tables.
const KINDS: &[(&str, &str)] = &[
    ("cpu", "Processors"),
    ("phases", "CPU time taken in timed phases"),
    ("lost", "Stalls"),
    ("kernel", "Scheduler and interrupts"),
    ("interrupts", "Interrupts by source"),
    ("softirqs", "Soft interrupts by kind"),
    ("tlb", "TLB shootdowns"),
    ("disk", "Disks"),
    ("io", "Single I/Os"),
    ("net", "Network"),
    ("packet", "Single packets"),
    ("sockets", "Connections"),
    ("memory", "Memory"),
    ("vm", "Faults and paging"),
    ("numa", "NUMA"),
    ("pressure", "Pressure"),
    ("counters", "Hardware counters"),
    ("kvm", "KVM"),
    ("esxtop", "esxtop"),
];

/// A treatment at a place.
type Column<'o> = (&'o Treatment, &'o str);

/// The few quantities of which every report tells; `None` where nothing was observed. Where there are many columns, all arms
/// are told of together: the others are in the full tables.
pub(crate) fn short(document: &Document) -> Option<Grid> {
    let observed = document.observed.as_ref()?;
    let told = |row: &&ObservedRow| view::find(&row.quantity).is_some_and(|view| view.short) && row.instance.is_empty();
    let (by_arm, whole): (Vec<_>, Vec<_>) =
        observed.rows.iter().filter(told).partition(|row| !row.treatment.is_empty());
    let mut columns: Vec<Column<'_>> = Vec::new();
    for row in &by_arm {
        place_in(&mut columns, (&row.treatment, row.place.as_str()));
    }
    let many = columns.len() > MOST_SHORT && !whole.is_empty();
    let mut rows = if by_arm.is_empty() || many { whole } else { by_arm };
    if rows.iter().any(|row| !Place::of(&row.place).member) && many {
        rows.retain(|row| !Place::of(&row.place).member);
    }
    let happened = |quantity: &str| rows.iter().any(|row| row.quantity == quantity && row.value != 0.0);
    let rows: Vec<&ObservedRow> = rows.iter().copied().filter(|row| happened(&row.quantity)).collect();
    let more = if many { "; --html and --csv=observations have each arm" } else { "" };
    grid(document, format!("System activity{more}"), &rows)
}

/// All that was observed, one table a kind, with the kind's head.
pub(crate) fn full(document: &Document) -> Vec<(&'static str, Grid)> {
    let Some(observed) = &document.observed else { return Vec::new() };
    let of_kind = |kind: &str| -> Vec<&ObservedRow> {
        let own = |row: &&ObservedRow| row.quantity.split_once('.').is_some_and(|(of, _)| of == kind);
        observed.rows.iter().filter(own).collect()
    };
    KINDS.iter().filter_map(|(kind, head)| Some((*head, grid(document, (*head).to_owned(), &of_kind(kind))?))).collect()
}

/// What a reader should know of the tables: what was not observed and why, what happened, and what observing cost.
pub(crate) fn remarks(observed: &Observed) -> Vec<String> {
    let absent = grouped(observed.absent.iter().map(|row| (&row.absence, row.place.as_str())));
    let absent = absent.iter().map(|(absence, places)| {
        let (places, reason) = (together(places), clean(&absence.reason));
        match absence.observer.as_str() {
            "all" => format!("{places}: not observed: {reason}"),
            observer => format!("{places}: {} is not observed: {reason}", clean(observer)),
        }
    });
    let notes = observed.notes.iter().map(|note| clean(note));
    let costs = grouped(observed.cost.iter().map(|cost| (Place::of(&cost.place), cost)));
    absent.chain(notes).chain(costs.iter().map(|(place, costs)| price(place, costs))).collect()
}

/// What observing at a place cost; of several members the one where it cost most.
fn price(place: &Place<'_>, costs: &[&ObservedCost]) -> String {
    let readings = costs.iter().map(|cost| cost.readings).sum();
    let most = |of: fn(&ObservedCost) -> f64| costs.iter().map(|cost| of(cost)).fold(0.0, f64::max);
    let at_most = if costs.len() > 1 { "at most " } else { "" };
    format!(
        "{}: observing took {at_most}{} of one CPU ({}, {:.0} us each)",
        place.name(),
        percent(most(|cost| cost.share)),
        count(readings, "reading"),
        most(|cost| cost.reading_ns) / 1e3
    )
}

/// Where something was observed: at a place, or at one of several that were there at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place<'o> {
    kind: &'o str,
    member: bool,
}

impl<'o> Place<'o> {
    fn of(place: &'o str) -> Self {
        let number = |text: &str| text.parse::<usize>().is_ok();
        let member = |(_, which): &(&str, &str)| which.split_once(" of ").is_some_and(|(a, b)| number(a) && number(b));
        match place.rsplit_once(", ").filter(member) {
            Some((kind, _)) => Place { kind, member: true },
            None => Place { kind: place, member: false },
        }
    }

    fn name(&self) -> String {
        if self.member { format!("{}, each of several", clean(self.kind)) } else { clean(self.kind) }
    }
}

/// Places in words; those of several that were there at once go without saying where their kind is named.
fn together(places: &[&str]) -> String {
    let all: Vec<Place<'_>> = places.iter().map(|place| Place::of(place)).collect();
    let mut told: Vec<String> = Vec::new();
    for place in &all {
        let said = place.member && all.contains(&Place { member: false, ..*place });
        if !said && !told.contains(&place.name()) {
            told.push(place.name());
        }
    }
    told.join("; ")
}

/// A table of these rows; `None` where there is none.
fn grid(document: &Document, caption: String, rows: &[&ObservedRow]) -> Option<Grid> {
    let mut columns: Vec<Column<'_>> = Vec::new();
    let mut lines: Vec<(&str, &str, &str)> = Vec::new();
    let mut values: BTreeMap<(usize, usize), &ObservedRow> = BTreeMap::new();
    for row in rows {
        let column = (&row.treatment, row.place.as_str());
        let line = (row.quantity.as_str(), row.instance.as_str(), row.unit.as_str());
        values.insert((place_in(&mut lines, line), place_in(&mut columns, column)), row);
    }
    if lines.is_empty() {
        return None;
    }
    let cell = |line: usize, column: usize| match values.get(&(line, column)) {
        None => Cell::Blank,
        Some(row) => Cell::Measured { estimate: number::estimate(row.value, row.lo, row.hi), ratio: None },
    };
    let rows = lines.iter().enumerate().take(MOST_ROWS).map(|(line, (quantity, instance, unit))| GridRow {
        label: label(quantity, instance, unit),
        cells: (0..columns.len()).map(|column| cell(line, column)).collect(),
    });
    let more = lines.len().saturating_sub(MOST_ROWS);
    let caption = if more > 0 { format!("{caption} (the first {MOST_ROWS} of {} rows)", lines.len()) } else { caption };
    Some(Grid {
        caption,
        columns: columns.iter().map(|column| head(document, *column, &columns)).collect(),
        rows: rows.collect(),
        reasons: Vec::new(),
    })
}

fn place_in<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|other| *other == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

/// The treatment, and the place where it does not go without saying.
fn head(document: &Document, (treatment, place): Column<'_>, all: &[Column<'_>]) -> String {
    let name = match treatment.is_empty() {
        true => "all arms".to_owned(),
        false => Factors::of(&document.run).name(treatment),
    };
    let environment = environments::of(treatment);
    let here = place == THIS_MACHINE && document.run.can(environment).interleaves;
    let several = all.iter().any(|(_, other)| *other != place);
    match (several, place == environment) {
        (false, _) => name,
        (true, true) => format!("{name}, inside"),
        (true, false) if here && !treatment.is_empty() => name,
        (true, false) => format!("{name}, {}", clean(place)),
    }
}

/// `disk IOPS of vda (1/s)`.
pub(crate) fn label(quantity: &str, instance: &str, unit: &str) -> String {
    let what = view::find(quantity)
        .map_or_else(|| clean(quantity.strip_prefix("esxtop.").unwrap_or(quantity)), |view| view.label.to_owned());
    let of = match (instance, quantity.split_once('.').map(|(kind, _)| kind)) {
        ("", _) => String::new(),
        (instance, Some("cpu")) => format!(" of CPU {}", clean(instance)),
        (instance, Some("numa")) => format!(" of node {}", clean(instance)),
        (instance, _) => format!(" of {}", clean(instance)),
    };
    let unit = if unit.is_empty() { String::new() } else { format!(" ({})", clean(unit)) };
    format!("{what}{of}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::observation::ObservedAbsence;
    use baremark_model::observer::Absence;
    use baremark_model::quantity::QUANTITIES;

    fn observed(places: &[&str]) -> Observed {
        let absence = |reason: &str| Absence::new("kvm", reason);
        let absent =
            |place: &&str| ObservedAbsence { place: (*place).to_owned(), absence: absence("it does not exist") };
        let cost = |(readings, place): (u64, &&str)| ObservedCost {
            place: (*place).to_owned(),
            readings,
            share: 0.0001 * readings as f64,
            reading_ns: 1000.0 * readings as f64,
        };
        Observed {
            absent: places.iter().map(absent).collect(),
            cost: (1..).zip(places).map(cost).collect(),
            ..Observed::default()
        }
    }

    /// What the observers io-histograms, net-stats and sockets had read was in no table.
    #[test]
    fn every_quantity_has_a_table() {
        let keys = QUANTITIES.iter().map(|row| row.key).chain(view::VIEWS.iter().map(|view| view.key));
        for key in keys {
            let kind = key.split_once('.').map(|(kind, _)| kind);
            assert!(KINDS.iter().any(|(known, _)| Some(*known) == kind), "{key}");
        }
    }

    #[test]
    fn places_that_are_alike_are_told_of_together() {
        let places =
            ["container", "container, 1 of 2", "container, 2 of 2", "qemu, 1 of 3", "qemu, 3 of 3", "this machine"];
        assert_eq!(
            remarks(&observed(&places)),
            [
                "container; qemu, each of several; this machine: kvm is not observed: it does not exist",
                "container: observing took 0.010 % of one CPU (1 reading, 1 us each)",
                "container, each of several: observing took at most 0.030 % of one CPU (5 readings, 3 us each)",
                "qemu, each of several: observing took at most 0.050 % of one CPU (9 readings, 5 us each)",
                "this machine: observing took 0.060 % of one CPU (6 readings, 6 us each)",
            ]
        );
        assert_eq!(Place::of("a, b of c"), Place { kind: "a, b of c", member: false });
    }
}
