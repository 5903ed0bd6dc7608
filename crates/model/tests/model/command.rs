//! A study whose workload is a program of its own: what it says, and what it is told.

use baremark_model::arm::ExecutorKind;
use baremark_model::command::{self, Finder, Take};
use baremark_model::descriptor::{Better, Value};
use baremark_model::plan::{Limits, Mode, resolve};
use baremark_model::study::{Study, parse};
use baremark_model::units::{Bytes, Nanos};

const SOUND: &str = r#"[study]
title = "a program by threads"

[workload]
kind = "command"
timeout = "30 s"

[command]
argv = ["tool", "--threads={threads}", "{mode}"]
prepare = [["mkdir", "data"], ["tool", "fill", "{folder}/data"]]
instruction_set = "avx2"

[command.parameters]
threads = 1
mode = "fast"

[command.quick]
threads = 1

[command.files]
"tool.conf" = "threads {threads}\nliteral {{threads}\n"

[command.needs]
tool = "tool-package"

[command.success]
exit = [0, 3]
present = ['PASSED']

[command.beside]
argv = ["server", "{port}"]
ready = 'listening'

[command.reading]
from = "report.json"
take = "sum"

[command.metrics.rate]
unit = "1/s"
better = "higher"
json = "/jobs/*/{key}"

[command.metrics.delay_us]
unit = "us"
better = "lower"
from = "stdout"
regex = 'delay (?<value>\d+) ns'
scale = "1e-3"
take = "last"

[factors]
threads = [1, 2]
"#;

fn parsed(text: &str) -> Result<Study, String> {
    parse("a.toml", text.as_bytes(), &[&command::BARE]).map_err(|problems| problems.to_string())
}

fn with(from: &str, to: &str) -> String {
    assert!(SOUND.contains(from), "the sound study has no {from:?}");
    SOUND.replacen(from, to, 1)
}

fn refusal(from: &str, to: &str) -> String {
    parsed(&with(from, to)).expect_err("a mistake")
}

#[test]
fn a_program_is_read_as_written_and_its_metrics_are_the_studys_own() {
    let study = parsed(SOUND).expect("sound");
    let keys: Vec<&str> = study.workloads[0].descriptor.metrics.iter().map(|metric| metric.key).collect();
    assert_eq!(keys, ["rate", "delay_us", "wall_s", "cpu_s"], "as typed, then what every program has");
    let Value::Program(program) = &study.workloads[0].parameters[command::KIND] else { panic!("no program") };
    assert_eq!(program.success.exit, [0, 3]);
    assert_eq!((program.prepare.len(), program.beside.as_ref().unwrap().ready.as_str()), (2, "listening"));
    assert_eq!(program.output_limit_bytes, 1 << 20);
    let [rate, delay] = program.metrics.as_slice() else { panic!("two metrics") };
    assert_eq!((rate.better, rate.take, &rate.from[..]), (Better::Higher, Take::Sum, "report.json"));
    assert_eq!(rate.finder, Finder::Json("/jobs/*/rate".to_owned()));
    assert_eq!((delay.take, delay.scale, &delay.from[..]), (Take::Last, 1e-3, "stdout"));
    let again = parsed(SOUND).expect("sound");
    assert!(std::ptr::eq(study.workloads[0].descriptor, again.workloads[0].descriptor), "one program, one descriptor");
}

#[test]
fn its_arms_carry_the_program_and_the_levels() {
    let limits = Limits { cpus: vec![0, 1], memory_available: Bytes(1 << 30), ..Limits::default() };
    let plan = resolve("a.toml", &parsed(SOUND).expect("sound"), &limits, Mode::default()).expect("a plan");
    assert_eq!(plan.metric, "rate");
    let threads: Vec<_> = plan.arms.iter().map(|arm| arm.arm.parameters["threads"].clone()).collect();
    assert_eq!(threads, [Value::Count(1), Value::Count(2)]);
    let arm = &plan.arms[1].arm;
    assert_eq!(arm.executor, ExecutorKind::Direct);
    assert_eq!(arm.parameters["timeout"], Value::TimeNs(Nanos(30_000_000_000)));
    let stored = serde_json::to_string(&plan).expect("a plan is stored");
    assert_eq!(serde_json::from_str::<baremark_model::plan::Plan>(&stored).expect("and read"), plan);
    let micro = parsed(&with("threads = [1, 2]", "environment = [\"native\", \"microvm\"]")).expect("sound");
    let why = resolve("a.toml", &micro, &limits, Mode::default()).expect_err("no system").to_string();
    assert!(why.contains("cannot run in environment 'microvm'; a microVM has no operating system"), "{why}");
}

#[test]
fn mistakes_are_told_with_their_line_and_what_would_be_right() {
    let cases = [
        ("argv = [\"tool\", \"--threads={threads}\", \"{mode}\"]\n", "", "[command] names no program"),
        ("{mode}", "{mod}", "nothing fills the placeholder {mod}; did you mean 'mode'?"),
        ("{mode}", "{mode_rows}", "nothing fills the placeholder {mode_rows}"),
        ("mode = \"fast\"", "mode = \"fast\"\nother = 3", "parameter 'other' stands nowhere"),
        ("mode = \"fast\"", "mode = 1.5", "mode: 'the default' is a float"),
        ("mode = \"fast\"", "ranks = 2\nmode = \"fast\"", "'ranks' has a meaning of its own"),
        ("\"tool.conf\"", "\"../tool.conf\"", "'../tool.conf' is no file in the program's folder"),
        ("(?<value>\\d+)", "(\\d+)", "the regex of metric 'delay_us' has no group 'value'"),
        ("(?<value>\\d+)", "(?<value>\\d+", "is no regular expression"),
        ("json = \"/jobs", "json = \"jobs", "is no JSON pointer; begin it with /"),
        ("json = \"/jobs/*/{key}\"\n", "", "metric 'rate' does not say where its value stands"),
        ("unit = \"us\"\n", "", "metric 'delay_us' has no unit"),
        ("scale = \"1e-3\"", "scale = \"few\"", "scale = 'few' is no number above 0"),
        ("[command.metrics.rate]", "[command.metrics.wall_s]", "'wall_s' is a metric that every program has"),
        ("exit = [0, 3]", "exit = [0, 256]", "exit = 256 is out of range"),
        ("prepare = [[", "prepare = [\"x\", [", "'prepare' is a string"),
        (
            "instruction_set = \"avx2\"",
            "timeout = \"3 s\"",
            "unknown key 'timeout' in [command]; it belongs in [workload]",
        ),
        ("[command.needs]\ntool = \"tool-package\"", "[command.needs]\ntool = 3", "'tool' is an integer"),
        ("[command.quick]\nthreads", "[command.quick]\nthread", "'thread' is no parameter of [command.parameters]"),
        ("threads = [1, 2]", "threads = [\"one\"]", "'threads' is a string"),
    ];
    for (from, to, expected) in cases {
        let told = refusal(from, to);
        assert!(told.contains(expected) && told.starts_with("a.toml:"), "{to:?}\n{told}\nhas no\n{expected}");
    }
    let bare = "[study]\ntitle = \"x\"\n[workload]\nkind = \"command\"\n";
    assert!(parsed(bare).expect_err("no program").contains("write a section [command] with argv"));
}
