//! Programs of other people that environments start: `make test` hides every one of them.

use crate::source;
use std::collections::BTreeSet;
use std::fs;

/// Environments that need no program of others, or reach one only on a machine that a study names.
const WITHOUT: [&str; 5] = ["microvm", "native", "null", "sandbox", "ssh"];

/// What stands between quotation marks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('"').skip(1).step_by(2).collect()
}

fn hidden() -> BTreeSet<String> {
    let text = fs::read_to_string(source::root().join("testing/runner/src/others.rs")).unwrap();
    let (_, list) = text.split_once("const NAMES").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    quoted(list).into_iter().map(str::to_owned).collect()
}

#[test]
fn programs_that_environments_start_are_hidden() {
    let hidden = hidden();
    assert!(hidden.len() > 5, "{hidden:?}");
    let mut started = BTreeSet::new();
    for path in source::files(&source::root().join("crates/environments/src")) {
        let text = fs::read_to_string(path).unwrap();
        let after = text.split(".tool(\"").skip(1);
        started.extend(after.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    assert!(started.contains("srun"), "{started:?}");
    let missing: Vec<_> = started.difference(&hidden).collect();
    assert!(missing.is_empty(), "add to NAMES of testing/runner/src/others.rs: {missing:?}");
}

#[test]
fn each_environment_that_needs_a_program_has_one_that_is_hidden() {
    let hidden = hidden();
    let mut rows = 0;
    for path in source::files(&source::root().join("crates/model/src/environments")) {
        let text = fs::read_to_string(&path).unwrap();
        let Some((_, row)) = text.split_once("const KIND: EnvironmentKind") else { continue };
        rows += 1;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // A package may be called `qemu-system-x86`.
        let is_of_it = |program: &String| row.contains(program.split("-system").next().unwrap());
        let is_hidden = hidden.iter().any(is_of_it);
        assert!(
            is_hidden || WITHOUT.contains(&name.as_str()),
            "{name}: add its program to testing/runner/src/others.rs"
        );
    }
    assert!(rows > WITHOUT.len(), "{rows} rows");
}
