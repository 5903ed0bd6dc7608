//! Programs under a real keeper: what comes of good ones, and that nothing is left of bad ones.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::allow_attributes,
    missing_docs,
    reason = "a test crate"
)]

mod bench;
mod messages;

use baremark_model::job::{Job, JobContext};
use baremark_model::machine::Isa;
use baremark_model::units::{Bytes, Nanos};
use baremark_model::value::{Beside, Declared, Program, Reading, Stdout, Value};
use baremark_programs::command::Command;
use baremark_programs::keeper::{End, Task};
use baremark_programs::workshop::Workshop;
use bench::{KEEPER, arm, failure, odd_sleep, rate, run, run_job, run_within, runs, shell, value, wait_until};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn a_program_gives_its_metrics_and_the_usual_ones() {
    let mut program = shell("echo rate 21 >&2; sleep 0.2");
    program.metrics.push(rate("stderr"));
    let run = run(program).unwrap();
    assert_eq!(value(&run, "rate"), 42.0);
    assert!(value(&run, "wall_s") >= 0.2 && value(&run, "cpu_s") < 60.0, "{run:?}");
    assert!(run.flags.is_empty(), "{run:?}");
}

/// What a program that copies 64 MiB at once uses.
#[test]
fn what_a_program_used_is_counted() {
    let run = run(shell("exec dd if=/dev/zero of=/dev/null bs=64M count=3")).unwrap();
    let [user, system, cpu] = ["user_s", "system_s", "cpu_s"].map(|metric| value(&run, metric));
    assert!((user + system - cpu).abs() < 1e-9 && cpu > 0.0, "{run:?}");
    let peak = value(&run, "peak_memory_bytes") / f64::from(1 << 20);
    assert!((64.0..100.0).contains(&peak), "{peak} MiB");
    let [faults, major] = ["page_faults", "major_faults"].map(|metric| value(&run, metric));
    assert!(faults > 100.0 && major <= faults, "{run:?}");
    let waiting = self::run(shell("sleep 0.01; sleep 0.01; sleep 0.01")).unwrap();
    assert!(value(&waiting, "context_switches") >= 3.0, "{waiting:?}");
}

/// The kernel counts a program's largest resident set from that of whoever started it: what it reports a smaller one is not the
/// program's.
#[test]
fn a_small_program_is_not_told_the_memory_of_its_keeper() {
    let run = run(shell("exec true")).unwrap();
    let peak = run.samples.iter().find(|sample| sample.metric == "peak_memory_bytes");
    assert!(peak.is_none_or(|peak| peak.value < f64::from(4 << 20)), "{run:?}");
}

#[test]
fn a_program_is_repeated_in_one_folder_for_as_long_as_a_phase_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let [runs, steps] = ["runs", "steps"].map(|name| folder.path().join(name));
    let lines = |path: &Path| fs::read_to_string(path).unwrap().lines().count();
    let mut program = shell(&format!("echo $PWD >> {}; echo rate 3", runs.display()));
    program.prepare.push(["sh", "-c", &format!("echo >> {}", steps.display())].map(str::to_owned).to_vec());
    program.metrics.push(rate("stdout"));
    program.repeat = true;
    let begun = Instant::now();
    let run = run(program.clone()).unwrap();
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(500), "the phase, and its warm-up before it");
    let ran = lines(&runs);
    assert!(ran >= 1 && lines(&steps) == ran, "{ran}");
    let counted: usize = run.checked.split_once(" runs").map_or(1, |(count, _)| count.parse().unwrap());
    // Those that ended in the first quarter are a warm-up; on a slow machine none did.
    assert!((1..=ran).contains(&counted), "{counted} of {ran}");
    // The time of one run: as long as all of them only where a slow machine had time for no second one.
    let most = took.as_secs_f64() / if counted > 1 { 2.0 } else { 1.0 };
    assert!(value(&run, "rate") == 6.0 && value(&run, "wall_s") <= most, "{run:?} of {counted} runs in {took:?}");
    let mut folders: Vec<String> = fs::read_to_string(&runs).unwrap().lines().map(str::to_owned).collect();
    folders.dedup();
    assert_eq!(folders.len(), 1);
    program.argv[2] = "sleep 1; exit 9".to_owned();
    assert!(failure(program).contains("it ended with exit code 9"));
}

#[test]
fn runs_that_warm_up_come_before_those_that_count() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let mut program = shell(&format!("echo >> {0}; echo rate $(wc -l < {0})", made.display()));
    program.metrics.push(Reading { scale: 1.0, ..rate("stdout") });
    program.warmup = 2;
    let arm = arm(&[("command", Value::Program(Box::new(program)))]);
    let cpus = baremark_sys::affinity::allowed_cpus().unwrap();
    let interrupt = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (keeper, phase) = (Path::new(KEEPER), Duration::ZERO);
    let around = JobContext { keeper, cpus: &cpus, seed: 7, phase, overwritable: &[], interrupt: &interrupt };
    let mut ready = Command.prepare(&arm, around).unwrap();
    ready.warm_up().unwrap();
    assert_eq!(value(&ready.run().unwrap(), "rate"), 3.0);
}

#[test]
fn its_folder_input_output_and_environment_are_as_the_study_says() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.txt"), "rate 5\n").unwrap();
    fs::write(folder.path().join("script"), "#!/bin/sh\ncat; pwd\n").unwrap();
    fs::set_permissions(folder.path().join("script"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut program = shell("");
    program.argv = vec!["./script".to_owned()];
    program.directory = folder.path().display().to_string();
    program.stdin = "in.txt".to_owned();
    program.metrics.push(rate("stdout"));
    program.success.present = vec![format!("(?m)^{}$", fs::canonicalize(folder.path()).unwrap().display())];
    assert_eq!(value(&run(program.clone()).unwrap(), "rate"), 10.0);
    program.stdin = "missing.txt".to_owned();
    assert!(failure(program.clone()).contains("could not be started: its input"), "{program:?}");
    program.argv =
        ["sh", "-c", "test /proc/self/fd/1 -ef /dev/null && echo rate 2 >&2; echo rate 4"].map(str::to_owned).to_vec();
    program.stdin.clear();
    program.success.present.clear();
    program.stdout = Stdout::Drop;
    program.metrics = vec![rate("stderr")];
    assert_eq!(value(&run(program).unwrap(), "rate"), 4.0);
    let mut program = shell("test \"$CARGO_MANIFEST_DIR\" = \"$EXPECTED\" && test \"$HOME\" = \"$OURS\"");
    program.inherit = vec!["*".to_owned()];
    program.environment.insert("EXPECTED".to_owned(), env!("CARGO_MANIFEST_DIR").to_owned());
    program.environment.insert("OURS".to_owned(), std::env::var("HOME").unwrap());
    run(program).unwrap();
}

#[test]
fn files_environment_steps_and_placeholders_reach_the_program_and_no_shell_reads_them() {
    let mut program = shell("");
    program.argv = ["./script", "{words}", "{ranks}", "{seed}"].map(str::to_owned).to_vec();
    let script = "#!/bin/sh\necho \"[$1] [$2] [$3] [$GIVEN] [$HOME] [${CARGO_PKG_NAME-none}] $(cat made)\" > out\n";
    program.files.insert("script".to_owned(), script.to_owned());
    program.environment.insert("GIVEN".to_owned(), "{words}".to_owned());
    program.prepare.push(["sh", "-c", "echo prepared in {folder} > made"].map(str::to_owned).to_vec());
    program.success.from = "out".to_owned();
    program.success.present =
        vec![r"^\[two words; \$HOME\] \[1\] \[7\] \[two words; \$HOME\] \[(/\S*)\] \[none\] prepared in /".to_owned()];
    run(program).unwrap();
}

#[test]
fn rules_and_grids_are_filled_for_each_level() {
    let mut program = shell("echo grid {processes_rows} x {processes_columns}, {name} of {ranks_rows}");
    let declared = |key: &str, default: Value| Declared { key: key.to_owned(), default, quick: None };
    program.parameters = vec![declared("processes", Value::Count(1)), declared("name", Value::Text(String::new()))];
    program.success.present = vec!["^grid 3 x 5, {name} of 1\n".to_owned()];
    let levels = |name: &str, program: &Program| {
        arm(&[
            ("command", Value::Program(Box::new(program.clone()))),
            ("processes", Value::Count(15)),
            ("name", Value::Text(name.to_owned())),
        ])
    };
    // A dot is a dot, and matches nothing else.
    run_job(&Command, &levels("a.b", &program)).unwrap();
    program.success.absent = vec!["{name}".to_owned()];
    let why = run_job(&Command, &levels("a.b", &program)).expect_err("it stands there").to_string();
    assert!(why.contains(r"forbidden pattern matched in output: 'a\.b'"), "{why}");
    program.argv[2] = program.argv[2].replace("{name}", "aXb");
    run_job(&Command, &levels("a.b", &program)).expect_err("the rule of presence");
    program.success.present.clear();
    run_job(&Command, &levels("a.b", &program)).unwrap();
}

#[test]
fn it_may_use_its_cpus_alone() {
    let mut program = shell("nproc");
    program.success.present = vec!["^1\n".to_owned()];
    run(program).unwrap();
}

#[test]
fn one_that_hangs_is_ended_at_its_time_out_with_all_that_it_started() {
    // On a slow machine it has said nothing yet at the first of these.
    for seconds in [2, 4, 8, 16, 32] {
        let sleep = odd_sleep();
        let script =
            format!("echo begun; sleep {sleep} & setsid sleep {sleep} & (setsid sleep {sleep} &) ; sleep {sleep}");
        let begun = Instant::now();
        let why = run_within(shell(&script), Duration::from_secs(seconds)).expect_err("it hangs").to_string();
        let told = format!("did not end within {seconds} s and was ended with all that it had started");
        assert!(why.contains(&told), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(60 + seconds));
        assert!(!runs(&sleep), "ended before the answer came");
        if why.contains("its last words:\n    begun") {
            return;
        }
    }
    panic!("it has no last words");
}

#[test]
fn a_daemon_that_outlives_its_program_is_ended_and_named() {
    let sleep = odd_sleep();
    // The daemon also holds the program's output open.
    let run = run(shell(&format!("(setsid sleep {sleep} &) ; exit 0"))).unwrap();
    assert!(!runs(&sleep));
    assert!(run.flags[0].starts_with("the program left processes running, which were ended: s"), "{run:?}");
    assert!(value(&run, "wall_s") < 60.0);
}

#[test]
fn a_flood_is_cut_and_told_and_its_end_is_still_read() {
    let mut program = shell("head -c 30000000 /dev/zero | tr '\\0' x; echo; echo rate 4");
    program.metrics.push(rate("stdout"));
    let run = run(program).unwrap();
    assert_eq!(value(&run, "rate"), 8.0);
    assert_eq!(run.flags, ["the program's stdout was longer than the limit, and its middle was not kept"]);
    let mut program = shell("echo rate 4; head -c 30000000 /dev/zero > big; exec head -c 300000 /dev/zero");
    program.metrics.push(rate("big"));
    assert!(failure(program).contains("its file big has more than 65536 bytes"));
    let mut lost = shell("head -c 60000 /dev/zero | tr '\\0' x; echo rate 4; head -c 60000 /dev/zero | tr '\\0' x");
    lost.metrics.push(rate("stdout"));
    assert!(failure(lost).contains("was not found in stdout, which was cut; raise output_limit"));
}

#[test]
fn garbage_is_no_result() {
    let mut program = shell("head -c 3000 /dev/urandom; echo rate fast");
    program.metrics.push(rate("stdout"));
    assert!(failure(program).contains("metric rate: 'fast' must be a number"));
    let mut program = shell("echo nothing of that kind");
    program.metrics.push(rate("stdout"));
    let why = failure(program.clone());
    assert!(why.contains("metric rate was not found in stdout; its last words:\n    nothing of that kind"), "{why}");
    program.metrics[0].optional = true;
    assert!(run(program).unwrap().samples.iter().all(|sample| sample.metric != "rate"));
}

#[test]
fn a_bad_end_is_told_with_the_last_lines() {
    let why = failure(shell("echo first; echo last >&2; exit 3"));
    assert_eq!(why, "sh: it ended with exit code 3; its last words:\n    first\n    last");
    assert!(failure(shell("kill -9 $$")).starts_with("sh: signal 9 ended it"));
    let mut program = shell("exit 3");
    program.success.exit = vec![0, 3];
    run(program.clone()).unwrap();
    program.success.exit.clear();
    program.argv[2] = "exit 77".to_owned();
    run(program).unwrap();
    let mut program = shell("");
    program.argv = vec!["no-such-program".to_owned()];
    assert!(failure(program).contains("no-such-program: it could not be started: "));
    let mut program = shell("true");
    program.prepare.push(vec!["false".to_owned()]);
    assert_eq!(failure(program), "false, which prepares the program: it ended with exit code 1");
}

#[test]
fn rules_on_the_output_are_kept() {
    let mut program = shell("echo PASSED; echo WARNING");
    program.success.present = vec!["PASSED".to_owned()];
    run(program.clone()).unwrap();
    program.success.absent = vec!["WARN".to_owned()];
    assert!(failure(program.clone()).contains("forbidden pattern matched in output: 'WARN'"));
    program.success.present = vec!["DONE".to_owned()];
    assert!(failure(program).contains("required pattern not found in output: 'DONE'"));
}

#[test]
fn what_the_site_lacks_is_named_with_its_package() {
    let mut program = shell("true");
    program.needs.insert("no-such-program".to_owned(), "its-package".to_owned());
    assert_eq!(failure(program), "program no-such-program not found at site; Debian package its-package");
    let mut program = shell("true");
    program.needs.insert("no-such-program".to_owned(), "build it: make that".to_owned());
    assert_eq!(failure(program), "program no-such-program not found at site; build it: make that");
    let mut program = shell("true");
    program.instruction_set = Some(Isa::Avx512);
    match baremark_kernels::isa::widest() {
        Isa::Avx512 => drop(run(program).unwrap()),
        _ => assert!(failure(program).contains("the program needs Avx512")),
    }
}

#[test]
fn what_runs_beside_is_ready_before_and_gone_after() {
    let sleep = odd_sleep();
    let beside = |script: String, ready: &str| {
        let mut program = shell("cat here");
        program.beside = Some(Beside { argv: vec!["sh".into(), "-c".into(), script], ready: ready.to_owned() });
        program
    };
    run(beside(format!("sleep 0.2; touch here; echo is up; exec sleep {sleep}"), "is up")).unwrap();
    assert!(!runs(&sleep));
    let why = failure(beside("echo no room; exit 4".to_owned(), "is up"));
    assert!(why.contains("was not ready: it ended with exit code 4; its last words:\n    no room"), "{why}");
}

#[test]
fn every_run_has_a_fresh_folder_that_goes() {
    let task = |argv: &[&str]| Task {
        argv: argv.iter().map(|&text| text.to_owned()).collect(),
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        timeout_ns: 60_000_000_000,
        output_limit_bytes: 1 << 16,
        ..Task::default()
    };
    let mut workshop = Workshop::open(Path::new(KEEPER)).unwrap();
    let folder = workshop.folder().to_path_buf();
    workshop.put("below/file", b"text").unwrap();
    let outcome = workshop.run(task(&["sh", "-c", "pwd; cat below/file; mkdir -p a/b; chmod 0 a"])).unwrap();
    assert_eq!(outcome.end, End::Exited { code: 0 });
    assert_eq!(outcome.stdout.text, format!("{}\ntext", fs::canonicalize(&folder).unwrap().display()));
    let other = Workshop::open(Path::new(KEEPER)).unwrap();
    assert_ne!(other.folder(), folder);
    drop(workshop);
    assert!(!folder.exists() && other.folder().exists());
}

/// What an agent that dies leaves: its keeper finds out, and clears everything away.
#[test]
fn nothing_outlives_an_agent() {
    use baremark_model::wire::{read_frame, write_frame};
    use baremark_programs::keeper::{FromKeeper, ToKeeper};
    let mut keeper = std::process::Command::new(KEEPER).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, mut from) = (keeper.stdin.take().unwrap(), keeper.stdout.take().unwrap());
    let FromKeeper::Here { folder } = read_frame(&mut from).unwrap() else { panic!("not here") };
    let sleep = odd_sleep();
    let task = Task {
        argv: ["/bin/sh", "-c", &format!("setsid sleep {sleep} & sleep {sleep}")].map(str::to_owned).to_vec(),
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        timeout_ns: 600_000_000_000,
        output_limit_bytes: 4096,
        ..Task::default()
    };
    write_frame(&mut to, &ToKeeper::Run(task)).unwrap();
    wait_until("the program runs", || runs(&sleep));
    drop(to);
    let status = keeper.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(!runs(&sleep), "ended before the keeper was");
    assert!(!folder.exists());
}

/// A project of many small files, as a tarball.
fn project(folder: &Path) -> std::path::PathBuf {
    const FILES: usize = 12;
    let tree = folder.join("project-1.0");
    fs::create_dir_all(tree.join("parts")).unwrap();
    let mut calls = String::new();
    let mut declared = String::new();
    for number in 0..FILES {
        let part = format!("#include <stdio.h>\nint part_{number}(void) {{ return {number}; }}\n");
        fs::write(tree.join(format!("parts/part_{number}.c")), part).unwrap();
        declared.push_str(&format!("int part_{number}(void);\n"));
        calls.push_str(&format!("+ part_{number}()"));
    }
    let main =
        format!("#include <stdio.h>\n{declared}int main(void) {{ printf(\"sum %d\\n\", 0 {calls}); return 0; }}\n");
    fs::write(tree.join("main.c"), main).unwrap();
    let makefile = "parts := $(patsubst %.c,%.o,$(wildcard parts/*.c)) main.o\nprogram: $(parts)\n\tcc -o $@ $^\n";
    fs::write(tree.join("Makefile.in"), makefile).unwrap();
    fs::write(tree.join("configure"), "#!/bin/sh\nexec cp Makefile.in Makefile\n").unwrap();
    let tarball = folder.join("project.tar.gz");
    pack(&tarball, folder, "project-1.0");
    tarball
}

/// A tarball, compressed as its name says, of what lies below `folder`.
fn pack(tarball: &Path, folder: &Path, what: &str) {
    let mut tar = std::process::Command::new("tar");
    let packed =
        tar.args(["--create", "--auto-compress", "--file"]).arg(tarball).arg("-C").arg(folder).arg(what).status();
    assert!(packed.unwrap().success());
}

#[test]
fn a_project_is_built_from_a_fresh_tree_and_its_artefact_must_run() {
    use baremark_programs::compile::Compile;
    let folder = tempfile::tempdir().unwrap();
    let words = |words: &[&str]| Value::Words(words.iter().map(|&word| word.to_owned()).collect());
    let mut parameters = vec![
        ("tarball", Value::Text(project(folder.path()).display().to_string())),
        ("configure", words(&["sh", "configure"])),
        ("build", words(&["make"])),
        ("jobs", Value::Count(2)),
        ("artefact", words(&["./program"])),
        ("says", Value::Text("sum 66".to_owned())),
    ];
    let built = run_job(&Compile, &arm(&parameters)).unwrap();
    assert_eq!(built.checked, "13 object files with 2 jobs; ./program runs and says so");
    let rate = 13.0 / value(&built, "wall_s");
    assert!((value(&built, "files_per_s") / rate - 1.0).abs() < 1e-6, "{built:?}");
    assert!(value(&built, "cpu_s") > 0.0);
    parameters[5].1 = Value::Text("sum 67".to_owned());
    let why = run_job(&Compile, &arm(&parameters)).expect_err("it says another sum").to_string();
    assert!(why.starts_with("./program was built and does not say 'sum 67'"), "{why}");
    parameters[2].1 = words(&["make", "no-such-target"]);
    let why = run_job(&Compile, &arm(&parameters)).expect_err("no such target").to_string();
    assert!(why.contains("make: it ended with exit code 2") && why.contains("no-such-target"), "{why}");
    let built_already = folder.path().join("built.tar");
    pack(&built_already, folder.path(), "project-1.0/configure");
    parameters[1].1 = words(&[]);
    parameters[2].1 = words(&["echo", "up to date"]);
    parameters[0].1 = Value::Text(built_already.display().to_string());
    let why = run_job(&Compile, &arm(&parameters)).expect_err("nothing is compiled").to_string();
    let expected = "echo up to date -j2 made no object file; name a tarball of sources that are not built yet";
    assert!(why.starts_with(expected) && why.ends_with("its last words:\n    up to date -j2"), "{why}");
    parameters[2].1 = words(&["make"]);
    let why = run_job(&Compile, &arm(&parameters)).expect_err("no Makefile").to_string();
    assert!(why.contains("make: it ended with exit code 2") && why.contains("no makefile found"), "{why}");
    fs::write(&built_already, [0x1f, 0x8b, 8, 0, 1, 2, 3]).unwrap();
    let why = run_job(&Compile, &arm(&parameters)).expect_err("no archive").to_string();
    assert!(why.starts_with("tar: it ended with exit code 2; its last words:") && why.contains("gzip"), "{why}");
    parameters[0].1 = Value::Text("/no/such/source.tar".to_owned());
    let why = run_job(&Compile, &arm(&parameters)).expect_err("no source").to_string();
    assert!(why.contains("/no/such/source.tar cannot be had at the site"), "{why}");
}

#[test]
fn users_act_and_the_most_of_them_are_found() {
    use baremark_programs::sessions::Sessions;
    let ns = |ms: u64| Value::TimeNs(Nanos(ms * 1_000_000));
    let mut parameters = vec![
        ("users", Value::Count(2)),
        ("each", Value::SizeBytes(Bytes(2 << 20))),
        ("pace", ns(20)),
        ("limit", ns(200)),
        ("duration", ns(1600)),
    ];
    let run = run_job(&Sessions, &arm(&parameters)).unwrap();
    let responses = ["response_p50_ms", "response_p95_ms", "response_p99_ms", "response_longest_ms"];
    let found: Vec<f64> =
        run.samples.iter().filter(|one| responses.contains(&&*one.metric)).map(|one| one.value).collect();
    assert!(!found.is_empty() && found.is_sorted(), "{run:?}");
    assert!(value(&run, "actions_per_s") > 0.0 && (0.0..=100.0).contains(&value(&run, "slow")), "{run:?}");
    assert!(value(&run, "processes_per_s") <= value(&run, "actions_per_s"), "{run:?}");
    assert!(run.checked.ends_with("documents opened as they were saved"), "{run:?}");
    // A limit that nobody keeps, and one that nobody breaks, end a search at its ends.
    parameters.push(("most", Value::Count(3)));
    parameters[4].1 = ns(200);
    parameters[3].1 = Value::TimeNs(Nanos(100));
    let run = run_job(&Sessions, &arm(&parameters)).unwrap();
    assert_eq!(value(&run, "users_within_limit"), 0.0, "{run:?}");
    parameters[3].1 = ns(60_000);
    let run = run_job(&Sessions, &arm(&parameters)).unwrap();
    assert!(run.samples.iter().all(|one| one.metric != "users_within_limit"), "a ceiling is no answer: {run:?}");
    assert_eq!(run.flags, ["ceiling reached: at least 3 users keep the limit; raise most"]);
    let too_many = [("users", Value::Count(10_000)), ("each", Value::SizeBytes(Bytes(1 << 36)))];
    let why = run_job(&Sessions, &arm(&too_many)).expect_err("no such memory").to_string();
    assert!(why.contains("write fewer users, or a smaller each"), "{why}");
}
