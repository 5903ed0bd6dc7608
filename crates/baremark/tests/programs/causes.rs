//! The script that injects causes, loaded by Python.

use crate::common::bench::{Bench, text};
use std::path::Path;
use std::process::Command;

/// Loads the script, has it make rounds of a toy until it is interrupted, then go on, then start anew with another program.
const PIECES: &str = r#"
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("injections", sys.argv[1])
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("injections", loader))
loader.exec_module(script)
folder, made = sys.argv[2], []
def rounds(count, last, content="one build"):
    program = folder + "/program"
    script.written(program, content)
    def toy(*where):
        if len(made) == last:
            raise KeyboardInterrupt
        made.append(1)
        return script.Found(False, True, True, 0.75, "words")
    script.KINDS = {"toy": toy}
    script.table(["toy"], program, folder, True, count)
    print("made", len(made))
rounds(4, 3)
open(folder + "/rounds.jsonl", "a").write('[["torn by a kill')
rounds(5, 9)
rounds(1, 9, "another build")
"#;

/// Loads the script, and prints the table for caches of processors that there are, in MiB.
const TABLES: &str = r#"
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("injections", sys.argv[1])
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("injections", loader))
loader.exec_module(script)
print(*[script.table_mib(cache) for cache in (0.5, 1.5, 16, 32, 36, 48, 64, 96, 105, 300, 1152)])
"#;

/// Of a processor with any cache the table has a size that a study can have: a power of two, half of the cache at most.
#[test]
fn tables_of_injections_are_powers_of_two_whatever_the_cache() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/injections");
    let Ok(ran) = Command::new("python3").args(["-c", TABLES]).arg(script).output() else {
        eprintln!("skipped: no python3");
        return;
    };
    assert_eq!(text(&ran.stdout).trim(), "1 1 8 16 16 16 32 32 32 128 512", "{}", text(&ran.stderr));
}

#[test]
fn the_table_of_injections_can_be_made_in_pieces() {
    let bench = Bench::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/injections");
    let ran = Command::new("python3").args(["-c", PIECES]).arg(script).arg(bench.folder.path()).output();
    let Ok(ran) = ran else {
        eprintln!("skipped: no python3");
        return;
    };
    let out = text(&ran.stdout);
    assert!(ran.status.success(), "{out}{}", text(&ran.stderr));
    let of = |start: &str| out.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    assert_eq!(of("made"), ["made 3", "made 5", "made 6"], "{out}");
    let counts: Vec<_> = of("toy").iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(counts, ["3", "5", "1"], "{out}");
    assert!(out.contains("rounds.jsonl has toy 3 of this program, 0 of others"), "{out}");
    assert!(out.contains("rounds.jsonl has none of this program, 5 of others"), "{out}");
}
