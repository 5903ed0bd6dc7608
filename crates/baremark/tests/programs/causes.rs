//! The script that injects causes, loaded by Python.

use crate::common::bench::{Bench, text};
use std::path::Path;
use std::process::Command;

/// Loads the script whose path is the first argument.
const LOADED: &str = r#"
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("injections", sys.argv[1])
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("injections", loader))
loader.exec_module(script)
"#;

/// Has it make rounds of a toy until it is interrupted, then go on, then start anew with another program.
const PIECES: &str = r#"
folder, made = sys.argv[2], []
def rounds(count, last, content="one build"):
    program = folder + "/program"
    script.written(program, content)
    class Toy:
        def calibrated(self, *where):
            return 3
        def round(self, program, folder, mild, strength):
            if len(made) == last:
                raise KeyboardInterrupt
            made.append(1)
            return script.Found(False, True, strength == 3, 0.75, "words")
    script.KINDS = {"toy": Toy()}
    script.table(["toy"], program, folder, True, script.Strengths(folder + "/strengths.json", True), count)
    print("made", len(made))
rounds(4, 3)
open(folder + "/rounds.jsonl", "a").write('[["torn by a kill')
rounds(5, 9)
rounds(1, 9, "another build")
"#;

/// Prints the tables for caches of processors that there are, in KiB.
const TABLES: &str = r#"
print(*[script.power_of_two(cache / 2) for cache in (0.5, 1.5, 16, 32, 36, 48, 64, 96, 105, 300, 1152)])
"#;

/// Looks for strengths of what loses in proportion, by steps, far less at first, and never enough; then for those of two machines.
const STRENGTHS: &str = r#"
tried = []
def of(kept):
    def counted(strength):
        tried.append(strength)
        return kept(strength)
    tried.clear()
    return script.search(counted, 0.02, 2.0, 0.4)
for kept in (
    lambda strength: 1 - strength,
    lambda strength: 0.5 if strength > 1.3 else 0.82 if strength > 0.1 else 1,
    lambda strength: 1 - 0.15 * strength,
    lambda strength: 0.9 if strength < 0.03 else 0.1,
):
    try:
        found = of(kept)
        print("left", 0.65 <= kept(found) <= 0.85, len(tried) <= 10)
    except script.Skip as why:
        print(why)
try:
    of(lambda strength: 0.98)
except script.Skip as why:
    print(why, "after", len(tried))

class Toy:
    asked = 0
    def calibrated(self, *where):
        Toy.asked += 1
        return Toy.asked
script.KINDS = {"toy": Toy(), "other": Toy()}
path = sys.argv[2] + "/strengths.json"
def strengths(machine, mild=True):
    known = script.Strengths(path, mild)
    known.machine = machine
    return [known.of(kind, "", "") for kind in ("toy", "other", "toy")]
print(strengths("one"), strengths("two"), strengths("one"), strengths("one", mild=False))
"#;

/// What the script prints that is loaded, and then does `body`; `None` without Python.
fn printed(body: &str, bench: &Bench) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/injections");
    let program = format!("{LOADED}{body}");
    let Ok(ran) = Command::new("python3").args(["-c", &program]).arg(script).arg(bench.folder.path()).output() else {
        eprintln!("skipped: no python3");
        return None;
    };
    let out = text(&ran.stdout);
    assert!(ran.status.success(), "{out}{}", text(&ran.stderr));
    Some(out)
}

/// Of a processor with any cache the table has a size that a study can have: a power of two, half of the cache at most.
#[test]
fn tables_of_injections_are_powers_of_two_whatever_the_cache() {
    let Some(out) = printed(TABLES, &Bench::new()) else { return };
    assert_eq!(out.trim(), "256 512 8192 16384 16384 16384 32768 32768 32768 131072 524288");
}

#[test]
fn the_strength_of_a_mild_injection_is_looked_for_once_on_each_machine() {
    let Some(out) = printed(STRENGTHS, &Bench::new()) else { return };
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines,
        [
            "left True True",
            "left True True",
            "left True True",
            "no strength leaves 65 to 85 % of the rate here: 10 that were tried left 10 to 90 %",
            "no strength leaves 65 to 85 % of the rate here: 2 that were tried left 98 to 98 % after 2",
            "[1, 2, 1] [3, 4, 3] [1, 2, 1] [None, None, None]",
        ]
    );
}

#[test]
fn the_table_of_injections_can_be_made_in_pieces() {
    let Some(out) = printed(PIECES, &Bench::new()) else { return };
    let of = |start: &str| out.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    assert_eq!(of("made"), ["made 3", "made 5", "made 6"], "{out}");
    let counts: Vec<_> = of("toy").iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(counts, ["3", "5", "1"], "{out}");
    assert!(out.contains("rounds.jsonl has toy 3 of this program, 0 of others"), "{out}");
    assert!(out.contains("rounds.jsonl has none of this program, 5 of others"), "{out}");
}
