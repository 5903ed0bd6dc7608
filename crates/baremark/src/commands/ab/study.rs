//! The study of an `ab` or a `run --in`: written from the arguments as TOML, so that what is printed, stored and run is one text.

use super::arguments::{Arguments, Options};
use super::elsewhere;
use super::words::{quote, split};
use crate::exit::Refusal;
use crate::named_places::{self, Place};
use crate::overrides;
use baremark_model::command;
use baremark_model::environments;
use baremark_model::literal::{section, whole};
use baremark_model::units::{Nanos, Share};
use baremark_model::value::Finder;
use baremark_sys::sandbox;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::ParseIntError;
use std::path::Path;
use toml::{Table, Value};

/// Names of commands that have none.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// By what programs are compared where nothing else is requested.
const METRIC: &str = "wall_s";
/// For how long programs are compared at most where nothing else is requested.
const BUDGET: Nanos = Nanos(60_000_000_000);
/// Metrics that get a ratio in addition to the headline's.
const ALSO: [&str; 6] = ["wall_s", "cpu_s", "user_s", "system_s", "context_switches", "page_faults"];

/// Variables that change how programs work: of the locale, and of libraries that divide work among threads or manage memory. They are nobody's secret.
const PASSED: [&str; 10] = [
    "GLIBC_TUNABLES",
    "GOGC",
    "GOMAXPROCS",
    "GOMEMLIMIT",
    "LANG",
    "LANGUAGE",
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "TZ",
    "UV_THREADPOOL_SIZE",
];
/// How the names of others begin.
const PASSED_PREFIXES: [&str; 8] = ["BLIS_", "GOMP_", "KMP_", "LC_", "MALLOC_", "MKL_", "OMP_", "OPENBLAS_"];

/// Where a program runs when nothing is said: in every environment that has this machine's files, and so needs nothing of a user.
fn usual_places() -> Vec<String> {
    let named = environments::names(|can| can.host_files && can.runs_work());
    named.into_iter().map(str::to_owned).collect()
}

/// The virtual machine without which alone the usual place that is separated by the kernel is used.
fn virtual_machine(places: &[Place]) -> Option<&str> {
    places.iter().map(|place| place.name.as_str()).find(|name| environments::can(name).virtual_machine)
}

/// A study and its remarks.
pub struct Study {
    /// What it was written by.
    pub name: &'static str,
    /// Its text.
    pub text: String,
    /// The commands by name.
    pub commands: Vec<(String, String)>,
    /// What runs it again.
    pub command_line: String,
}

/// A command as typed.
struct Command {
    name: String,
    text: String,
    argv: Vec<String>,
}

/// Everything that a study is written from.
struct Request<'a> {
    name: &'static str,
    commands: Vec<Command>,
    parameters: BTreeMap<String, Vec<String>>,
    places: Vec<Place>,
    /// Whether the places are the usual ones, of which one is used instead of another.
    usual: bool,
    options: &'a Options,
    folder: &'a str,
}

/// The study of several commands.
pub fn of_commands(arguments: &Arguments) -> Result<Study, Refusal> {
    let (folder, typed) = (working_folder()?, typed_words()?);
    commands_in(arguments, &folder, typed)
}

fn commands_in(arguments: &Arguments, folder: &str, typed: Vec<String>) -> Result<Study, Refusal> {
    let options = &arguments.options;
    if options.duet && options.spending.by.as_deref() != Some(command::CPU.key) {
        return Err(Refusal::bad_input("--duet: compares CPU time alone; add --by cpu_s"));
    }
    let parameters = parameters(&options.parameter)?;
    let commands = commands(arguments, &parameters)?;
    let places = named_places::places(&options.places, options.image.as_deref())?;
    written(Request { name: "ab", commands, parameters, places, usual: false, options, folder }, typed)
}

/// The study of one program in several places.
pub fn of_program(options: &Options, program: &[String]) -> Result<Study, Refusal> {
    let (folder, typed) = (working_folder()?, typed_words()?);
    program_in(options, program, &folder, typed)
}

fn program_in(options: &Options, program: &[String], folder: &str, typed: Vec<String>) -> Result<Study, Refusal> {
    let parameters = parameters(&options.parameter)?;
    let keys: Vec<&str> = parameters.keys().map(String::as_str).collect();
    let text = program.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    let words = shelled(options, &text, || Ok(program.to_vec()))?;
    let argv = words.iter().map(|word| command::escape(word, &keys)).collect();
    let commands = vec![Command { name: String::new(), text, argv }];
    let usual = usual_places();
    let is_usual = options.places.is_empty();
    let places = if is_usual { &usual } else { &options.places };
    let places = named_places::places(places, options.image.as_deref())?;
    written(Request { name: "run", commands, parameters, places, usual: is_usual, options, folder }, typed)
}

fn working_folder() -> Result<String, Refusal> {
    let folder = std::env::current_dir().map_err(|why| Refusal::failure(format!("asking for the folder: {why}")))?;
    folder.into_os_string().into_string().map_err(|folder| {
        Refusal::bad_input(format!("{}: not UTF-8; run it in another folder", folder.to_string_lossy()))
    })
}

/// The command line after the program's name.
fn typed_words() -> Result<Vec<String>, Refusal> {
    let text = |word: std::ffi::OsString| {
        let other = |word: std::ffi::OsString| {
            Refusal::bad_input(format!("{}: not UTF-8; rename the file", word.to_string_lossy()))
        };
        word.into_string().map_err(other)
    };
    std::env::args_os().skip(1).map(text).collect()
}

fn written(request: Request<'_>, typed: Vec<String>) -> Result<Study, Refusal> {
    let Request { name, commands, parameters, places, usual, options, folder } = request;
    let metric = compared_by(options)?;
    let several = commands.len() > 1;
    let title: Vec<&str> = commands.iter().map(|command| command.text.as_str()).collect();
    let mut study = Table::new();
    put(&mut study, "study", section([("title", title.join(" | ").into())]));
    put(
        &mut study,
        "workload",
        section([("kind", command::KIND.into()), ("timeout", options.timeout.to_string().into())]),
    );
    let mut own = Table::new();
    if !several {
        put(&mut own, "argv", commands[0].argv.clone());
    }
    put(&mut own, "directory", command::escape(folder, &[]));
    put(&mut own, "inherit", vec!["*"]);
    put(&mut own, "repeat", true);
    put(&mut own, "warmup_runs", whole(options.warmup));
    let keys: Vec<&str> = parameters.keys().map(String::as_str).collect();
    if let Some(stdin) = &options.stdin {
        put(&mut own, "stdin", command::escape(stdin, &keys));
    }
    let kept = !options.metric.is_empty();
    put(&mut own, "stdout", options.output.as_deref().unwrap_or(if kept { "keep" } else { "drop" }));
    if places.iter().any(Place::is_another_machine) {
        put(&mut own, "carry", elsewhere::files(&words(&commands, options), &options.with, folder)?);
        // An agent there inherits none of this process's: the same program would be another work.
        let passed = passed_elsewhere(std::env::vars_os());
        if !passed.is_empty() {
            put(&mut own, "environment", passed);
        }
    }
    let steps = [("setup", &options.setup), ("prepare", &options.prepare), ("cleanup", &options.cleanup)];
    for (key, typed) in steps {
        if typed.len() > 1 && typed.len() != commands.len() {
            return Err(Refusal::bad_input(format!(
                "--{key} is given {} times for {} commands; give one, or one for each",
                typed.len(),
                commands.len()
            )));
        }
        if let [all] = typed.as_slice() {
            put(&mut own, key, vec![argv(options, all, &keys)?]);
        }
    }
    sections(&mut own, options, &parameters)?;
    put(&mut study, command::KIND, own);
    if several {
        let mut named = Table::new();
        for (index, command) in commands.iter().enumerate() {
            let mut own = section([("argv", command.argv.clone().into())]);
            for (key, typed) in steps.iter().filter(|(_, typed)| typed.len() > 1) {
                put(&mut own, key, vec![argv(options, &typed[index], &keys)?]);
            }
            put(&mut named, &command.name, own);
        }
        put(&mut study, command::NAMED, named);
    }
    let factors = factors(&commands, &parameters, &places);
    if !factors.is_empty() {
        put(&mut study, "factors", factors);
    }
    let mut environments = Table::new();
    for place in &places {
        let mut settings = place.settings();
        let hides_files = place.hides_files();
        if hides_files {
            settings.extend(seen(folder, &elsewhere::files(&words(&commands, options), &options.with, folder)?));
        }
        if let Some(first) = virtual_machine(&places).filter(|_| usual && hides_files) {
            put(&mut settings, environments::INSTEAD_OF.key, first);
        }
        if !settings.is_empty() {
            put(&mut environments, &place.name, settings);
        }
    }
    if !environments.is_empty() {
        put(&mut study, "environments", environments);
    }
    put(&mut study, "design", design(options));
    put(&mut study, "report", report((options, metric), &commands, &parameters, &places));
    let text = format!("# Written by `baremark {name}`.\n\n{study}");
    let commands = commands.into_iter().map(|command| (command.name, command.text)).collect();
    let typed: Vec<String> = typed.iter().map(|word| quote(word)).collect();
    Ok(Study { name, text, commands, command_line: format!("baremark {}", typed.join(" ")) })
}

/// The words of all commands, and the file that they read as input.
fn words(commands: &[Command], options: &Options) -> Vec<Vec<String>> {
    let mut words: Vec<Vec<String>> = commands.iter().map(|command| command.argv.clone()).collect();
    words.extend(options.stdin.iter().map(|file| vec![String::new(), file.clone()]));
    words
}

/// Those of these variables that programs get in environments that are not this machine, in the order of their names.
fn passed_elsewhere(variables: impl Iterator<Item = (OsString, OsString)>) -> Table {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let is_passed =
        |name: &str| PASSED.contains(&name) || PASSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let passed: BTreeMap<String, String> = variables.filter_map(text).filter(|(name, _)| is_passed(name)).collect();
    passed.into_iter().map(|(name, value)| (name, command::escape(&value, &[]).into())).collect()
}

/// What a sandbox has to show of this machine: the folder in which the commands run, and their files in folders that it has of its own.
fn seen(folder: &str, files: &[String]) -> Table {
    let write: Vec<String> = if folder == "/" { Vec::new() } else { vec![folder.to_owned()] };
    let hidden = |file: &&String| {
        let file = Path::new(file.as_str());
        sandbox::hides(file) && !write.iter().any(|shown| file.starts_with(shown))
    };
    let read: Vec<String> = files.iter().filter(hidden).cloned().collect();
    let settings = [("write", write), ("read", read)].into_iter().filter(|(_, paths)| !paths.is_empty());
    settings.map(|(key, paths)| (key.to_owned(), paths.into())).collect()
}

fn commands(arguments: &Arguments, parameters: &BTreeMap<String, Vec<String>>) -> Result<Vec<Command>, Refusal> {
    let keys: Vec<&str> = parameters.keys().map(String::as_str).collect();
    let mut commands: Vec<Command> = Vec::new();
    for (index, typed) in arguments.commands.iter().enumerate() {
        let letter = LETTERS
            .get(index..=index)
            .ok_or_else(|| Refusal::bad_input("more than 26 commands; compare fewer at once"))?;
        let (name, text) = match typed.split_once('=').filter(|_| arguments.named > 0) {
            Some((name, text)) if !name.is_empty() && !name.contains(['/', ' ']) => (name, text),
            _ => (letter, typed.as_str()),
        };
        if commands.iter().any(|command| command.name == name) {
            return Err(Refusal::bad_input(format!("two commands have the name {name}; give each its own")));
        }
        let appended: Vec<String> = arguments.arguments.iter().map(|word| quote(word)).collect();
        let text = std::iter::once(text.to_owned()).chain(appended).collect::<Vec<_>>().join(" ");
        let argv = argv(&arguments.options, &text, &keys)?;
        commands.push(Command { name: name.to_owned(), text, argv });
    }
    Ok(commands)
}

/// The words of a command, in which declared parameters alone are placeholders.
fn argv(options: &Options, text: &str, keys: &[&str]) -> Result<Vec<String>, Refusal> {
    let words = shelled(options, text, || split(text).map_err(Refusal::bad_input))?;
    Ok(words.iter().map(|word| command::escape(word, keys)).collect())
}

/// A shell with the text, where one is requested; else the words.
fn shelled(
    options: &Options,
    text: &str,
    words: impl FnOnce() -> Result<Vec<String>, Refusal>,
) -> Result<Vec<String>, Refusal> {
    match &options.shell {
        Some(shell) => Ok(vec![shell.clone(), "-c".to_owned(), text.to_owned()]),
        None => words(),
    }
}

/// Of two the last would count.
fn given_twice(option: &str, name: &str) -> Refusal {
    Refusal::bad_input(format!("{option}: {name} is given twice; give each name once"))
}

/// Values by name: a list, or a range of whole numbers.
fn parameters(typed: &[String]) -> Result<BTreeMap<String, Vec<String>>, Refusal> {
    let mut parameters = BTreeMap::new();
    for typed in typed {
        let wrong = || {
            let what = format!("--parameter {typed}: not NAME=A,B,C or NAME=FIRST..LAST");
            Refusal::bad_input(format!("{what}; write such as threads=1..8"))
        };
        let (name, values) = typed.split_once('=').filter(|(_, values)| !values.is_empty()).ok_or_else(wrong)?;
        let numbers =
            overrides::range(values).map_err(|why| Refusal::bad_input(format!("--parameter {typed}: {why}")))?;
        let values: Vec<String> = match numbers {
            Some(numbers) => numbers.iter().map(u64::to_string).collect(),
            None => values.split(',').map(str::to_owned).collect(),
        };
        if parameters.insert(name.to_owned(), values).is_some() {
            return Err(given_twice("--parameter", name));
        }
    }
    Ok(parameters)
}

fn sections(own: &mut Table, arguments: &Options, parameters: &BTreeMap<String, Vec<String>>) -> Result<(), Refusal> {
    if !parameters.is_empty() {
        let first = parameters.iter().map(|(name, values)| (name.clone(), typed(values, &values[0])));
        put(own, "parameters", Table::from_iter(first));
    }
    if let Some(codes) = &arguments.ignore_exit {
        let mut exit: Vec<u32> = Vec::new();
        for code in codes.split(',').filter(|code| !code.is_empty()) {
            let wrong = |why: ParseIntError| {
                Refusal::bad_input(format!("--ignore-exit {code}: {why}; write codes from 0 to 255"))
            };
            let code: u8 = code.parse().map_err(wrong)?;
            exit.extend(exit.is_empty().then_some(0));
            exit.push(code.into());
        }
        put(own, "success", section([("exit", exit.into())]));
    }
    let mut metrics = Table::new();
    for typed in &arguments.metric {
        let wrong =
            || Refusal::bad_input(format!("--metric {typed}: not NAME=PATTERN; write such as 'rate=rate: ([0-9.]+)'"));
        let (name, pattern) = typed.split_once('=').ok_or_else(wrong)?;
        let higher = arguments.spending.by.as_ref().is_some_and(|by| *by == format!("{name}:higher"));
        let Finder::Regex(pattern) = Finder::with_group(pattern).ok_or_else(|| {
            let what = format!("--metric {typed}: the pattern marks no number");
            Refusal::bad_input(format!("{what}; put it in parentheses, such as ([0-9.]+)"))
        })?
        else {
            return Err(wrong());
        };
        let row = [
            ("unit", "".into()),
            ("better", if higher { "higher" } else { "lower" }.into()),
            ("regex", pattern.into()),
            ("take", "last".into()),
        ];
        if metrics.contains_key(name) {
            return Err(given_twice("--metric", name));
        }
        put(&mut metrics, name, section(row));
    }
    if !metrics.is_empty() {
        put(own, "metrics", metrics);
    }
    Ok(())
}

/// A value as it is declared: a whole number where all values of its parameter are.
fn typed(values: &[String], value: &str) -> Value {
    match values.iter().all(|value| value.parse::<u64>().is_ok()) {
        true => whole(value.parse::<u64>().unwrap_or_default()),
        false => value.into(),
    }
}

fn factors(commands: &[Command], parameters: &BTreeMap<String, Vec<String>>, places: &[Place]) -> Table {
    let mut factors = Table::new();
    if !places.is_empty() {
        put(&mut factors, environments::FACTOR, places.iter().map(|place| place.name.clone()).collect::<Vec<_>>());
    }
    if commands.len() > 1 {
        put(&mut factors, command::KIND, commands.iter().map(|command| command.name.clone()).collect::<Vec<_>>());
    }
    for (name, values) in parameters {
        put(&mut factors, name, values.iter().map(|value| typed(values, value)).collect::<Vec<_>>());
    }
    factors
}

fn design(arguments: &Options) -> Table {
    let half = arguments.fail_above.map_or(0.01, |margin| margin.0 / 2.0);
    let precision = arguments.spending.precision.unwrap_or(Share(half.min(0.01)));
    let delta = Share(arguments.fail_above.map_or(0.0, |margin| margin.0).max(2.0 * precision.0));
    let mut design = section([
        ("precision", precision.to_string().into()),
        ("delta", delta.to_string().into()),
        ("budget", arguments.spending.budget.unwrap_or(BUDGET).to_string().into()),
        ("phase", "100 ms".into()),
        ("most_blocks", 10_000.into()),
    ]);
    if arguments.duet {
        put(&mut design, "duet", true);
    }
    design
}

/// The metric by which is compared. A direction is that of a metric which --metric declares: of every other one it would be ignored.
fn compared_by(options: &Options) -> Result<&str, Refusal> {
    let by = options.spending.by.as_deref().unwrap_or(METRIC);
    let Some((name, direction)) = by.split_once(':') else { return Ok(by) };
    let is_declared = options.metric.iter().any(|typed| typed.split_once('=').is_some_and(|(of, _)| of == name));
    match direction {
        _ if !is_declared => Err(Refusal::bad_input(format!(
            "--by {by}: a direction belongs to a metric of --metric; write --by {name}, or add -m '{name}=PATTERN'"
        ))),
        "higher" | "lower" => Ok(name),
        _ => Err(Refusal::bad_input(format!(
            "--by {by}: '{direction}' is not a direction; write {name}:higher or {name}:lower"
        ))),
    }
}

/// What is compared: commands where there are several, else places, else values of a parameter.
fn report(
    (options, metric): (&Options, &str),
    commands: &[Command],
    parameters: &BTreeMap<String, Vec<String>>,
    places: &[Place],
) -> Table {
    // How long a program took next to the other is not compared.
    let compared = |key: &&str| *key != metric && !(options.duet && *key == METRIC);
    let also: Vec<&str> = ALSO.into_iter().filter(compared).collect();
    let mut report = section([("metric", metric.into()), ("also", also.into())]);
    let compared = match (commands, places, parameters.iter().next()) {
        ([first, _, ..], ..) => Some((command::KIND, first.name.as_str().into())),
        (_, [base, _, ..], _) => Some((environments::FACTOR, base.name.as_str().into())),
        (.., first) => first.map(|(name, values)| (name.as_str(), typed(values, &values[0]))),
    };
    if let Some((factor, base)) = compared {
        put(&mut report, "columns", factor);
        put(&mut report, "ratio_to", section([(factor, base)]));
    }
    report
}

fn put(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key.to_owned(), value.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::descriptors;
    use crate::overrides::{Changes, Spending};
    use baremark_model::study::{self, Study as Parsed};
    use baremark_model::value::{Program, Stdout, Value};
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        arguments: Arguments,
        #[arg(long)]
        json: bool,
    }

    fn study_of(words: &[&str]) -> Result<Study, String> {
        let cli = Cli::try_parse_from(std::iter::once("ab").chain(words.iter().copied()));
        let arguments = cli.map_err(|why| why.to_string())?.arguments.joined();
        let typed = words.iter().map(|&word| word.to_owned()).collect();
        commands_in(&arguments, "/srv/{data}", typed).map_err(|why| why.message)
    }

    fn parsed(words: &[&str]) -> Parsed {
        let text = study_of(words).expect("sound").text;
        study::parse("ab", text.as_bytes(), &descriptors()).unwrap_or_else(|why| panic!("{why}\n{text}"))
    }

    fn programs(study: &Parsed) -> Vec<Program> {
        let levels = study.factors.iter().find(|factor| factor.key == command::KIND).map(|factor| &factor.levels[..]);
        let only = study.workloads[0].parameters.get(command::KIND);
        let program = |value: &Value| match value {
            Value::Program(program) => (**program).clone(),
            _ => panic!("no program: {value:?}"),
        };
        levels.unwrap_or_default().iter().chain(only).map(program).collect()
    }

    /// How many runs a trial has follows from the first block.
    #[test]
    fn a_comparison_of_commands_leaves_its_quads_to_what_they_vary_by() {
        let study = parsed(&["true", "false"]);
        assert_eq!((study.design.quads, study.line("design.quads")), (1, 0));
    }

    #[test]
    fn a_duet_compares_cpu_time_alone() {
        let study = parsed(&["true", "false", "--duet", "--by", "cpu_s"]);
        assert!(study.duet && !parsed(&["true", "false", "--by", "cpu_s"]).duet);
        let chosen = &study.workloads[0];
        assert_eq!(chosen.metric(), "cpu_s");
        assert_eq!(chosen.also, ["user_s", "system_s", "context_switches", "page_faults"]);
        for by in [&[][..], &["--by", "wall_s"], &["--by", "rate", "-m", "rate=rate ([0-9]+)"]] {
            let why = study_of(&[&["true", "false", "--duet"], by].concat()).err().unwrap_or_default();
            assert_eq!(why, "--duet: compares CPU time alone; add --by cpu_s", "{by:?}");
        }
    }

    #[test]
    fn commands_become_levels_in_their_order_whichever_way_they_are_named() {
        let names = |words: &[&str]| {
            let of = |program: Program| format!("{}: {}", program.name, program.argv.join("|"));
            programs(&parsed(words)).into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(names(&["gzip -1 'a b'", "gzip -6"]), ["A: gzip|-1|a b", "B: gzip|-6"]);
        assert_eq!(names(&["-n", "old=./a x=1", "-n", "new=./b"]), ["old: ./a|x=1", "new: ./b"]);
        assert_eq!(names(&["-n", "old=./a", "new=./b"]), ["old: ./a", "new: ./b"]);
        assert_eq!(
            names(&["./a", "-n", "new=./b", "--", "--size", "a b"]),
            ["A: ./a|--size|a b", "new: ./b|--size|a b"]
        );
        assert_eq!(names(&["--shell", "a | b", "c"]), ["A: /bin/sh|-c|a | b", "B: /bin/sh|-c|c"]);
        assert_eq!(names(&["true"]), [": true"]);
        assert_eq!(names(&["ls {d}", "-L", "d=../a,../b"]), [": ls|{d}"]);
    }

    #[test]
    fn every_option_reaches_the_study() {
        let study = parsed(&[
            "tool {n} {other}",
            "b {n}",
            "-L",
            "n=1..3",
            "-p",
            "sync",
            "-s",
            "make a",
            "-s",
            "make b",
            "-c",
            "rm x",
            "-w",
            "4",
            "-i",
            "--stdin",
            "in",
            "-m",
            "rate=rate: ([0-9]+)",
            "--by",
            "rate:higher",
            "--fail-above",
            "2%",
            "--budget",
            "5s",
        ]);
        let [a, b] = programs(&study).try_into().expect("two");
        assert_eq!(command::fill(&a.argv[2], |_| None).as_deref(), Ok("{other}"), "not declared, so literal");
        assert_eq!((a.warmup, a.repeat, &a.stdin[..], a.stdout), (4, true, "in", Stdout::Keep));
        assert_eq!(command::fill(&a.directory, |_| None).as_deref(), Ok("/srv/{data}"));
        assert_eq!((a.prepare.clone(), b.prepare), (vec![vec!["sync".to_owned()]], vec![vec!["sync".to_owned()]]));
        assert_eq!((&a.setup[0][1][..], &b.setup[0][1][..], &b.cleanup[0][0][..]), ("a", "b", "rm"));
        assert!(a.success.exit.is_empty() && a.inherit == ["*"]);
        assert_eq!(study.workloads[0].metric(), "rate");
        assert_eq!(
            (study.design.precision, study.design.delta, study.design.budget.0),
            (Share(0.01), Share(0.02), 5_000_000_000)
        );
        assert_eq!(study.factors[1].levels, [1, 2, 3].map(Value::Count));
    }

    #[derive(Parser)]
    struct RunCli {
        #[command(flatten)]
        spending: Spending,
        #[command(flatten)]
        changes: Changes,
        #[command(flatten)]
        options: Options,
        #[arg(long)]
        json: bool,
        #[arg(last = true)]
        program: Vec<String>,
    }

    fn run_of(words: &[&str]) -> Result<String, String> {
        let cli = RunCli::try_parse_from(std::iter::once("run").chain(words.iter().copied()));
        let mut cli = cli.map_err(|why| why.to_string())?;
        cli.options.spending = cli.spending;
        cli.options.places = cli.changes.places;
        program_in(&cli.options, &cli.program, "/", Vec::new()).map(|study| study.text).map_err(|why| why.message)
    }

    #[test]
    fn a_runtime_is_not_an_image_and_jobs_of_clusters_are_environments() {
        let text =
            run_of(&["--in", "native,container:crun,container:debian:12,slurm:short,mpi", "--", "sh"]).expect("sound");
        let study = study::parse("run", text.as_bytes(), &descriptors()).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let of = |name: &str, key: &str| study.environments[name].get(key).map(ToString::to_string);
        assert_eq!((of("crun", "runtime").as_deref(), of("crun", "image")), (Some("crun"), None));
        assert_eq!(of("crun", "like").as_deref(), Some("container"));
        assert_eq!((of("container-2", "runtime"), of("container-2", "image").as_deref()), (None, Some("debian:12")));
        assert_eq!(of("slurm", "partition").as_deref(), Some("short"));
        assert_eq!(study.factors[0].levels.len(), 5);
        let help = named_places::help();
        for form in ["container[:IMAGE|RUNTIME]", "slurm[:PARTITION]", "ssh:HOST[:PORT]", "mpi"] {
            assert!(help.contains(form), "{help}");
        }
    }

    #[test]
    fn a_program_runs_in_places_against_the_first_and_its_files_are_carried_elsewhere() {
        let of = |words: &[&str]| {
            let text = run_of(words).expect("sound");
            study::parse("run", text.as_bytes(), &descriptors()).unwrap_or_else(|why| panic!("{why}\n{text}"))
        };
        let usual = of(&["--", "sh", "-c", "echo {x} | cat"]);
        assert_eq!(
            usual.factors[0].levels,
            ["native", "microvm", "sandbox"].map(|place| Value::Choice(place.to_owned()))
        );
        assert_eq!(usual.environments["sandbox"]["instead_of"].to_string(), "microvm");
        assert!(programs(&usual)[0].carry.is_empty(), "no files are copied for the environment native");
        assert_eq!(programs(&usual)[0].argv[2], "echo {{x} | cat", "no placeholder");
        let study = of(&["--in", "native,container,ssh:root@far:2222,ssh:near", "--with", "/etc/hosts", "--", "sh"]);
        let carried: Vec<String> = programs(&study)[0].carry.keys().cloned().collect();
        assert!(carried.iter().any(|path| path.ends_with("bin/sh")), "{carried:?}");
        assert!(carried.iter().any(|path| path.contains("ld-linux")) && carried.contains(&"/etc/hosts".to_owned()));
        let text = |name: &str, key: &str| study.environments[name][key].to_string();
        let sandboxed = of(&["--in", "native,sandbox", "--with", "/dev/null", "--", "sh"]);
        assert!(programs(&sandboxed)[0].carry.is_empty(), "a sandbox has this machine's files");
        assert_eq!(sandboxed.environments["sandbox"]["read"].to_string(), "/dev/null", "what it would hide");
        assert!(!sandboxed.environments["sandbox"].contains_key("write"), "the folder is /, which stays read-only");
        assert_eq!((text("ssh", "host"), text("ssh", "port")), ("root@far".to_owned(), "2222".to_owned()));
        assert_eq!((text("ssh-2", "host"), text("ssh-2", "like")), ("near".to_owned(), "ssh".to_owned()));
        assert_eq!(study.layout.ratio_to, [("environment".to_owned(), Value::Choice("native".to_owned()))].into());
    }

    /// A container got none of the caller's: with OMP_NUM_THREADS=1 its program had all CPUs, and native one.
    #[test]
    fn variables_that_change_how_a_program_works_are_passed_elsewhere_and_no_others() {
        let of = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let passed = passed_elsewhere(
            [of("OMP_NUM_THREADS", "1"), of("LC_ALL", "C"), of("TZ", "{utc}"), of("HOME", "/root"), of("API_KEY", "x")]
                .into_iter(),
        );
        assert_eq!(passed.keys().collect::<Vec<_>>(), ["LC_ALL", "OMP_NUM_THREADS", "TZ"]);
        assert_eq!((passed["OMP_NUM_THREADS"].as_str(), passed["TZ"].as_str()), (Some("1"), Some("{{utc}")));
    }

    #[test]
    fn pods_are_named_by_context_and_namespace() {
        let settings = |words: &[&str]| {
            let text = run_of(&[words, &["--", "true"]].concat()).expect("sound");
            let study =
                study::parse("run", text.as_bytes(), &descriptors()).unwrap_or_else(|why| panic!("{why}\n{text}"));
            let of = &study.environments["kubernetes"];
            ["context", "namespace", "image"].map(|key| of.get(key).map(ToString::to_string).unwrap_or_default())
        };
        let busybox = "docker.io/library/busybox:stable";
        assert_eq!(settings(&["--in", "native,kubernetes:prod/42"]), ["prod", "42", busybox]);
        assert_eq!(
            settings(&["--in", "kubernetes:arn:aws:eks:x:cluster/c/lab"]),
            ["arn:aws:eks:x:cluster/c", "lab", busybox]
        );
        assert_eq!(settings(&["--in", "kubernetes:/lab", "--image", "localhost/x:1"]), ["", "lab", "localhost/x:1"]);
        assert_eq!(settings(&["--in", "kubernetes"]), ["", "", busybox]);
    }

    #[test]
    fn places_that_cannot_be_are_refused() {
        for (places, expected) in [
            ("native,native", "native is named twice"),
            ("nativ", "--in nativ: unknown; did you mean 'native'?"),
            ("native,microvn", "--in microvn: unknown; did you mean 'microvm'?"),
            ("kubernets:prod/42", "did you mean 'kubernetes'?"),
            ("elsewhere", "--in elsewhere: unknown; write native, microvm"),
            ("ssh", "ssh needs a host"),
            ("native:x", "native takes nothing after a colon"),
            ("kubernetes:prod", "write kubernetes:prod/NAMESPACE"),
        ] {
            let why = run_of(&["--in", places, "--", "true"]).expect_err("refused");
            assert!(why.contains(expected), "{places}: {why}");
        }
        let why = run_of(&["--in", "native", "--image", "busybox", "--", "true"]).expect_err("no pod");
        assert!(why.contains("add --in kubernetes"), "{why}");
        assert!(run_of(&["--in", "container", "--", "no-such-program"]).expect_err("refused").contains("not found"));
    }

    #[test]
    fn mistakes_are_refused_with_what_would_be_right() {
        let cases: [(&[&str], &str); 11] = [
            (&["a {x}", "-L", "x=1..3", "-L", "x=4"], "--parameter: x is given twice"),
            (&["a", "b", "-m", "rate=(1)", "-m", "rate=(2)"], "--metric: rate is given twice"),
            (&["a | b", "c"], "add --shell"),
            // A gate on a rate would have failed whatever is better.
            (&["a", "b", "-m", "rate=rate ([0-9]+)", "--by", "rate:high"], "'high' is not a direction"),
            (&["a", "b", "--by", "wall_s:higher"], "write --by wall_s, or add -m 'wall_s=PATTERN'"),
            (&["-n", "x=a", "x=b"], "two commands have the name x"),
            (&["a", "b", "c", "-p", "x", "-p", "y"], "--prepare is given 2 times for 3 commands"),
            (&["a", "b", "-m", "rate=[0-9]+"], "put it in parentheses"),
            (&["a", "b", "-L", "n=9..1"], "from 1 to 256 numbers, the first the smallest"),
            (&["a", "b", "-i=300"], "write codes from 0 to 255"),
            (&["a", "b", "--fail-above", "0"], "write a percentage from 0.02 to 50"),
        ];
        for (words, expected) in cases {
            let why = study_of(words).err().unwrap_or_default();
            assert!(why.contains(expected), "{words:?}: {why}");
        }
    }
}
