//! The two tables with which a published OLTP study (Order-Entry, a 64-vCPU virtual machine on 72 logical CPUs) told what a
//! virtual machine keeps: what the host did for each throughput, and what the guest saw.
//!
//! They can be had of any run: the throughput is the study's own metric. A host's column is observed on the machine that
//! carries the work; a guest's inside it. What was not observed is blank. The study's own values are below.

use crate::grid::{Cell, Grid, GridRow};
use crate::live::short;
use crate::observed_at::{environment, host_of, is_at, kind};
use crate::published::{Beside, beside};
use crate::text::clean;
use crate::treatment::Factors;
use crate::words::Quantity;
use baremark_model::document::Document;
use baremark_model::observation::ObservedRow;
use baremark_model::plan::Treatment;

/// Rows of the host's table below the throughput.
const HOST: &[(&str, &[&str])] = &[
    ("CPU utilization", &["cpu.utilization"]),
    ("disk IOPS", &["disk.iops"]),
    ("disk MB/s", &["disk.mb_per_s"]),
    ("network packets/s (receive / send)", &["net.receive_packets", "net.transmit_packets"]),
    ("network MB/s (receive / send)", &["net.receive_mb_per_s", "net.transmit_mb_per_s"]),
];
/// Rows of the guest's table.
const GUEST: &[(&str, &[&str])] = &[
    ("interrupts/s", &["kernel.interrupts"]),
    ("disk IOPS", &["disk.iops"]),
    ("context switches/s", &["kernel.context_switches"]),
    ("load average", &["kernel.load1"]),
];
/// Environments on the lab's own machine that have no system of their own: what a container reads of its kernel is the machine's.
const NO_GUEST: &[&str] = &["native", "microvm", "null", "container"];

/// Both tables of a run.
pub(crate) fn tables(document: &Document) -> Vec<Grid> {
    let treatments = treatments(document);
    let factors = Factors::of(&document.run);
    let columns: Vec<String> = treatments.iter().map(|treatment| factors.name(treatment)).collect();
    let mut host: Vec<GridRow> = throughputs(document, &treatments);
    host.extend(rows(document, &treatments, HOST, |treatment| Some(host_of(document, treatment))));
    let caption = format!("System activity of the machine{}", processors(document));
    let first = Grid { caption, columns: columns.clone(), rows: host, reasons: Vec::new() };
    let rows = rows(document, &treatments, GUEST, |treatment| {
        Some(environment(treatment)).filter(|_| !NO_GUEST.contains(&kind(document, treatment)))
    });
    let caption = "System activity in the guest".to_owned();
    let keep: Vec<usize> =
        (0..columns.len()).filter(|&column| rows.iter().any(|row| row.cells[column] != Cell::Blank)).collect();
    let second = Grid {
        caption,
        columns: keep.iter().map(|&column| columns[column].clone()).collect(),
        rows: rows
            .into_iter()
            .map(|row| GridRow { cells: keep.iter().map(|&column| row.cells[column].clone()).collect(), ..row })
            .collect(),
        reasons: Vec::new(),
    };
    if second.columns.is_empty() { vec![first] } else { vec![first, second] }
}

/// What the study itself printed, to be below.
pub(crate) fn published() -> Option<Beside> {
    let [host, guest] = ["order-entry/host", "order-entry/guest"].map(beside);
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
    let several = |row: &ObservedRow| row.place.contains(", ") && is_at(row, environment(&row.treatment));
    if document.observed.iter().flat_map(|observed| &observed.rows).any(several) {
        remarks.push("Of several guests at once the guest's table shows the mean.".to_owned());
    }
    let inside = |place: &str| treatments(document).iter().any(|treatment| kind(document, treatment) == place);
    if inside("microvm") {
        remarks.push("microvm: no guest OS, so that there is nothing to see in the guest.".to_owned());
    }
    if inside("container") {
        let remark = "container: its kernel is this machine's, whose figures are in the machine's table.";
        remarks.push(remark.to_owned());
    }
    if document.ratios.iter().any(|row| row.emulated) {
        let remark = "An emulated machine exercises the mechanics: its figures do not measure a virtual machine.";
        remarks.push(remark.to_owned());
    }
    if !treatments(document).iter().any(|treatment| !NO_GUEST.contains(&kind(document, treatment))) {
        remarks
            .push("No arm ran in a guest with its own operating system: the guest's table has no column.".to_owned());
    }
    remarks
}

/// Treatments that were measured, native ones first.
fn treatments(document: &Document) -> Vec<&Treatment> {
    let mut all: Vec<&Treatment> = Vec::new();
    for row in &document.estimates {
        if !all.contains(&&row.treatment) {
            all.push(&row.treatment);
        }
    }
    all.sort_by_key(|treatment| environment(treatment) != "native");
    all
}

fn throughputs(document: &Document, treatments: &[&Treatment]) -> Vec<GridRow> {
    let mut metrics: Vec<&str> = Vec::new();
    for treatment in treatments {
        let metric = document.run.metric_of(treatment);
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let row = |metric: &&str| {
        let value = |treatment: &Treatment| {
            let of =
                |row: &&baremark_model::document::EstimateRow| row.treatment == *treatment && row.metric == **metric;
            document.estimates.iter().find(of).map(|row| row.estimate)
        };
        let cell = |treatment: &&Treatment| {
            let Some(found) = value(treatment) else { return Cell::Blank };
            let ratio = document.ratios.iter().find(|row| row.metric == **metric && row.treatment == **treatment);
            let kept = ratio.filter(|row| !row.emulated).and_then(|row| row.ratio);
            let kept = kept.filter(|_| environment(treatment) != "native");
            let kept = kept.map_or_else(String::new, |ratio| format!(" ({:.0} %)", 100.0 * ratio));
            Cell::Measured { estimate: format!("{}{kept}", short(found)), ratio: None }
        };
        let unit = clean(&Quantity::of(document, metric).unit);
        GridRow { label: format!("{} ({unit})", clean(metric)), cells: treatments.iter().map(cell).collect() }
    };
    metrics.iter().map(row).collect()
}

fn rows<'d>(
    document: &'d Document,
    treatments: &[&'d Treatment],
    table: &[(&str, &[&str])],
    place: impl Fn(&'d Treatment) -> Option<&'d str>,
) -> Vec<GridRow> {
    let value = |treatment: &'d Treatment, quantity: &str| {
        let place = place(treatment)?;
        let of = |row: &&ObservedRow| {
            row.treatment == *treatment && row.quantity == quantity && row.instance.is_empty() && is_at(row, place)
        };
        let rows: Vec<&ObservedRow> = document.observed.as_ref()?.rows.iter().filter(of).collect();
        #[expect(clippy::cast_precision_loss, reason = "a handful of members")]
        let mean = rows.iter().map(|row| row.value).sum::<f64>() / rows.len() as f64;
        rows.first().map(|row| (mean, row.unit.as_str()))
    };
    let cell = |treatment: &'d Treatment, quantities: &[&str]| {
        let values: Option<Vec<String>> = quantities
            .iter()
            .map(|quantity| value(treatment, quantity))
            .map(|found| {
                found.map(|(value, unit)| if unit == "%" { format!("{} %", short(value)) } else { short(value) })
            })
            .collect();
        values.map_or(Cell::Blank, |values| Cell::Measured { estimate: values.join(" / "), ratio: None })
    };
    let row = |(label, quantities): &(&str, &[&str])| GridRow {
        label: (*label).to_owned(),
        cells: treatments.iter().map(|treatment| cell(treatment, quantities)).collect(),
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
