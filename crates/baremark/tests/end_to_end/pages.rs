//! Pages in docs/ that are written from the program's own tables.

use baremark_model::descriptor::Descriptor;
use baremark_model::published;
use baremark_model::reference::study_reference;
use baremark_report::published_page;
use std::fs;
use std::path::Path;

#[test]
fn the_study_reference_is_written_from_the_tables() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study-reference.md");
    let workloads = baremark_workloads::all().iter().map(|workload| workload.descriptor());
    let jobs = [baremark_programs::all(), baremark_load::workload::ALL].concat();
    let jobs = jobs.iter().map(|job| job.descriptor()).chain([baremark_harness::workload::descriptor()]);
    let descriptors: Vec<&Descriptor> = workloads.chain(jobs).collect();
    let wanted = study_reference(&descriptors);
    is_written(&page, &wanted);
}

#[test]
fn every_publication_has_its_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/published");
    for (name, publication) in published::all() {
        is_written(&folder.join(format!("{name}.md")), &published_page(name, publication));
    }
    let pages = fs::read_dir(&folder).unwrap().count();
    assert_eq!(pages, published::all().len(), "docs/published/ has a page that no publication has");
}

/// A publication sends its readers to studies that there are.
#[test]
fn studies_of_publications_are_shipped() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    for (name, publication) in published::all() {
        for study in &publication.studies {
            assert!(folder.join(format!("{study}.toml")).is_file(), "reference/{name}.toml: no study '{study}'");
        }
    }
}

fn is_written(page: &Path, wanted: &str) {
    if std::env::var_os("UPDATE_PAGES").is_some() {
        fs::create_dir_all(page.parent().unwrap()).unwrap();
        fs::write(page, wanted).unwrap();
    }
    let found = fs::read_to_string(page).unwrap_or_default();
    assert!(found == wanted, "{} is not what the tables say; UPDATE_PAGES=1 cargo test writes it", page.display());
}
