//! The sandbox: what a program finds in it, that it conforms, and that nothing of it outlives whoever wanted it.

use crate::bench::{Bench, signal, text};
use crate::outcome::{counted, counts, rows};
use crate::run_in::fold_in;
use crate::shrunk::shrunk;
use crate::sites::{NEVER, Program, as_lab, cpu, lab, temporary, usable, wait_for};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::sandbox::{Sandbox, Settings};
use baremark_model::site::Environment;
use baremark_sys::sandbox::Layer;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;

/// Control groups that sandboxes make, on this machine.
fn groups() -> BTreeSet<PathBuf> {
    let below = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let roots = [PathBuf::from("/sys/fs/cgroup")].into_iter().chain(below(PathBuf::from("/sys/fs/cgroup")));
    let ours =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("baremark-memory-"));
    roots.flat_map(below).filter(ours).collect()
}

/// What is left of sandboxes of this program: processes, and groups that were not there before.
fn left(program: &Program, before: &BTreeSet<PathBuf>) -> Vec<String> {
    let groups = groups().difference(before).map(|path| path.display().to_string()).collect::<Vec<_>>();
    program.processes().into_iter().chain(groups).collect()
}

/// Runs a shell's script in a sandbox of these layers, in the bench's folder, which it may write to.
fn run(program: &Program, bench: &Bench, layers: &[Layer], script: &str) -> Output {
    let names: Vec<&str> = layers.iter().map(|layer| layer.name()).collect();
    let mut command = Command::new(program.path());
    command.arg("sandbox").arg(format!("--layers={}", names.join(","))).arg("--write").arg(bench.folder.path());
    command.args(["--", "/bin/sh", "-c", script]).current_dir(bench.folder.path()).env("HOME", "/nowhere");
    command.output().unwrap()
}

/// The layers that this machine permits; `None`, and a line, where there is no sandbox.
fn layers(program: &Program) -> Option<Vec<Layer>> {
    let sandbox = Sandbox::new(program.path(), Settings::default());
    usable(&sandbox).then(|| sandbox.layers().unwrap().has)
}

fn skipped(has: &[Layer], needed: &[Layer]) -> bool {
    let missing = needed.iter().find(|layer| !has.contains(layer));
    missing.inspect(|layer| eprintln!("skipped: this machine refuses the layer {}", layer.name())).is_some()
}

#[test]
fn a_sandbox_conforms() {
    let program = Program::new();
    let sandbox = Sandbox::new(program.path(), Settings::default());
    if !usable(&sandbox) {
        return;
    }
    let before = groups();
    assert!(!sandbox.emulated(&NEVER));
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &|| left(&program, &before) };
    assert_eq!(conformance(&sandbox, &place), Ok(()));
}

/// By the filter alone, as where every namespace is refused.
#[test]
fn a_sandbox_without_namespaces_conforms() {
    let program = Program::new();
    let settings = Settings { layers: Some(vec![Layer::Capabilities, Layer::Seccomp]), ..Settings::default() };
    let sandbox = Sandbox::new(program.path(), settings);
    if !usable(&sandbox) {
        return;
    }
    let before = groups();
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &|| left(&program, &before) };
    assert_eq!(conformance(&sandbox, &place), Ok(()));
}

#[test]
fn a_program_in_a_sandbox_has_no_rights_and_writes_to_its_own_folders_alone() {
    let (program, bench) = (Program::new(), Bench::new());
    let Some(has) = layers(&program) else { return };
    if skipped(&has, &[Layer::Mount, Layer::Pid, Layer::Uts, Layer::Network, Layer::Capabilities, Layer::Seccomp]) {
        return;
    }
    let script = "sed -n 's/^CapEff:\\s*//p; s/^CapBnd:\\s*//p; s/^NoNewPrivs:\\s*//p; s/^Seccomp:\\s*//p' /proc/self/status; hostname
        tail -n +3 /proc/net/dev | wc -l; for f in /proc/[0-9]*; do echo p; done | wc -l; ls /dev | tr '\\n' ' '; echo
        touch /etc/changed 2>/dev/null || echo read-only; echo x > own && echo written; touch /tmp/own && echo temporary
        echo x > /dev/null && head -c 3 /dev/zero | wc -c; echo 1 2>/dev/null > /proc/sys/vm/drop_caches || echo kept";
    let ran = run(&program, &bench, &has, script);
    let said = text(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", text(&ran.stderr));
    let lines: Vec<&str> = said.lines().collect();
    let none = "0000000000000000";
    assert_eq!(lines[..5], [none, none, "1", "2", "sandbox"], "{said}");
    assert_eq!(lines[5], "1", "only a loopback: {said}");
    // Its first process, the shell, and what runs at that moment.
    assert!(lines[6].parse::<u32>().is_ok_and(|processes| processes < 8), "{said}");
    let devices: BTreeSet<&str> = lines[7].split_whitespace().collect();
    assert!(devices.contains("null") && !devices.contains("kvm") && !devices.contains("mem"), "{said}");
    assert_eq!(lines[8..], ["read-only", "written", "temporary", "3", "kept"], "{said}");
    assert_eq!(fs::read_to_string(bench.path("own")).unwrap(), "x\n");
    assert!(!Path::new("/tmp/own").exists() && !Path::new("/etc/changed").exists());
}

/// A program that has the terminal of whoever started it can type there.
#[test]
fn a_program_in_a_sandbox_has_no_terminal() {
    let (program, bench) = (Program::new(), Bench::new());
    let Some(has) = layers(&program) else { return };
    let names: Vec<&str> = has.iter().map(|layer| layer.name()).collect();
    let asks = "(: </dev/tty) 2>/dev/null && echo terminal || echo none";
    let line = format!("{} sandbox --layers={} -- /bin/sh -c '{asks}'", program.path().display(), names.join(","));
    let mut command = Command::new("script");
    command.args(["--quiet", "--command"]).args([line.as_str(), "/dev/null"]).stdin(std::process::Stdio::null());
    let Ok(ran) = command.current_dir(bench.folder.path()).output() else {
        return eprintln!("skipped: no script(1), which makes a terminal");
    };
    assert_eq!(text(&ran.stdout).trim(), "none", "{}", text(&ran.stderr));
}

/// It had an empty one, and so had commands that were compared in a folder that is /tmp itself.
#[test]
fn a_sandbox_that_may_write_tmp_has_this_machines() {
    let (program, bench) = (Program::new(), Bench::new());
    let Some(has) = layers(&program) else { return };
    if skipped(&has, &[Layer::Mount]) || !bench.folder.path().starts_with("/tmp") {
        return;
    }
    let names: Vec<&str> = has.iter().map(|layer| layer.name()).collect();
    let mut command = Command::new(program.path());
    command
        .arg("sandbox")
        .arg(format!("--layers={}", names.join(",")))
        .args(["--write", "/tmp", "--", "/bin/sh", "-c"]);
    let script = "echo x > own && stat -c %d /tmp; touch /var/changed 2>/dev/null || echo read-only";
    let ran = command.arg(script).current_dir(bench.folder.path()).output().unwrap();
    let device = fs::metadata("/tmp").unwrap().dev();
    assert_eq!(text(&ran.stdout), format!("{device}\nread-only\n"), "{}", text(&ran.stderr));
    assert_eq!(fs::read_to_string(bench.path("own")).unwrap(), "x\n");
}

#[test]
fn what_engines_refuse_is_refused() {
    let (program, bench) = (Program::new(), Bench::new());
    let Some(has) = layers(&program) else { return };
    if skipped(&has, &[Layer::Seccomp]) {
        return;
    }
    // perf_event_open and io_uring_setup by their numbers, as no program without a filter would find them answered.
    let source = "#include <stdio.h>\n#include <errno.h>\n#include <unistd.h>\nint main(void) { syscall(298, 0, 0, 0, 0, 0); \
                  printf(\"%d\", errno); syscall(425, 0, 0); printf(\" %d\\n\", errno); return 0; }\n";
    let Some(_) = crate::run_in::built(&bench, "ask", source, &["-static"]) else {
        eprintln!("skipped: no C compiler that links statically");
        return;
    };
    let ran = run(&program, &bench, &has, "./ask");
    assert_eq!(text(&ran.stdout).trim(), format!("{} {}", libc::EPERM, libc::ENOSYS), "{}", text(&ran.stderr));
}

#[test]
fn an_exit_code_comes_through_and_so_does_what_could_not_be_started() {
    let (program, bench) = (Program::new(), Bench::new());
    let Some(has) = layers(&program) else { return };
    assert_eq!(run(&program, &bench, &has, "exit 7").status.code(), Some(7));
    assert_eq!(run(&program, &bench, &has, "kill -9 $$").status.code(), Some(128 + 9));
    let refused =
        Command::new(program.path()).args(["sandbox", "--layers=seccomp", "--", "/no/such/program"]).output().unwrap();
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("starting /no/such/program"), "{said}");
}

/// A user without rights gets all layers for which user namespaces suffice.
#[test]
fn an_ordinary_user_has_a_sandbox() {
    let (program, bench) = (Program::new(), Bench::new());
    let Some(has) = layers(&program) else { return };
    if skipped(&has, &[Layer::User, Layer::Mount, Layer::Pid]) {
        return;
    }
    for path in [program.path(), program.path().parent().unwrap().to_owned(), bench.folder.path().to_owned()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(program.path());
    command
        .args(["list", "environments"])
        .uid(65534)
        .gid(65534)
        .current_dir(bench.folder.path())
        .env("HOME", "/nowhere");
    let said = text(&command.output().unwrap().stdout);
    let listed = said.lines().find(|line| line.starts_with("sandbox")).unwrap_or_default().to_owned();
    assert!(!listed.contains("not here"), "{said}");
    let all: Vec<&str> = has.iter().filter(|layer| **layer != Layer::ControlGroup).map(|layer| layer.name()).collect();
    let mut command = Command::new(program.path());
    command.arg("sandbox").arg(format!("--layers={}", all.join(","))).args(["--", "/bin/sh", "-c", "id -u; echo $$"]);
    let ran = command.uid(65534).gid(65534).current_dir("/").output().unwrap();
    assert_eq!(text(&ran.stdout), "65534\n2\n", "{}", text(&ran.stderr));
}

/// Where user namespaces are forbidden that layer is left out by name, and the others stay.
#[test]
fn forbidden_user_namespaces_are_left_out_with_the_reason() {
    let (program, bench) = (Program::new(), Bench::new());
    let Some(has) = layers(&program) else { return };
    if skipped(&has, &[Layer::User]) {
        return;
    }
    // In a user namespace of its own the limit is that namespace's, and nobody else's.
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && {} --store store.db plan standard --quick; {0} doctor | grep -A2 ' sandbox'",
        program.path().display()
    );
    let ran = run(&program, &bench, &[Layer::User], &script);
    let said = text(&ran.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("user (a user namespace: No space left on device"), "{said}{}", text(&ran.stderr));
    assert!(said.contains("seccomp"), "{said}");
}

/// No test: what the test below runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| Sandbox::new(program, Settings::default()).start(&NEVER).unwrap());
}

#[test]
fn a_killed_lab_leaves_no_sandbox() {
    let program = Program::new();
    if layers(&program).is_none() {
        return;
    }
    let (before, files) = (groups(), temporary());
    let mut lab = lab("sandbox::a_lab_to_be_killed", &program, &[]);
    wait_for(|| (!program.agents().is_empty()).then_some(()));
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| left(&program, &before).is_empty().then_some(()));
    assert_eq!(temporary(), files);
}

/// The launcher is killed first, so that nobody ends the sandbox but the kernel.
#[test]
fn a_killed_launcher_leaves_no_process() {
    let program = Program::new();
    if layers(&program).is_none() {
        return;
    }
    let before = groups();
    let mut lab = lab("sandbox::a_lab_to_be_killed", &program, &[]);
    wait_for(|| (!program.agents().is_empty()).then_some(()));
    for pid in crate::bench::children(lab.id()) {
        signal(pid, libc::SIGKILL);
    }
    wait_for(|| program.agents().is_empty().then_some(()));
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| program.pids().is_empty().then_some(()));
    // A group without a process in it, which the next run of the program removes by its record.
    let left = || groups().difference(&before).cloned().collect::<Vec<_>>();
    // A process that is gone for who looks may still be in its group for an instant.
    wait_for(|| left().iter().all(|group| fs::remove_dir(group).is_ok()).then_some(()));
}

#[test]
fn a_static_and_a_dynamic_program_print_the_same_in_a_sandbox() {
    let program = Program::new();
    if layers(&program).is_none() {
        return;
    }
    for out in fold_in(&Bench::new(), "native,sandbox") {
        assert!(out.contains("sandbox / native = 1.00 "), "{out}");
    }
}

/// Loaded data is kept between runs and places: whoever comes first loads it, natively or in the sandbox, and the other finds it. Their phases take turns.
#[test]
fn a_database_is_loaded_once_for_native_and_a_sandbox() {
    let program = Program::new();
    if layers(&program).is_none_or(|has| skipped(&has, &[Layer::Mount])) {
        return;
    }
    // Not below the working folder, which may be written anyway.
    let (bench, home) = (Bench::new(), TempDir::new().unwrap());
    let few =
        [("duration", "\"300 ms\""), ("warm_up", "\"50 ms\""), ("quads", "0"), ("least_blocks", "4\nmost_blocks = 4")];
    let text_of = shrunk("order-entry", &[&few[..], &[("environment", "[\"native\", \"sandbox\"]")]].concat());
    let lines = text_of.lines().filter(|line| !line.starts_with("instead_of"));
    let lines = lines.map(|line| if line.starts_with("budget") { "budget = \"10 min\"" } else { line });
    bench.write("study.toml", lines.collect::<Vec<_>>().join("\n"));
    let mut command = bench.command(&["--json", "run", "study.toml"]);
    let ran = command.env("XDG_DATA_HOME", home.path()).output().unwrap();
    let said = text(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let found = ["native", "sandbox"].map(|place| counted(&document, &json!({ "environment": place })));
    assert!(found.iter().all(|trials| *trials > 0), "{said}\n{document:#}");
    for trial in rows(&document, "trials").iter().filter(|trial| counts(trial)) {
        let arms = rows(trial, "arms");
        assert_eq!(arms.len(), 2, "{trial:#}");
        assert!(arms.iter().all(|arm| arm["counters"]["idle_ns"].as_u64().is_some_and(|ns| ns > 0)), "{trial:#}");
    }
    let kept = fs::read_dir(home.path().join("baremark/databases")).unwrap().flatten();
    let kept: Vec<PathBuf> = kept.map(|entry| entry.path()).collect();
    assert!(matches!(&kept[..], [only] if only.join("data/database").is_file()), "{kept:?}");
}

/// Native and a sandbox in one trial: both agents stay, their phases alternate, and whichever waits does nothing.
#[test]
fn native_and_a_sandbox_take_turns_phase_by_phase() {
    let program = Program::new();
    if layers(&program).is_none() {
        return;
    }
    let bench = Bench::new();
    let study = "[study]\ntitle = \"turns\"\n[workload]\nkind = \"fma\"\n[factors]\nenvironment = [\"native\", \"sandbox\"]\nranks = 1\n\
                 [design]\nquads = 5\nleast_blocks = 4\nmost_blocks = 4\n[report]\nratio_to = { environment = \"native\" }\n";
    bench.write("study.toml", study);
    let before = groups();
    let ran = bench.run(&["run", "study.toml"]);
    assert_eq!(ran.status.code(), Some(0), "{}{}", text(&ran.stdout), text(&ran.stderr));
    let document = bench.json(&["report", "--json"]);
    let trials = rows(&document, "trials");
    assert_eq!(trials.len(), 4, "one for both arms in each block: {document:#}");
    for trial in trials.iter().filter(|trial| counts(trial)) {
        let schedule: Vec<u64> = rows(trial, "schedule").iter().map(|arm| arm.as_u64().unwrap()).collect();
        assert!(schedule.len() == 20 && schedule.chunks(4).all(|quad| quad == [0, 1, 1, 0] || quad == [1, 0, 0, 1]));
        let arms = rows(trial, "arms");
        let places: Vec<&Value> = arms.iter().map(|arm| &arm["treatment"]["environment"]).collect();
        assert_eq!(places, ["native", "sandbox"]);
        for arm in arms {
            let phases = rows(arm, "phases");
            assert!(phases.len() >= 2 && phases.len() * 2 <= schedule.len(), "{arm:#}");
            let counted = |name: &str| arm["counters"][name].as_u64().unwrap();
            // 1 %, and what hearing of its turns takes: at most 200 us for a stretch of the other's, which lasts 5 ms or longer.
            assert!(counted("idle_ns") > 0 && counted("idle_cpu_ns") * 20 <= counted("idle_ns"), "{arm:#}");
        }
        assert_eq!(rows(&arms[0], "phases").len(), rows(&arms[1], "phases").len(), "{trial:#}");
    }
    if trials.iter().any(counts) {
        let details =
            text(&bench.run(&["report", "--details"]).stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            details.contains("native and sandbox took turns phase by phase, each at a site of its own"),
            "{details}"
        );
    }
    assert!(left(&program, &before).is_empty(), "{:?}", left(&program, &before));
}

/// When the comparison of a program is over its system calls are counted on both sides, where the kernel permits it, and what is left of the difference is named.
#[test]
fn a_program_in_a_sandbox_is_examined_and_its_calls_are_counted() {
    let program = Program::new();
    if layers(&program).is_none() {
        return;
    }
    let bench = Bench::new();
    let before = groups();
    // Five hundred writes of a shell, a call each.
    let script = "i=0; while [ $i -lt 500 ]; do echo x; i=$((i + 1)); done";
    let ran = bench.run(&["run", "--in", "native,sandbox", "--budget", "20 s", "--", "/bin/sh", "-c", script]);
    assert_eq!(ran.status.code(), Some(0), "{}{}", text(&ran.stdout), text(&ran.stderr));
    let document = bench.json(&["report", "--json"]);
    let rows: Vec<&Value> = rows(&document, "explanations").iter().collect();
    let of = |part: &str| rows.iter().copied().find(|row| row["what"].as_str().unwrap().contains(part));
    let rest = rows.iter().copied().rfind(|row| row["cause"] == "examined").expect("a row of what is left");
    let advice = rest["advice"].as_str().unwrap();
    if let Some(calls) = of("extra time of system calls (") {
        let what = calls["what"].as_str().unwrap();
        let counted: u64 = what.split(['(', ' ']).find_map(|word| word.parse().ok()).unwrap();
        assert!((500..2000).contains(&counted), "a write for each line, and what starting a shell takes: {what}");
        assert!(calls["advice"].as_str().unwrap().contains(" ns, against "), "{calls:#}");
    } else if advice.contains("not examined: system calls (") {
        eprintln!("skipped: system calls are not counted here: {advice}");
    } else {
        assert!(
            advice.contains("not examined: the program (") || advice.contains("CPU time of several threads"),
            "{rest:#}"
        );
        eprintln!("skipped: {advice}");
    }
    assert!(left(&program, &before).is_empty(), "{:?}", left(&program, &before));
}
