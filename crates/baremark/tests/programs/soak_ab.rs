//! scripts/soak-ab: what it keeps of its rounds, and how it judges them.

use crate::common::bench::{Bench, text};
use crate::common::installed::has;
use std::path::PathBuf;
use std::process::Command;

fn soak() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/soak-ab")
}

#[test]
fn rounds_of_the_soak_are_kept_and_only_missing_ones_are_made() {
    if !has("soak of ab", &["python3", "gzip"]) {
        return;
    }
    let bench = Bench::new();
    let round = |rounds: &str| {
        let ran = Command::new("python3")
            .arg(soak())
            .arg(env!("CARGO_BIN_EXE_baremark"))
            .arg(bench.path("soak"))
            .args(["--rounds", rounds, "--budget", "3", "gzip"])
            .output()
            .unwrap();
        // One round of a busy machine may have no interval, which is a goal that is missed; nothing else is.
        assert!(matches!(ran.status.code(), Some(0 | 1)), "{}", text(&ran.stderr));
        text(&ran.stdout)
    };
    let first = round("1");
    let counted = |out: &str, kind: &str| {
        let line = out.lines().find(|line| line.starts_with(kind)).unwrap_or_else(|| panic!("no {kind}: {out}"));
        line[kind.len()..].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!((counted(&first, "gzip"), counted(&first, "all A/A")), ("1".to_owned(), "1".to_owned()), "{first}");
    assert!(!first.contains("rounds.jsonl"), "{first}");
    let stored = std::fs::read(bench.path("soak/rounds.jsonl")).unwrap();
    let again = round("1");
    assert!(again.contains("rounds.jsonl has gzip 1 of this program, 0 of others"), "{again}");
    assert_eq!(std::fs::read(bench.path("soak/rounds.jsonl")).unwrap(), stored, "nothing was missing");
    assert_eq!(counted(&again, "gzip"), "1");
}

/// Judges rounds that nobody ran: as many differ as may, and one more; as many injections are found as must be, and one fewer.
const JUDGED: &str = r#"
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("soak", sys.argv[1])
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak", loader))
loader.exec_module(script)
alike, differs, silent = [1.0, 0.99, 1.01, 9, 12.0], [1.1, 1.05, 1.15, 9, 12.0], [1.0, 0, 0, 3, 12.0]
soon = [1.01, 1.005, 1.015, 9, 11.0]
found, bounded, late = [1.03, 1.01, 1.05, 9, 40.0], [1.01, 0.99, 1.02, 9, 40.0], [1.03, 1.01, 1.05, 9, 90.0]
def goals(**rows):
    print("missed", script.table({kind.replace("_", "-"): of for kind, of in rows.items()}))
for count in (16, 17):
    goals(gzip=[alike] * 100, awk=[alike] * (100 - count) + [differs] * count)
goals(gzip=[alike] * 18 + [silent] * 2)
goals(gzip=[alike] * 17 + [silent] * 3)
goals(plus_3=[found] * 9 + [alike])
goals(plus_3=[found] * 8 + [alike] * 2)
goals(plus_3=[found] * 8 + [late] * 2)
goals(plus_1=[bounded] * 9 + [differs])
goals(plus_1=[bounded] * 8 + [differs] * 2)
goals(duet_1=[soon] * 9 + [alike])
goals(duet_1=[found] * 10)
"#;

#[test]
fn the_soak_fails_where_a_method_that_is_right_would_not_come() {
    if !has("soak of ab", &["python3"]) {
        return;
    }
    let ran = Command::new("python3").args(["-c", JUDGED]).arg(soak()).output().unwrap();
    let out = text(&ran.stdout);
    assert!(ran.status.success(), "{out}{}", text(&ran.stderr));
    let missed: Vec<_> = out.lines().filter_map(|line| line.strip_prefix("missed ")).collect();
    assert_eq!(missed, ["0", "1", "0", "1", "0", "1", "1", "0", "1", "0", "1"], "{out}");
}
