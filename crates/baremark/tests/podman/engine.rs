//! Containers, by the engine that is installed.

use crate::bench::{Bench, signal, text};
use crate::containers::{
    Image, Look, all_and_devices, containers, is_relayed, left, traces_of, while_counting_devices,
};
use crate::sites::{NEVER, Program, as_lab, cpu, lab, print_times, temporary, trial_of, usable, wait_for};
use baremark_environments::conformance::{Place, conformance};
use baremark_environments::container::{Container, Network, Root, Runtime, Seccomp, Settings};
use baremark_model::site::Environment;
use baremark_model::wire::{FromAgent, WireError};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_container_conforms() {
    let program = Program::new();
    let container = Container::new(program.path(), Settings::default());
    if !usable(&container) {
        return;
    }
    assert!(!container.emulated(&NEVER));
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &|| left(&program) };
    assert_eq!(conformance(&container, &place), Ok(()));
}

#[test]
fn what_is_set_is_what_the_agent_gets() {
    let program = Program::new();
    let settings = Settings {
        cpus: Some(vec![cpu()]),
        memory_bytes: Some(256 << 20),
        seccomp: Seccomp::Off,
        ..Settings::default()
    };
    let container = Container::new(program.path(), settings.clone());
    if !usable(&container) {
        return;
    }
    let facts = |container: &Container| {
        let site = container.start(&NEVER).unwrap();
        let pid = wait_for(|| program.agents().first().copied());
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
        // The program is there as soon as the runtime has become it, with all its limits.
        let (status, devices) = (read("status"), read("net/dev"));
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        let facts = (field("Cpus_allowed_list:"), field("Seccomp:"), field("CapEff:"), devices.lines().count() - 2);
        drop(site);
        facts
    };
    let none = "0000000000000000".to_owned();
    assert_eq!(facts(&container), (cpu().to_string(), "0".to_owned(), none.clone(), 1), "only a loopback");
    let host = Container::new(program.path(), Settings { network: Network::Host, ..Settings::default() });
    let ((_, seccomp, capabilities, devices), range) = while_counting_devices(|| facts(&host));
    assert_eq!((seccomp.as_str(), capabilities), ("2", none));
    // Just as many as there are: other tests make bridges and links on this machine.
    assert!((range.0..=range.1).contains(&(devices as f64)), "{devices} of {range:?}");
    let folder = Root::Folder(program.path().parent().unwrap().join("root"));
    fs::create_dir(program.path().parent().unwrap().join("root")).unwrap();
    facts(&Container::new(program.path(), Settings { root: folder, ..settings }));
    assert_eq!(left(&program), [""; 0]);
}

/// Every setting of a study changes what the container itself finds, and nothing else does.
#[test]
fn a_container_finds_what_the_study_has_set() {
    let Some(program) = containers() else { return };
    let Some(look) = Look::new(&program) else { return };
    let root = look.root();
    let image = Image::of(&root, Path::new("podman"));
    let (all, host) = all_and_devices();
    let mut places = vec![
        (String::new(), [all, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        ("seccomp = \"off\"".to_owned(), [all, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        (format!("cpus = [\"{}\"]\nnetwork = \"host\"", cpu()), [1.0, 2.0, host, 0.0, 0.0, 1.0, 1.0]),
        (format!("memory = \"64 MiB\"\nimage = \"{}\"", image.name), [all, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0]),
        (format!("rootfs = {root:?}"), [all, 2.0, 1.0, 0.0, 1.0, 0.0, 0.0]),
    ];
    let bridge = Settings { network: Network::Bridge, ..Settings::default() };
    match look.known {
        // Its own loopback and the bridge's end; this machine, but none of what it keeps to itself.
        Some(_) if usable(&Container::new(program.path(), bridge)) => {
            places.push(("network = \"bridge\"".to_owned(), [all, 2.0, 2.0, 0.0, 0.0, 1.0, 0.0]));
        }
        Some(_) => {}
        None => eprintln!("skipped: a bridge: this machine has no address that a container could reach"),
    }
    for (settings, expected) in places {
        look.finds(&settings, expected, &[]);
        assert_eq!(left(&program), [""; 0]);
    }
}

/// The same programs as natively, by this machine's own files, which stay as they are.
#[test]
fn a_container_of_this_machines_files_runs_its_programs_and_changes_none() {
    let Some(program) = containers() else { return };
    let bench = Bench::new();
    let marker = format!("/var/tmp/baremark-container-{}", std::process::id());
    let shell = format!("python3 -c 'print(6 * 7)'; echo changed > {marker}; cat {marker}");
    let study = |place: &str| {
        format!(
            "[study]\ntitle = \"host's files\"\n[workload]\nkind = \"command\"\n[command]\nargv = [\"sh\", \"-c\", {shell:?}]\n\
             [command.metrics.answer]\nunit = \"1\"\nbetter = \"higher\"\nregex = '(?<value>[0-9]+)\\nchanged'\n\
             [factors]\nenvironment = \"container\"\nranks = 1\n[environments.container]\n{place}\nfresh = \"run\"\n\
             [design]\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"2 min\"\nphase = \"50 ms\"\nquads = 1\n"
        )
    };
    let document = program.document(&bench, &bench.write("study.toml", study("rootfs = \"host\"")));
    let rows = document["estimates"].as_array().unwrap();
    let answer = rows.iter().find(|row| row["metric"] == "answer").and_then(|row| row["estimate"].as_f64());
    assert_eq!(answer, Some(42.0), "{document:#}");
    assert!(!Path::new(&marker).exists(), "the container changed this machine's files");
    assert_eq!(left(&program), [""; 0]);
}

/// One study has containers of different settings next to each other, each under its name.
#[test]
fn containers_of_two_settings_stand_beside_each_other_in_one_study() {
    let Some(program) = containers() else { return };
    let Some(Look { bench, .. }) = Look::new(&program) else { return };
    let study = format!(
        "[study]\ntitle = \"two containers\"\n[workload]\nkind = \"command\"\ntimeout = \"1 min\"\n[command]\n\
         argv = [\"{{folder}}/look\"]\n[command.bring]\nlook = {:?}\n[command.metrics.seccomp]\nunit = \"1\"\n\
         better = \"higher\"\nregex = 'seccomp (?<value>[0-9]+)'\n[command.metrics.held]\nunit = \"1\"\n\
         better = \"higher\"\nregex = 'held (?<value>[0-9]+)'\n\
         [factors]\nenvironment = [\"container\", \"unfiltered\"]\nranks = 1\n\
         [environments.unfiltered]\nlike = \"container\"\nseccomp = \"off\"\n\
         [environments.container]\nmemory = \"64 MiB\"\nfresh = \"run\"\n\
         [design]\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"2 min\"\nphase = \"50 ms\"\nquads = 1\n",
        bench.path("look"),
    );
    let document = program.document(&bench, &bench.write("study.toml", study));
    let rows = document["estimates"].as_array().unwrap();
    for (place, seccomp) in [("container", 2.0), ("unfiltered", 0.0)] {
        let of = |metric: &str| {
            let row = rows.iter().find(|row| row["metric"] == metric && row["treatment"]["environment"] == place);
            row.and_then(|row| row["estimate"].as_f64())
        };
        assert_eq!((of("seccomp"), of("held")), (Some(seccomp), Some(1.0)), "{place}: {document:#}");
    }
    for (row, name, seccomp) in [(0, "container", "on"), (1, "unfiltered", "off")] {
        let used = &document["run"]["environments"][row];
        assert_eq!((&used["name"], &used["place"]), (&name.into(), &"container".into()));
        let settings = (&used["settings"]["seccomp"], &used["settings"]["memory"], &used["settings"]["network"]);
        assert_eq!(settings, (&seccomp.into(), &"64 MiB".into(), &"none".into()), "{used}");
    }
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("  unfiltered: container with seccomp = off."), "{report}");
    let places = report.lines().find_map(|line| line.strip_prefix("  places ")).map(str::trim);
    assert_eq!(places, Some("container: fresh = run, memory = 64 MiB"), "{report}");
    let seen = |place: &str| document["observed"]["rows"].to_string().contains(&format!("\"place\":\"{place}\""));
    assert!(seen("container") && seen("unfiltered"), "each is observed where it is: {}", document["observed"]);
    assert_eq!(left(&program), [""; 0]);
}

/// The shipped study of the filter of system calls, shrunk.
#[test]
fn the_study_of_the_filter_has_both_containers_beside_native() {
    let Some(program) = containers() else { return };
    let shipped = include_str!("../../../../studies/seccomp.toml");
    let shrunk = shipped.replace("budget = \"3 min\"", "budget = \"2 min\"\nleast_blocks = 4\nmost_blocks = 4");
    assert_ne!(shrunk, shipped);
    let bench = Bench::new();
    let document = program.document(&bench, &bench.write("study.toml", shrunk));
    let estimates = document["estimates"].as_array().unwrap();
    for workload in ["syscall", "fw", "fma"] {
        for place in ["native", "container", "unfiltered"] {
            let of = |row: &&serde_json::Value| {
                row["treatment"]["workload"] == workload && row["treatment"]["environment"] == place
            };
            assert!(
                estimates.iter().find(of).is_some_and(|row| row["estimate"].as_f64() > Some(0.0)),
                "{workload} {place}"
            );
        }
    }
    let why = document["explanations"].to_string();
    assert!(why.contains("overhead that computing alone does not explain"), "{why}");
    assert!(why.contains("speedup over container by its own settings"), "{why}");
    assert_eq!(left(&program), [""; 0]);
}

/// The shipped study of single-row statements, shrunk: the embedded database needs no files but this program.
#[test]
fn a_database_in_a_container_answers_beside_native() {
    let Some(program) = containers() else { return };
    let bench = Bench::new();
    let mut study = include_str!("../../../../studies/oltp-hammer.toml").to_owned();
    let data = format!("duration = \"200 ms\"\ndata = {:?}", bench.path("data"));
    for (shipped, shrunk) in [
        ("rows = 100000", "rows = 1000"),
        ("duration = \"10 s\"", data.as_str()),
        ("warm_up = \"2 s\"", "warm_up = \"50 ms\""),
        ("ranks = [1, 2, 4, 8]", "ranks = [1]"),
        ("least_blocks = 5", "least_blocks = 2\nmost_blocks = 2"),
    ] {
        assert!(study.contains(shipped), "{shipped}");
        study = study.replace(shipped, shrunk);
    }
    study += "[environments.container]\nfresh = \"run\"\n";
    let document = program.document(&bench, &bench.write("study.toml", study));
    let of = |row: &&serde_json::Value, metric: &str, place: &str| {
        row["metric"] == metric && row["treatment"]["environment"] == place
    };
    for place in ["native", "container"] {
        for metric in ["tx_per_s", "cpu_us_per_tx", "server_context_switches_per_s"] {
            let row = document["estimates"].as_array().unwrap().iter().find(|row| of(row, metric, place));
            let value = row.and_then(|row| row["estimate"].as_f64());
            assert!(value > Some(0.0), "{metric} of {place}: {value:?}");
        }
    }
    let ratios = document["ratios"].as_array().unwrap();
    let ratio = ratios.iter().find(|row| of(row, "tx_per_s", "container")).and_then(|row| row["ratio"].as_f64());
    assert!(ratio > Some(0.0), "{ratios:#?}");
    let trials = document["trials"].as_array().unwrap();
    // One for both in each block, with a quad of phases.
    assert!(trials.len() == 2 && trials.iter().all(|trial| trial["status"] == "ok"), "{trials:#?}");
    assert!(trials.iter().all(|trial| trial["schedule"].as_array().is_some_and(|of| of.len() == 4)), "{trials:#?}");
    // What the container loaded went with it.
    let kept: Vec<_> = fs::read_dir(bench.path("data")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(matches!(&kept[..], [name] if name.to_string_lossy().starts_with("sqlite-oltp-hammer-")), "{kept:?}");
    assert_eq!(left(&program), [""; 0]);
}

/// Without what the engine makes bridges with, which is a program of somebody else's, other containers still run.
#[test]
fn an_engine_that_can_make_no_bridge_says_so_and_not_that_it_does_not_work() {
    let Some(program) = containers() else { return };
    let bench = Bench::new();
    let found = Command::new("which").arg("podman").output().unwrap();
    fs::create_dir(bench.path("only")).unwrap();
    std::os::unix::fs::symlink(text(&found.stdout).trim(), bench.path("only/podman")).unwrap();
    let planned = |network: &str| {
        let study = format!(
            "[study]\ntitle = \"a bridge\"\n[workload]\nkind = \"random-access\"\ntable = \"1 MiB\"\n\
             [factors]\nenvironment = [\"native\", \"container\"]\nranks = 1\n\
             [environments.container]\nnetwork = \"{network}\"\n[design]\nphase = \"50 ms\"\nquads = 1\nbudget = \"1 min\"\n"
        );
        let study = bench.write("study.toml", study);
        let mut command = bench.command(&["plan", study.to_str().unwrap()]);
        let output = command.env("PATH", bench.path("only")).output().unwrap();
        let said = text(&output.stdout) + &text(&output.stderr);
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let without = planned("none");
    if without.contains("containers cannot be started") {
        eprintln!("skipped: podman alone cannot start containers here");
        return;
    }
    assert!(!without.contains("bridge:"), "{without}");
    let said = planned("bridge");
    assert!(said.contains("containers can be started here, but none on a bridge: exit status: "), "{said}");
    assert!(
        said.contains("install what it makes bridges with (Debian: netavark and iptables), or write network"),
        "{said}"
    );
    assert_eq!(left(&program), [""; 0]);
}

#[test]
fn an_engine_that_has_no_such_image_or_folder_names_it() {
    let program = Program::new();
    let of = |root| Container::new(program.path(), Settings { root, ..Settings::default() });
    if !usable(&of(Root::Program)) {
        return;
    }
    // No registry serves this name: nothing is asked of a network.
    let missing = of(Root::Image("containers-storage:nosuch".to_owned())).probe().unwrap_err().to_string();
    let expected =
        "containers can be started here, but none of the image containers-storage:nosuch: exit status: 125: ";
    assert!(missing.starts_with(expected), "{missing}");
    assert!(missing.ends_with("; give an image that it has or can fetch"), "{missing}");
    let missing = of(Root::Folder("/nowhere/root".into())).probe().unwrap_err().to_string();
    let expected = "containers can be started here, but none of the folder /nowhere/root: exit status: 125: ";
    assert!(missing.starts_with(expected), "{missing}");
    assert!(missing.ends_with("; give a folder that holds a system's files"), "{missing}");
    assert_eq!(left(&program), [""; 0]);
}

#[test]
fn more_memory_than_the_limit_ends_the_agent_and_not_the_lab() {
    let program = Program::new();
    let settings = Settings { memory_bytes: Some(64 << 20), ..Settings::default() };
    let container = Container::new(program.path(), settings);
    if !usable(&container) {
        return;
    }
    let mut site = container.start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    let answer = trial_of(&mut link, cpu(), 512 << 20);
    assert!(matches!(answer, Err(WireError::Closed) | Ok(FromAgent::Failed { .. })), "{answer:?}");
    drop(site);
    assert_eq!(left(&program), [""; 0]);
}

/// The engine's own name of the container in which a process runs, by its control group; `None` while it has none.
fn id_of(pid: u32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let id = groups.split(|byte: char| !byte.is_ascii_hexdigit()).find(|word| word.len() == 64)?;
    Some(id.to_owned())
}

#[test]
fn a_killed_lab_leaves_no_container_and_the_next_one_its_folder() {
    let Some(program) = containers() else { return };
    let mut lab = lab("engine::a_lab_to_be_killed", &program, &[]);
    let pid = wait_for(|| program.agents().first().copied());
    let container = wait_for(|| id_of(pid));
    assert_ne!(traces_of(&container), [""; 0]);
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| (program.processes().is_empty() && traces_of(&container).is_empty()).then_some(()));
    drop(Container::new(program.path(), Settings::default()).start(&NEVER).unwrap());
    let of_lab = format!("baremark-container-{}-", lab.id());
    let kept: Vec<_> = temporary().into_iter().filter(|name| name.starts_with(&of_lab)).collect();
    assert_eq!((kept, left(&program)), (Vec::new(), Vec::new()));
}

/// No test: what the test above runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| Container::new(program, Settings::default()).start(&NEVER).unwrap());
}

#[test]
#[ignore = "prints how long sites take"]
fn how_long_containers_take() {
    let program = Program::new();
    let container = Container::new(program.path(), Settings::default());
    if usable(&container) {
        print_times(&container, cpu());
    }
}

/// A dynamic program in a container of nothing but this program: the reason with its remedy, an early end, and exit code 1.
#[test]
fn a_dynamic_program_in_an_empty_container_is_explained_and_ends_the_run() {
    let Some(_program) = containers() else { return };
    let bench = Bench::new();
    let study = "[study]\ntitle = \"dynamic\"\n[workload]\nkind = \"command\"\n[command]\n\
                 argv = [\"{folder}/own-true\"]\n[command.bring]\nown-true = \"/bin/true\"\n\
                 [factors]\nenvironment = [\"native\", \"container\"]\n\
                 [design]\nleast_blocks = 10\nmost_blocks = 10\n\
                 [report]\nratio_to = { environment = \"native\" }\n";
    bench.write("study.toml", study);
    let ran = bench.run(&["run", "study.toml"]);
    let (said, shown) = (text(&ran.stderr), text(&ran.stdout));
    assert_eq!(ran.status.code(), Some(1), "{said}\n{shown}");
    let expected = "is dynamically linked: its loader /lib64/ld-linux-x86-64.so.2 does not exist in this environment; link it \
                    statically, or set image or rootfs in [environments.container]";
    assert!(said.contains("nothing could be measured: at container: ") && said.contains(expected), "{said}");
    let document = bench.json(&["report", "--json"]);
    let trials = document["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 3, "both arms in one trial, which is given up after three blocks: {trials:#?}");
    let history = bench.json(&["history", "--json"]);
    assert_eq!(history["runs"][0]["state"], "failed", "{history:#}");
}

/// An engine's client worked on the CPUs of its container for 10 ms after each message that it had passed on.
#[test]
fn nobody_passes_on_what_an_agent_and_the_lab_say_unless_the_container_has_a_kernel_of_its_own() {
    let program = Program::new();
    let passed_on = |settings: Settings| {
        let container = Container::new(program.path(), settings);
        usable(&container).then(|| is_relayed(&container))
    };
    let root = program.path().parent().unwrap().join("root");
    fs::create_dir(&root).unwrap();
    for root in [Root::Program, Root::Folder(root.clone())] {
        let settings = Settings { root, ..Settings::default() };
        assert!(passed_on(settings.clone()).is_none_or(|is_so| !is_so), "{settings:?}");
    }
    let left_there: Vec<_> =
        fs::read_dir(root.join("dev")).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    assert!(left_there.is_empty(), "mount points in somebody's root: {left_there:?}");
    let runtime = Some(Runtime { name: "runsc".to_owned(), platform: "ptrace".to_owned() });
    assert!(passed_on(Settings { runtime, ..Settings::default() }).is_none_or(|is_so| is_so));
    assert_eq!(left(&program), [""; 0]);
}
