//! scripts/efficiency: how it finds the best plan in a trace, and how it judges what runs have reached.

use crate::common::bench::text;
use crate::common::installed::has;
use std::path::PathBuf;
use std::process::Command;

/// Judges documents that nobody measured: white noise of 5 % between quads of 10 ms, trials of `start` seconds besides.
const JUDGED: &str = r#"
import importlib.machinery, importlib.util, math, random, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("efficiency", sys.argv[1])
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("efficiency", loader))
loader.exec_module(script)
native, machine = ({"workload": "fma", "environment": of} for of in ("native", "microvm"))
def document(trials, each, start, width, seed, measured=0.8):
    draw = random.Random(seed)
    def trial():
        phases = [[math.exp(0.05 * draw.gauss(0, 1)) for _ in range(2 * each)] for _ in range(2)]
        arms = [{"treatment": of, "phases": own} for of, own in zip((native, machine), phases)]
        return {"status": "ok", "arms": arms, "schedule": [0, 1, 1, 0] * each, "discarded": [], "elapsed_ns": int(1e9 * (start + 0.01 * each))}
    row = {"contrast": "environment", "treatment": machine, "relative_to": native, "blocks": trials, "confidence": 0.95,
           "ratio": 1.0, "lo": math.exp(-width), "hi": math.exp(width)}
    phases = 0.01 * each * trials
    time = [{"workload": "fma", "part": "measured", "seconds": phases}, {"workload": "", "part": "measured", "share": measured}]
    return {"trials": [trial() for _ in range(trials)], "ratios": [row], "time": time}
trace = document(8, 200, 1.0, 0.001, 1)
[(first, below, above)] = [found for found in script.counted(trace, trace["ratios"][0])][:1]
quads = script.quads(first, below, above)
a, b = (first["arms"][place]["phases"] for place in (below, above))
print("quad", math.isclose(quads[0], (math.log(b[0]) + math.log(b[1]) - math.log(a[0]) - math.log(a[1])) / 2), len(quads))
print("costs", [round(of, 6) for of in script.costs(trace, "fma")])
said = [{"workload": of, "part": part, "seconds": 2.0} for of in ("fma", "hpl") for part in ("start", "memory", "between phases")]
print("of runs", [round(of, 6) for of in script.costs(trace, "fma", [{**trace, "time": said}, trace])])
trials = [script.quads(*of) for of in script.counted(trace, trace["ratios"][0])]
for start in (0.001, 1.0):
    width, each, blocks = script.best(trials, start, 0.01, 20.0, random.Random(1))
    print("best", start, blocks > 10)
print("none", script.best(trials, 10.0, 0.01, 20.0, random.Random(1)))
width, _, _ = script.best(trials, 1.0, 0.01, 10 * 1.2, random.Random(36))
for factor, measured in ((1.1, 0.8), (1.4, 0.8), (1.1, 0.7)):
    run = document(10, 20, 1.0, factor * width, 2, measured)
    print("missed", script.table(trace, [run])[1])
wide = {**trace["ratios"][0], "blocks": 10, "confidence": 0.99}
print("confidence", script.reached(wide) < 0.001, script.reached({**wide, "confidence": 0.95}))
"#;

#[test]
fn plans_are_compared_at_equal_time_and_goals_that_are_missed_are_counted() {
    if !has("efficiency", &["python3"]) {
        return;
    }
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/efficiency");
    let ran = Command::new("python3").args(["-c", JUDGED]).arg(script).output().unwrap();
    let out = text(&ran.stdout);
    assert!(ran.status.success(), "{out}{}", text(&ran.stderr));
    let expected = [
        "quad True 200",
        "costs [1.0, 0.01]",
        "of runs [0.5, 0.01]",
        "best 0.001 True",
        "best 1.0 False",
        "none None",
        "missed 0",
        "missed 1",
        "missed 1",
    ];
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[..expected.len()], expected, "{out}");
    assert!(lines[expected.len()].starts_with("confidence True 0.00"), "{out}");
}
