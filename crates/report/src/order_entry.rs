//! The two tables with which a published OLTP study (Order-Entry, a 64-vCPU virtual machine on 72 logical CPUs) told what a
//! virtual machine keeps: what the host did for each throughput, and what the guest saw.
//!
//! They can be had of any run: the throughput is the study's own metric. A host's column is observed on the machine that
//! carries the work; a guest's inside it. No cell is blank: what is not known has its reason. The study's own values are below.

use crate::grid::{Cell, Grid, GridRow, numbered};
use crate::live::short;
use crate::observed_at::{host_of, is_at};
use crate::published::{Beside, beside};
use crate::text::clean;
use crate::treatment::{Factors, measured};
use crate::words::Quantity;
use baremark_model::distinct::distinct;
use baremark_model::document::Document;
use baremark_model::environments;
use baremark_model::observation::{ObservedAbsence, ObservedRow};
use baremark_model::order;
use baremark_model::plan::Treatment;

/// Rows of the host's table below the throughput.
const HOST: &[(&str, &[&str])] = &[
    ("CPU utilization", &["cpu.utilization"]),
    ("disk IOPS", &["disk.iops"]),
    ("disk MB/s", &["disk.mb_per_s"]),
    ("network packets/s (receive / send)", &["net.receive_packets", "net.transmit_packets"]),
    ("network MB/s (receive / send)", &["net.receive_mb_per_s", "net.transmit_mb_per_s"]),
];
/// The rows that a run's own network has, by the metrics of its server's end of it: the machine's interfaces do not carry it.
const LAB: &[(&str, &[&str])] = &[
    ("network packets/s (receive / send)", &["net_receive_packets_per_s", "net_transmit_packets_per_s"]),
    ("network MB/s (receive / send)", &["net_receive_mb_per_s", "net_transmit_mb_per_s"]),
];
/// What clients and servers of one machine send to each other without a network of the run's own: no part of the machine's sums.
const LOOPBACK: &[(&str, &[&str])] = &[
    ("loopback packets/s (receive / send)", &["net.receive_packets", "net.transmit_packets"]),
    ("loopback MB/s (receive / send)", &["net.receive_mb_per_s", "net.transmit_mb_per_s"]),
];
/// Rows of the guest's table.
const GUEST: &[(&str, &[&str])] = &[
    ("interrupts/s", &["kernel.interrupts"]),
    ("disk IOPS", &["disk.iops"]),
    ("context switches/s", &["kernel.context_switches"]),
    ("load average", &["kernel.load1"]),
];

/// Whether a treatment's environment has an operating system of its own: what a container reads of its kernel is this machine's.
fn has_guest(document: &Document, treatment: &Treatment) -> bool {
    !document.run.can_of(treatment).on_this_kernel()
}

/// Both tables of a run.
pub(crate) fn tables(document: &Document) -> Vec<Grid> {
    let treatments = treatments(document);
    let factors = Factors::of(&document.run);
    let columns: Vec<String> = treatments.iter().map(|treatment| factors.name(treatment)).collect();
    let mut reasons = Vec::new();
    let on_host = |treatment| host_of(document, treatment);
    let mut host: Vec<GridRow> = throughputs(document, &treatments, &mut reasons);
    host.extend(rows(document, &treatments, (HOST, ""), on_host, &mut reasons));
    let loopback = rows(document, &treatments, (LOOPBACK, "lo"), on_host, &mut Vec::new());
    let seen = |row: &GridRow| row.cells.iter().all(|cell| matches!(cell, Cell::Measured { .. }));
    host.extend(loopback.into_iter().filter(seen));
    let caption = format!("System activity of the machine{}", processors(document));
    let first = Grid { caption, columns, rows: host, reasons };
    let guests: Vec<&Treatment> =
        treatments.iter().copied().filter(|treatment| has_guest(document, treatment)).collect();
    if guests.is_empty() {
        return vec![first];
    }
    let mut reasons = Vec::new();
    let rows = rows(document, &guests, (GUEST, ""), |treatment| environments::of(treatment), &mut reasons);
    let columns = guests.iter().map(|treatment| factors.name(treatment)).collect();
    vec![first, Grid { caption: "System activity in the guest".to_owned(), columns, rows, reasons }]
}

/// What the study itself printed, to be below.
pub(crate) fn published() -> Option<Beside> {
    let [host, guest] = ["order-entry/host", "order-entry/guest"].map(|name| beside(name, "order-entry"));
    let (mut host, guest) = (host?, guest?);
    host.grids.extend(guest.grids);
    host.notes.extend(guest.notes.into_iter().filter(|note| !host.notes.contains(note)).collect::<Vec<_>>());
    Some(host)
}

/// What the tables cannot show of this run.
pub(crate) fn remarks(document: &Document) -> Vec<String> {
    let mut remarks = Vec::new();
    if document.observed.is_none() {
        remarks.push(
            "This run was not observed: only its throughput is known. Later versions observe by default.".to_owned(),
        );
    }
    let several = |row: &ObservedRow| row.place.contains(", ") && is_at(row, environments::of(&row.treatment));
    if document.observed.iter().flat_map(|observed| &observed.rows).any(several) {
        remarks.push("Of several guests at once the guest's table shows the mean.".to_owned());
    }
    let names = treatments(document).into_iter().map(environments::of);
    let kinds = distinct(names.map(|name| (document.run.place_of(name), document.run.can(name))));
    let without_guest = kinds.iter().filter(|(_, can)| can.virtual_machine && can.on_this_kernel());
    remarks.extend(
        without_guest.map(|(kind, _)| format!("{kind}: no guest OS, so that there is nothing to see in the guest.")),
    );
    let separated = kinds.iter().filter(|(_, can)| can.separates_programs());
    remarks.extend(
        separated.map(|(kind, _)| {
            format!("{kind}: its kernel is this machine's, whose figures are in the machine's table.")
        }),
    );
    if document.ratios.iter().any(|row| row.emulated) {
        let remark = "An emulated machine exercises the mechanics: its figures do not measure a virtual machine.";
        remarks.push(remark.to_owned());
    }
    remarks.extend(without_column(document));
    let is_lab = |treatment: &&Treatment| estimate(document, treatment, LAB[0].1[0]).is_some();
    if treatments(document).iter().any(is_lab) {
        remarks.push("Network rows of a run on the lab's network are those of the server's end of it.".to_owned());
    }
    if !treatments(document).iter().any(|treatment| has_guest(document, treatment)) {
        remarks
            .push("No arm ran in a guest with its own operating system: the guest's table has no column.".to_owned());
    }
    remarks
}

/// Treatments of the study that have no column, with the reason: not available here, or no trial of them counts.
fn without_column(document: &Document) -> Vec<String> {
    let factors = Factors::of(&document.run);
    let measured = treatments(document);
    let absent = document.absent.iter().map(|absent| (&absent.treatment, absent.reason.clone()));
    let failed = document.trials.iter().rev().flat_map(|trial| {
        let why = trial.status.reason();
        trial.arms.iter().filter_map(move |arm| Some((&arm.treatment, why.clone()?)))
    });
    let mut named: Vec<&Treatment> = Vec::new();
    let mut remarks = Vec::new();
    for (treatment, why) in absent.chain(failed) {
        if !measured.contains(&treatment) && !named.contains(&treatment) {
            named.push(treatment);
            remarks.push(format!("{}: no column: {}", factors.name(treatment), clean(&why)));
        }
    }
    remarks
}

/// Treatments that were measured, native ones first.
fn treatments(document: &Document) -> Vec<&Treatment> {
    let mut all = measured(document);
    order::by_key(&mut all, |treatment| environments::of(treatment) != environments::NATIVE);
    all
}

fn estimate(document: &Document, treatment: &Treatment, metric: &str) -> Option<f64> {
    document.estimate_of(metric, treatment).map(|row| row.estimate)
}

fn throughputs(document: &Document, treatments: &[&Treatment], reasons: &mut Vec<String>) -> Vec<GridRow> {
    let metrics = distinct(treatments.iter().map(|treatment| document.run.metric_of(treatment)));
    let row = |metric: &&str| {
        let cell = |treatment: &&Treatment| {
            let Some(found) = estimate(document, treatment, metric) else {
                let why = match document.run.metric_of(treatment) == *metric {
                    true => "no trial gives a value".to_owned(),
                    false => format!("{} is not a metric of its workload", clean(metric)),
                };
                return Cell::Absent(numbered(reasons, &why));
            };
            let ratio = document.ratios.iter().find(|row| row.metric == **metric && row.treatment == **treatment);
            let kept = ratio.filter(|row| !row.emulated).and_then(|row| row.ratio);
            let kept = kept.filter(|_| environments::of(treatment) != environments::NATIVE);
            let kept = kept.map_or_else(String::new, |ratio| format!(" ({:.0} %)", 100.0 * ratio));
            Cell::Measured { estimate: format!("{}{kept}", short(found)), ratio: None }
        };
        let unit = clean(&Quantity::of(document, metric).unit);
        GridRow { label: format!("{} ({unit})", clean(metric)), cells: treatments.iter().map(cell).collect() }
    };
    metrics.iter().map(row).collect()
}

/// Why a quantity was not observed at a place while a treatment ran.
fn why_not(document: &Document, treatment: &Treatment, place: &str, quantity: &str) -> String {
    let Some(observed) = &document.observed else { return "the run was not observed".to_owned() };
    let family = quantity.split_once('.').map_or(quantity, |(family, _)| family);
    let observer = if family == "net" { "network" } else { family };
    let there = |of: &ObservedAbsence| {
        let member = of.place.strip_prefix(place).is_some_and(|member| member.is_empty() || member.starts_with(", "));
        member && [observer, "all"].contains(&of.absence.observer.as_str())
    };
    if let Some(absence) = observed.absent.iter().find(|of| there(of)) {
        return format!("{place}: {}", clean(&absence.absence.reason));
    }
    if !observed.rows.iter().any(|row| row.treatment == *treatment && is_at(row, place)) {
        return format!("{place} was not observed in a trial that counts");
    }
    match family {
        "disk" => format!("{place} has no disk of its own"),
        "net" => format!("{place} has no network interface in addition to the loopback"),
        _ => format!("{place} did not report {}", clean(quantity)),
    }
}

fn rows<'d>(
    document: &'d Document,
    treatments: &[&'d Treatment],
    (table, instance): (&[(&str, &[&str])], &str),
    place: impl Fn(&'d Treatment) -> &'d str,
    reasons: &mut Vec<String>,
) -> Vec<GridRow> {
    let value = |treatment: &'d Treatment, quantity: &str| {
        let place = place(treatment);
        let of = |row: &&ObservedRow| {
            row.treatment == *treatment && row.quantity == quantity && row.instance == instance && is_at(row, place)
        };
        let rows: Vec<&ObservedRow> = document.observed.as_ref()?.rows.iter().filter(of).collect();
        #[expect(clippy::cast_precision_loss, reason = "a handful of members")]
        let mean = rows.iter().map(|row| row.value).sum::<f64>() / rows.len() as f64;
        rows.first().map(|row| (mean, row.unit.as_str()))
    };
    let on_own_network = |label: &str, treatment: &Treatment| -> Option<Vec<String>> {
        let (_, metrics) = LAB.iter().find(|(of, _)| *of == label)?;
        metrics.iter().map(|metric| estimate(document, treatment, metric).map(short)).collect()
    };
    let shown = |(value, unit): (f64, &str)| if unit == "%" { format!("{} %", short(value)) } else { short(value) };
    let mut cell = |label: &str, treatment: &'d Treatment, quantities: &[&str]| {
        let observed = || quantities.iter().map(|quantity| value(treatment, quantity).map(shown)).collect();
        match on_own_network(label, treatment).or_else(observed) {
            Some(values) => Cell::Measured { estimate: values.join(" / "), ratio: None },
            None => {
                let missing = quantities.iter().find(|quantity| value(treatment, quantity).is_none());
                let missing = missing.copied().unwrap_or_default();
                Cell::Absent(numbered(reasons, &why_not(document, treatment, place(treatment), missing)))
            }
        }
    };
    let row = |(label, quantities): &(&str, &[&str])| GridRow {
        label: (*label).to_owned(),
        cells: treatments.iter().map(|treatment| cell(label, treatment, quantities)).collect(),
    };
    table.iter().map(row).collect()
}

fn processors(document: &Document) -> String {
    let cpus = document.run.machine.cpu.logical_cpus;
    cpus.map_or_else(String::new, |cpus| format!(": {cpus} logical CPUs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_the_study_printed_them() {
        let printed = [66_500.0, 929.0, 84.7, 1_234_567.0, 4_321.0, 0.0].map(short);
        assert_eq!(printed, ["66.5K", "929", "84.7", "1.23M", "4320", "0"]);
    }
}
