//! Pages in docs/ that are written from the program's own tables.

use baremark_model::descriptor::Descriptor;
use baremark_model::published;
use baremark_model::reference::study_reference;
use baremark_report::published_page;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_study_reference_is_written_from_the_tables() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study-reference.md");
    let workloads = baremark_workloads::ALL.iter().map(|workload| workload.descriptor());
    let jobs = [
        baremark_programs::ALL,
        baremark_guest_program::workload::ALL,
        baremark_load::workload::ALL,
        baremark_databases::ALL,
        baremark_key_value::ALL,
        baremark_disks::ALL,
    ]
    .concat();
    let whole = [
        &baremark_harness::workload::DESCRIPTOR,
        &baremark_streams::workload::DESCRIPTOR,
        &baremark_consolidation::web_farm::DESCRIPTOR,
        &baremark_protection::workload::DESCRIPTOR,
        &baremark_consolidation::tile::DESCRIPTOR,
        &baremark_consolidation::guest_operations::DESCRIPTOR,
    ];
    let jobs = jobs.iter().map(|job| job.descriptor()).chain(whole);
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
    assert_eq!(pages, published::all().count(), "docs/published/ has a page that no publication has");
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

/// What is in docs/exit-codes.md around the table.
const MARKS: [&str; 2] = ["<!-- exit codes: begin -->\n", "<!-- exit codes: end -->"];

fn printed(arguments: &[&str]) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_baremark")).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn the_page_and_help_show_the_same_exit_codes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exit-codes.md");
    let (table, text) = (printed(&["list", "exit-codes"]), fs::read_to_string(&page).unwrap());
    let begin = text.find(MARKS[0]).unwrap() + MARKS[0].len();
    let end = begin + text[begin..].find(MARKS[1]).unwrap();
    if std::env::var_os("UPDATE_PAGES").is_some() {
        fs::write(&page, [&text[..begin], &table, &text[end..]].concat()).unwrap();
    }
    let text = fs::read_to_string(&page).unwrap();
    assert!(
        text.contains(&[MARKS[0], &table, MARKS[1]].concat()),
        "docs/exit-codes.md; UPDATE_PAGES=1 cargo test writes it"
    );

    // One source: each code with its meaning is in the help and in the manual page, too.
    let rows: serde_json::Value = serde_json::from_str(&printed(&["list", "exit-codes", "--json"])).unwrap();
    let (help, rows) = (printed(&["help", "all"]), rows["exit_codes"].as_array().unwrap());
    assert_eq!(rows.iter().filter_map(|row| row["code"].as_u64()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 130]);
    for row in rows {
        let line = format!("  {:<4} {}\n", row["code"].as_u64().unwrap(), row["meaning"].as_str().unwrap());
        assert!(format!("{help}\n").contains(&line), "{help}");
        assert!(table.contains(&format!("| {} | {} |", row["code"], row["meaning"].as_str().unwrap())), "{table}");
    }
}

/// Benches ended with 0 whatever they had found.
#[test]
fn a_bench_fails_where_a_goal_is_missed_and_each_is_run_so() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let code = |script: &str| {
        let ended = Command::new(root.join("scripts/held")).args(["sh", "-c", script]).output().unwrap();
        assert!(String::from_utf8_lossy(&ended.stdout).starts_with("one "), "{ended:?}");
        ended.status.code()
    };
    assert_eq!(code("echo 'one 1.02 ok'; echo 'two 0.99 undecided'"), Some(0));
    assert_eq!(code("echo 'one 0.90 SHORT'; echo 'two 1.01 ok'"), Some(1));
    assert_eq!(code("echo 'one SHORTEST'"), Some(0));
    assert_eq!(code("echo 'one SHORT'; exit 7"), Some(7), "as it ended");
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    let is_bench = |line: &&str| {
        line.starts_with('\t') && ["/bench-", "/speed"].iter().any(|of| line.contains(&format!("$(EXAMPLES){of}")))
    };
    let benches: Vec<&str> = makefile.lines().filter(is_bench).collect();
    let wrong: Vec<&&str> = benches.iter().filter(|line| !line.contains("./scripts/held ")).collect();
    assert!(benches.len() >= 8 && wrong.is_empty() && makefile.contains("BENCH := ./scripts/held "), "{wrong:#?}");
}
