//! Pages in docs/ that are written from the program's own tables.

use baremark_model::descriptor::Descriptor;
use baremark_model::reference::study_reference;
use std::fs;
use std::path::Path;

#[test]
fn the_study_reference_is_written_from_the_tables() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study-reference.md");
    let workloads = baremark_workloads::all().iter().map(|workload| workload.descriptor());
    let jobs = [baremark_programs::all(), baremark_load::workload::ALL, baremark_databases::ALL].concat();
    let jobs = jobs.iter().map(|job| job.descriptor()).chain([baremark_harness::workload::descriptor()]);
    let descriptors: Vec<&Descriptor> = workloads.chain(jobs).collect();
    let wanted = study_reference(&descriptors);
    if std::env::var_os("UPDATE_PAGES").is_some() {
        fs::write(&page, &wanted).unwrap();
    }
    let found = fs::read_to_string(&page).unwrap_or_default();
    assert!(found == wanted, "docs/study-reference.md is not what the tables say; UPDATE_PAGES=1 cargo test writes it");
}
