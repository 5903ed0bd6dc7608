//! Both programs of a pair at the same time: which studies can be run so, on which CPUs, and what is said of their trials.

use crate::specimen::WORKLOADS;
use baremark_model::command::{BARE, CPU, WALL};
use baremark_model::descriptor::Descriptor;
use baremark_model::disturbed::duet_flags;
use baremark_model::placement::{Cpu, Topology};
use baremark_model::plan::{Duet, Limits, Mode, Plan, resolve};
use baremark_model::problem::{Need, Problems};
use baremark_model::seam::Sample;
use baremark_model::study::parse;
use baremark_model::units::Bytes;
use baremark_model::wire::Series;

const DUET: &str = r#"[study]
title = "t"
[workload]
kind = "command"
[commands.A]
argv = ["true"]
[commands.B]
argv = ["false"]
[factors]
command = ["A", "B"]
[design]
duet = true
[report]
metric = "cpu_s"
also = ["user_s", "page_faults"]
columns = "command"
ratio_to = { command = "A" }
"#;

fn machine(cpus: usize) -> Limits {
    Limits { cpus: (0..cpus).collect(), memory_available: Bytes(8 << 30), ..Limits::default() }
}

fn outcome(text: &str, limits: &Limits, mode: Mode) -> Result<Plan, Problems> {
    let known: Vec<&'static Descriptor> = [&BARE, WORKLOADS[0]].to_vec();
    let study = parse("a.toml", text.as_bytes(), &known).unwrap_or_else(|why| panic!("{why}\n{text}"));
    resolve("a.toml", &study, limits, mode)
}

#[test]
fn a_duet_has_two_cpus_one_rank_each_and_nothing_observed() {
    let plan = outcome(DUET, &machine(4), Mode::default()).unwrap();
    let on = Duet { cpus: [0, 1], one_core: false };
    assert_eq!((plan.duet, plan.arms.len(), plan.cells.len()), (Some(on), 2, 1));
    assert!(plan.arms.iter().all(|arm| arm.arm.ranks == 1), "{:?}", plan.arms);
    assert!(plan.observe.which.is_empty(), "{:?}", plan.observe);
    let turns = outcome(&DUET.replace("duet = true\n", ""), &machine(4), Mode::default()).unwrap();
    assert_eq!((turns.duet, turns.arms[0].arm.ranks), (None, 4));
    assert_eq!(plan.least_block().0 * 2, turns.least_block().0, "two phases take as long as one");
    assert_eq!(serde_json::to_value(&turns).unwrap().get("duet"), None, "as earlier versions wrote it");
    let itself = outcome(DUET, &machine(4), Mode { self_check: true, ..Mode::default() }).unwrap();
    assert!(itself.duet.is_some() && itself.pairs.iter().all(|pair| pair.numerator == pair.denominator));
}

#[test]
fn the_cpus_of_a_duet_are_two_cores_of_one_node() {
    let on = |cpus: &[(usize, usize, usize)]| {
        let cpus = cpus.iter().map(|&(cpu, core, node)| Cpu { cpu, socket: node, node, core }).collect();
        let topology = Some(Topology { cpus, memory_nodes: vec![0] });
        let duet = outcome(DUET, &Limits { topology, ..machine(4) }, Mode::default()).unwrap().duet.unwrap();
        (duet.cpus, duet.one_core)
    };
    assert_eq!(
        on(&[(0, 0, 0), (1, 0, 0), (2, 2, 1), (3, 3, 0)]),
        ([0, 3], false),
        "CPU 1 is a thread of the same core"
    );
    assert_eq!(
        on(&[(0, 0, 0), (1, 0, 0), (2, 2, 1), (3, 2, 1)]),
        ([0, 2], false),
        "the other node before the same core"
    );
    assert_eq!(on(&[(0, 0, 0), (1, 0, 0)]), ([0, 1], true), "there is one core");
}

#[test]
fn what_cannot_be_a_duet_is_refused_with_what_would_be_right() {
    let changed = |from: &str, to: &str| {
        assert!(DUET.contains(from), "{from}");
        let problems = outcome(&DUET.replace(from, to), &machine(4), Mode::default()).unwrap_err();
        assert!(problems.list.iter().all(|problem| problem.need == Need::Study), "{problems}");
        problems.to_string()
    };
    let of_commands = "kind = \"command\"\n[commands.A]\nargv = [\"true\"]\n[commands.B]\nargv = [\"false\"]\n[factors]\ncommand = [\"A\", \"B\"]";
    for (from, to, expected) in [
        (
            "metric = \"cpu_s\"",
            "metric = \"wall_s\"",
            "compares CPU time alone, and the metric is wall_s; write metric",
        ),
        ("metric = \"cpu_s\"\n", "", "compares CPU time alone, and the metric is wall_s"),
        ("\"user_s\"", "\"wall_s\"", "'also' has wall_s; take wall_s out of it"),
        ("duet = true", "duet = true\nquads = 0", "quads = 0 has no quad; write quads = 1 or more"),
        (
            "[factors]",
            "[factors]\nenvironment = \"sandbox\"",
            "environment 'sandbox' has its own; take it out of [factors]: native and microvm",
        ),
        ("[factors]", "[factors]\nranks = [2]", "gives each program one CPU, and 2 ranks were requested; take ranks"),
        (
            "[factors]",
            "[factors]\nenvironment = \"microvm\"\nexitless = \"on\"",
            "exitless = \"on\" needs another; write exitless = \"off\"",
        ),
        (
            "argv = [\"false\"]",
            "argv = [\"false\"]\nprepare = [[\"sync\"]]",
            "would run next to the other; take 'prepare' and 'beside' out, or drop duet",
        ),
        (
            "argv = [\"false\"]",
            "argv = [\"false\"]\n[commands.B.beside]\nargv = [\"sleep\", \"9\"]",
            "what prepares one program or runs alongside it would run next to the other",
        ),
        (
            "kind = \"command\"",
            "kind = \"command\"\nprotect = \"20 ms\"",
            "protect copies its memory on others; write protect = \"none\", or drop duet",
        ),
        (
            "[factors]",
            "[factors]\nplacement = \"os\"",
            "placement = os, memory = first-touch were requested; take placement and memory out of [factors]",
        ),
        (
            "[factors]",
            "[factors]\nenvironment = \"microvm\"\nprovisioned = \"50 %\"",
            "2 ranks were requested; take ranks, provisioned and count out of [factors]",
        ),
        ("[factors]", "[factors]\nenvironment = \"microvm\"\ncount = 2", "and 2 ranks were requested; take ranks"),
        ("ratio_to = { command = \"A\" }\n", "", "the study requests no ratio; write ratio_to"),
        ("[design]", "[observe]\nwhich = \"cpu\"\n[design]", "observes no system activity"),
    ] {
        let why = changed(from, to);
        assert!(why.contains(expected), "{to}: {why}");
    }
    let hosts = DUET.replace("[factors]", "[factors]\n\"host.swappiness\" = [10, 60]");
    let hosts = hosts.replace("{ command = \"A\" }", "{ command = \"A\", \"host.swappiness\" = 10 }");
    let why = outcome(&hosts, &machine(4), Mode::default()).unwrap_err().to_string();
    assert!(why.contains("and host.swappiness has one level at a time; vary it in a study without duet"), "{why}");
    // Two nodes, on which memory can be requested.
    let cpus = (0..4).map(|cpu| Cpu { cpu, socket: cpu / 2, node: cpu / 2, core: cpu }).collect();
    let two_nodes = Limits { topology: Some(Topology { cpus, memory_nodes: vec![0, 1] }), ..machine(4) };
    let spread = DUET.replace("[factors]", "[factors]\nmemory = \"interleave\"");
    let why = outcome(&spread, &two_nodes, Mode::default()).unwrap_err().to_string();
    assert!(why.contains("placement = numbered, memory = interleave were requested"), "{why}");
    let kernel = DUET.replace(of_commands, "kind = \"random-access\"\n[factors]\npage = [\"4k\", \"2m\"]");
    let kernel = kernel.replace(
        "metric = \"cpu_s\"\nalso = [\"user_s\", \"page_faults\"]\ncolumns = \"command\"\n",
        "columns = \"page\"\n",
    );
    let kernel = kernel.replace("{ command = \"A\" }", "{ page = \"4k\" }");
    let why = outcome(&kernel, &machine(4), Mode::default()).unwrap_err().to_string();
    assert!(why.contains("workload 'random-access' is not a program; write kind = \"command\""), "{why}");
}

#[test]
fn a_machine_with_one_cpu_lacks_what_a_duet_needs() {
    let problems = outcome(DUET, &machine(1), Mode::default()).unwrap_err();
    assert_eq!(problems.list.len(), 1, "{problems}");
    assert_eq!(problems.list[0].need, Need::Machine);
    assert!(problems.list[0].what.contains("needs two CPUs, and this process may use one"), "{problems}");
    let with_quota =
        |millicpus| outcome(DUET, &Limits { quota_millicpus: Some(millicpus), ..machine(4) }, Mode::default());
    assert!(with_quota(2000).is_ok());
    let problems = with_quota(1500).unwrap_err();
    assert_eq!((problems.list.len(), problems.list[0].need), (1, Need::Machine), "{problems}");
    assert!(problems.list[0].what.ends_with("the CPU quota of this process is 1.5"), "{problems}");
}

/// A phase of an arm from `begin_s` to `end_s`, with so much of its CPU, as a share of its run time; `None` without CPU time.
fn phase((phase, arm): (usize, usize), [begin_s, end_s]: [u64; 2], share: Option<f64>) -> Series {
    let cpu = share.map(|share| Sample::new(CPU.key, 3.0 * share));
    Series {
        phase,
        arm,
        begin_ns: begin_s * 1_000_000_000,
        end_ns: end_s * 1_000_000_000,
        reps: 1,
        runs: Vec::new(),
        samples: [Sample::new(WALL.key, 3.0)].into_iter().chain(cpu).collect(),
        members: Vec::new(),
        points: Vec::new(),
        detail: None,
    }
}

#[test]
fn a_trial_in_which_a_program_hardly_had_its_cpu_has_a_flag() {
    let waits = |shares: [[Option<f64>; 4]; 3]| {
        let all = shares.into_iter().flatten().zip([0, 1, 1, 0].into_iter().cycle()).enumerate();
        let series: Vec<Series> = all.map(|(place, (share, arm))| phase((place, arm), [0, 3], share)).collect();
        match duet_flags(&series).as_slice() {
            [] => false,
            [only] => only.starts_with("in some runs a program used CPU time for less than a quarter of the share"),
            more => panic!("{more:?}"),
        }
    };
    let (all, half, least) = (Some(1.0), Some(0.5), Some(0.24));
    assert!(!waits([[all; 4]; 3]));
    assert!(!waits([[all; 4], [all, half, half, all], [half; 4]]), "a neighbour that has every other slice");
    assert!(waits([[all; 4], [all, least, all, all], [all; 4]]));
    assert!(!waits([[least; 4]; 3]), "work that mostly sleeps");
    // Each arm is compared with itself: one may sleep and the other not.
    let (sleeps, works) = (Some(0.01), Some(1.0));
    assert!(!waits([[sleeps, works, works, sleeps]; 3]));
    assert!(!waits([[None; 4]; 3]), "CPU time was not counted");
}

#[test]
fn a_trial_in_which_the_longer_program_ran_its_rest_alone_has_a_flag() {
    let alone = |times: [[u64; 2]; 4]| {
        let all = times.into_iter().zip([0, 1, 1, 0]).enumerate();
        let series: Vec<Series> = all.map(|(place, (time, arm))| phase((place, arm), time, Some(1.0))).collect();
        match duet_flags(&series).as_slice() {
            [] => false,
            [only] => only.starts_with("the two programs overlapped for less than 80 % of the time of the longer one"),
            more => panic!("{more:?}"),
        }
    };
    assert!(!alone([[0, 10], [0, 10], [10, 20], [10, 20]]));
    assert!(!alone([[0, 10], [0, 8], [10, 18], [10, 20]]), "80 %");
    assert!(alone([[0, 10], [0, 7], [10, 17], [10, 20]]), "70 %");
    assert!(!alone([[0, 10], [0, 6], [10, 20], [10, 20]]), "60 % once, and 80 % over the trial");
    assert!(alone([[0, 10], [5, 15], [20, 30], [20, 26]]), "one began when half of the other was over");
}
