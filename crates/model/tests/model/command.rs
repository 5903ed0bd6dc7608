//! A study whose workload is a program of its own: what it says, and what it is told.

use baremark_model::arm::ExecutorKind;
use baremark_model::command;
use baremark_model::metric::Better;
use baremark_model::plan::{Limits, Mode, resolve};
use baremark_model::study::{Study, parse};
use baremark_model::units::{Bytes, Nanos};
use baremark_model::value::{Finder, Stdout, Take, Value};

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
    let usual = command::USUAL.iter().chain(&command::RUN_TIMES);
    let usual = usual.chain(&command::IN_GUEST).chain(&command::PROTECTED).map(|metric| metric.key);
    let expected: Vec<&str> = ["rate", "delay_us"].into_iter().chain(usual).collect();
    assert_eq!(keys, expected, "as typed, then what every program has");
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
    let both = parsed(&with("threads = [1, 2]", "environment = [\"native\", \"microvm\"]")).expect("sound");
    let plan = resolve("a.toml", &both, &limits, Mode::default()).expect("native can");
    let executors: Vec<ExecutorKind> = plan.arms.iter().map(|arm| arm.arm.executor).collect();
    assert_eq!((executors.as_slice(), plan.absent.len()), (&[ExecutorKind::Direct, ExecutorKind::Microvm][..], 0));
}

#[test]
fn mistakes_are_told_with_their_line_and_what_would_be_right() {
    let cases = [
        ("argv = [\"tool\", \"--threads={threads}\", \"{mode}\"]\n", "", "[command] names no program"),
        ("{mode}", "{mod}", "nothing fills the placeholder {mod}; did you mean 'mode'?"),
        ("{mode}", "{mode_rows}", "nothing fills the placeholder {mode_rows}"),
        ("mode = \"fast\"", "mode = \"fast\"\nother = 3", "parameter 'other' is never used"),
        ("mode = \"fast\"", "mode = 1.5", "mode: 'the default' is a float"),
        ("mode = \"fast\"", "ranks = 2\nmode = \"fast\"", "'ranks' is reserved in every study"),
        ("\"tool.conf\"", "\"../tool.conf\"", "'../tool.conf' is not a file in the program's folder"),
        ("(?<value>\\d+)", "(\\d+)", "the regex of metric 'delay_us' has no group 'value'"),
        ("(?<value>\\d+)", "(?<value>\\d+", "is not a regular expression"),
        ("json = \"/jobs", "json = \"jobs", "is not a JSON pointer; begin it with /"),
        ("json = \"/jobs/*/{key}\"\n", "", "metric 'rate' does not say where its value stands"),
        ("unit = \"us\"\n", "", "metric 'delay_us' has no unit"),
        ("better = \"lower\"\n", "", "metric 'delay_us' does not say whether higher or lower is better"),
        ("scale = \"1e-3\"", "scale = \"few\"", "scale = 'few' must be a number above 0"),
        ("[command.metrics.rate]", "[command.metrics.wall_s]", "'wall_s' is a metric that every program has"),
        ("exit = [0, 3]", "exit = [0, 256]", "exit = 256 is out of range"),
        ("prepare = [[", "prepare = [\"x\", [", "'prepare' is a string"),
        (
            "instruction_set = \"avx2\"",
            "timeout = \"3 s\"",
            "unknown key 'timeout' in [command]; it belongs in [workload]",
        ),
        ("[command.needs]\ntool = \"tool-package\"", "[command.needs]\ntool = 3", "'tool' is an integer"),
        ("[command.quick]\nthreads", "[command.quick]\nthread", "'thread' is not a parameter of [command.parameters]"),
        ("threads = [1, 2]", "threads = [\"one\"]", "'threads' is a string"),
    ];
    for (from, to, expected) in cases {
        let told = refusal(from, to);
        assert!(told.contains(expected) && told.starts_with("a.toml:"), "{to:?}\n{told}\nhas no\n{expected}");
    }
    let bare = "[study]\ntitle = \"x\"\n[workload]\nkind = \"command\"\n";
    assert!(parsed(bare).expect_err("no program").contains("write a section [command] with argv"));
}

const SEVERAL: &str = r#"[study]
title = "an old and a new build"

[workload]
kind = "command"

[command]
argv = ["./old", "--level={level}"]
directory = "/srv/data"
stdin = "in.txt"
stdout = "drop"
repeat = true
warmup_runs = 2
setup = [["make", "old"]]
prepare = [["sync"]]

[command.environment]
LANG = "C"

[command.parameters]
level = 1

[commands.old]

[commands."new build"]
argv = ["./new", "-l", "{level}"]
setup = [["make", "new"]]
cleanup = [["make", "clean"]]
stdout = "keep"

[commands."new build".environment]
FAST = "1"

[factors]
command = ["old", "new build"]
level = [1, 9]

[report]
ratio_to = { command = "old" }
columns = "command"
"#;

#[test]
fn the_former_name_of_warm_up_runs_is_read_with_a_notice() {
    let study = parsed(&SEVERAL.replace("warmup_runs", "warmup")).expect("sound");
    let [notice] = study.renamed.as_slice() else { panic!("{:?}", study.renamed) };
    assert!(notice.ends_with("'warmup' in [command] is called 'warmup_runs' now"), "{notice}");
    let limits = Limits { cpus: vec![0], memory_available: Bytes(1 << 30), ..Limits::default() };
    let plan = resolve("a.toml", &study, &limits, Mode::default()).expect("a plan");
    assert_eq!(command::of_arm(&plan.arms[0].arm).expect("a program").warmup, 2);
    let both = SEVERAL.replace("warmup_runs = 2", "warmup_runs = 2\nwarmup = 3");
    let refused = parsed(&both).map(drop).expect_err("twice");
    assert!(refused.contains("'warmup_runs' is set twice, also as 'warmup'; keep one of the two"), "{refused}");
}

#[test]
fn programs_by_name_are_levels_of_a_factor_and_share_what_they_do_not_say() {
    let study = parsed(SEVERAL).expect("sound");
    let limits = Limits { cpus: vec![0], memory_available: Bytes(1 << 30), ..Limits::default() };
    let plan = resolve("a.toml", &study, &limits, Mode::default()).expect("a plan");
    assert_eq!(plan.factors[0], ("command".to_owned(), vec!["old".to_owned(), "new build".to_owned()]));
    let program = |arm: usize| command::of_arm(&plan.arms[arm].arm).expect("a program");
    let (old, new) = (program(0), program(2));
    assert_eq!((&old.name[..], &old.argv[0][..], old.warmup, old.repeat), ("old", "./old", 2, true));
    assert_eq!((&old.directory[..], &old.stdin[..], old.stdout), ("/srv/data", "in.txt", Stdout::Drop));
    assert_eq!((&new.name[..], &new.argv[0][..], new.warmup, new.repeat), ("new build", "./new", 2, true));
    assert_eq!((&new.directory[..], &new.stdin[..], new.stdout), ("/srv/data", "in.txt", Stdout::Keep));
    assert_eq!(
        (&old.setup[0][1][..], &new.setup[0][1][..], old.cleanup.len(), new.cleanup.len()),
        ("old", "new", 0, 1)
    );
    assert_eq!((&old.prepare, old.environment.len(), new.environment.len()), (&new.prepare, 1, 2));
    let pairs: Vec<_> = plan.pairs.iter().map(|pair| (pair.numerator, pair.denominator, pair.interleaved)).collect();
    assert_eq!(pairs, [(2, 0, true), (3, 1, true)], "each level of the other factor against its own");
    let stored = serde_json::to_string(&plan).expect("a plan is stored");
    assert_eq!(serde_json::from_str::<baremark_model::plan::Plan>(&stored).expect("and read"), plan);
}

#[test]
fn mistakes_in_programs_by_name_are_told() {
    let cases = [
        (
            "command = [\"old\", \"new build\"]\n",
            "",
            "the study does not say which of its [commands] it runs; write command = [\"old\", \"new build\"]",
        ),
        (
            "[\"old\", \"new build\"]\nlevel",
            "[\"old\", \"newbuild\"]\nlevel",
            "command = 'newbuild' is not known; did you mean 'new build'?",
        ),
        ("\"./new\", ", "\"{lev}\", ", "nothing fills the placeholder {lev}"),
        ("cleanup = [[\"make\", \"clean\"]]", "cleanup = \"make\"", "'cleanup' is a string"),
        (
            "[commands.old]",
            "[commands.old]\nrepaet = true",
            "unknown key 'repaet' in [commands.old]; did you mean 'repeat'?",
        ),
        ("[commands.old]", "[commands.\"old=1\"]", "[commands.old=1] has a name that cannot be used"),
        (
            "[commands.\"new build\".environment]",
            "[commands.\"new build\".success]",
            "'success' in [commands.new build] is shared by all programs",
        ),
        ("argv = [\"./old\", \"--level={level}\"]\n", "", "[commands.old] names no program"),
        ("\"/srv/data\"", "\"data\"", "directory = 'data' is not an absolute path"),
        ("kind = \"command\"", "kind = \"random-access\"", "unknown workload kind 'random-access'"),
    ];
    for (from, to, expected) in cases {
        assert!(SEVERAL.contains(from), "{from}");
        let told = parsed(&SEVERAL.replacen(from, to, 1)).expect_err("a mistake");
        assert!(told.contains(expected) && told.starts_with("a.toml:"), "{to:?}\n{told}\nhas no\n{expected}");
    }
    let unnamed = SOUND.replacen("threads = [1, 2]", "command = [\"old\"]", 1);
    let told = parsed(&unnamed).expect_err("no such section");
    assert!(told.contains("command = 'old' is not known; describe it in a section [commands.old]"), "{told}");
}
