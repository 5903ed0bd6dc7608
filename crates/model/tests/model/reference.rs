//! The reference page, rendered from the tables with workloads that exist only here.

use crate::specimen::WORKLOADS;
use baremark_model::reference::study_reference;
use baremark_model::tables;

#[test]
fn the_page_is_rendered_from_the_tables() {
    insta::assert_snapshot!(study_reference(WORKLOADS));
}

#[test]
fn every_key_of_every_table_is_on_the_page() {
    let page = study_reference(WORKLOADS);
    let shared = [tables::STUDY, tables::FACTORS, tables::DESIGN, tables::REPORT];
    let own = WORKLOADS.iter().map(|workload| workload.parameters);
    for knob in shared.into_iter().chain(own).flatten() {
        assert!(page.contains(&format!("| `{}` |", knob.key)), "{}", knob.key);
    }
}

#[test]
fn every_row_of_a_table_has_as_many_cells_as_its_head() {
    let page = study_reference(WORKLOADS);
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    for table in page.split("\n\n").filter(|block| block.starts_with('|')) {
        let head = cells(table.lines().next().unwrap_or_default());
        assert!(table.lines().all(|line| cells(line) == head), "{table}");
    }
}
