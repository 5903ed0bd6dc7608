//! Web farms and tiles as tests run them: small studies, what they have recorded, and what is left of them.

use super::bench::{Bench, signal, text};
use super::points::{kill, one_stopped};
use super::tiers::{all_gone, offspring};
use baremark_sys::point::STOP_AT;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Few servers, short windows, and limits of which the machine's CPU breaks one.
pub fn study(server: &str, more: &str) -> String {
    format!(
        "[study]\ntitle = \"a small farm\"\n[workload]\nkind = \"web-farm\"\nserver = \"{server}\"\nmost = 12\nlimit = \"500 ms\"\n\
         cpu_limit = \"5 %\"\nquota = \"50 %\"\nwindow = \"300 ms\"\nsettle = \"100 ms\"\nvisits = 6\n{more}\n\
         [factors]\nenvironment = \"native\"\nrate = 50\nranks = 1\n\
         [design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"60 s\"\n"
    )
}

/// Changes are recorded in the bench's own folder, so that other tests' are not taken for these.
pub fn command(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bench.command(arguments);
    command.env("XDG_STATE_HOME", bench.path("state"));
    command
}

pub fn doctor(bench: &Bench) -> Output {
    command(bench, &["doctor"]).output().unwrap()
}

pub fn records(bench: &Bench) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(bench.path("state/baremark/changes")) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "journal")).collect()
}

/// Links and groups of control that runs of this bench have recorded.
pub fn recorded(bench: &Bench) -> BTreeSet<String> {
    let text: String = records(bench).iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    let ours = |word: &&str| word.starts_with("baremark-farm-") || word.len() == 11 && word.starts_with("bm");
    words.filter(ours).map(str::to_owned).collect()
}

/// Which of these are on the host.
pub fn there(names: &BTreeSet<String>) -> Vec<String> {
    let groups = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"];
    let listed = groups.iter().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten();
    let groups: Vec<String> = listed.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let is = |name: &&String| {
        Path::new("/sys/class/net").join(name.as_str()).exists()
            || groups.iter().any(|group| group.starts_with(name.as_str()))
    };
    names.iter().filter(is).cloned().collect()
}

/// Two members with a weight and one without; the limits are such that a busy machine keeps them, or not at all.
pub fn tiles(limit: &str) -> String {
    format!(
        "[study]\ntitle = \"small tiles\"\n[workload]\nkind = \"tile\"\nmost = 2\nduration = \"2 s\"\nwarm_up = \"200 ms\"\n\
         stagger = \"10 ms\"\n\
         [tile.members.web]\nworkload = \"web-farm\"\nservers = 1\nrate = 50\nlimit = \"{limit}\"\nthroughput = \"requests_per_s\"\n\
         [tile.members.mail]\nworkload = \"block\"\nsize = \"1 MiB\"\nread_share = \"0 %\"\nrate = 50\ndepth = 2\n\
         limit = \"write_mean_us < 5000000\"\nthroughput = \"iops\"\n\
         [tile.members.standby]\nworkload = \"web-farm\"\nservers = 1\nrate = 5\nweight = 0\nlimit = \"failed < 99\"\n\
         throughput = \"requests_per_s\"\n\
         [factors]\nenvironment = \"native\"\nranks = 1\n\
         [design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"60 s\"\n"
    )
}

/// An application, and members that each do one operation on guests.
pub fn tile_with_guests(kernel: &Path, operations: &[(&str, &str)]) -> String {
    let member = |(operation, limit): &(&str, &str)| {
        format!(
            "[tile.members.{operation}]\nworkload = \"guest-operations\"\noperation = \"{operation}\"\nguest_kernel = \"{}\"\n\
             guest_accel = \"tcg\"\nimage = \"8 MiB\"\nguest_memory = \"256 MiB\"\nwarm_up = \"0 s\"\nramp_down = \"0 s\"\n\
             throughput = \"operations_per_h\"\nlimit = \"{limit}\"\n",
            kernel.display()
        )
    };
    format!(
        "[study]\ntitle = \"a tile with guests\"\n[workload]\nkind = \"tile\"\nmost = 1\nduration = \"1 s\"\nwarm_up = \"100 ms\"\n\
         ramp_down = \"200 ms\"\nstagger = \"10 ms\"\n\
         [tile.members.mail]\nworkload = \"block\"\nsize = \"1 MiB\"\nread_share = \"0 %\"\nrate = 50\ndepth = 2\n\
         limit = \"write_mean_us < 5000000\"\nthroughput = \"iops\"\n{}\
         [factors]\nenvironment = \"native\"\nranks = 1\n\
         [design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"120 s\"\n",
        operations.iter().map(member).collect::<String>()
    )
}

/// The result document of a run of this study, and what the run said.
pub fn ran(bench: &Bench, study: &str) -> (Value, Output) {
    let output = command(bench, &["run", study, "--json"]).output().unwrap();
    let document =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {}", text(&output.stderr)));
    (document, output)
}

/// The estimate of a metric.
pub fn estimate(result: &Value, metric: &str) -> Option<f64> {
    let rows = result["estimates"].as_array().unwrap();
    rows.iter().find(|row| row["metric"] == metric).and_then(|row| row["estimate"].as_f64())
}

/// Levels at which a farm was measured; at all of them the parts of what is reported fit together.
pub fn farm_levels(bench: &Bench) -> Vec<Value> {
    bench.write("farm.toml", study("static", "search_time = \"5 s\""));
    let (result, output) = ran(bench, "farm.toml");
    let said = text(&output.stderr);
    let detail = &result["details"][0];
    assert_eq!(detail["format"], "baremark-web-farm/1", "{result:#}\n{said}");
    let farm = &detail["document"];
    assert_eq!(farm["results"].as_array().unwrap().len(), 2, "{farm:#}");
    let levels = farm["levels"].as_array().unwrap().clone();
    for level in &levels {
        assert!((1..=12).contains(&level["servers"].as_u64().unwrap()), "{level}");
        assert!(level["cpu_share"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)), "{level}");
    }
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("Latency and CPU use by the number of servers"), "{report}");
    assert_eq!(records(bench), Vec::<PathBuf>::new(), "everything is undone");
    levels
}

/// The servers of a farm under load, which have this in their command lines, are not the superuser's, have nothing of the environment of who started the run,
/// and die with the agent, though the kernel forgets that of a process that becomes another user.
pub fn assert_servers_without_rights_and_secrets(server: &str, word: &str) {
    const CANARY: &str = "c4n4ryInTheEnvironment";
    const POINT: &str = "farm-loaded";
    let bench = Bench::new();
    bench.write("farm.toml", study(server, "search_time = \"8 s\""));
    let mut run = command(&bench, &["run", "farm.toml"]);
    run.env("PGPASSWORD", CANARY).env(STOP_AT, POINT).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = run.spawn().unwrap();
    let id = child.id();
    let agent = one_stopped(&mut child, POINT, || offspring(id));
    let below = offspring(id);
    let shown = |pid: u32, file: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    let has_canary = shown(agent, "environ").contains(CANARY);
    let servers: Vec<(String, String)> = below
        .iter()
        .filter(|pid| shown(**pid, "cmdline").contains(word))
        .map(|pid| (shown(*pid, "status"), shown(*pid, "environ")))
        .collect();
    kill(&mut child);
    signal(agent, libc::SIGKILL);
    all_gone(&below);
    let said = doctor(&bench);
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "{}", text(&said.stderr));
    assert!(has_canary && servers.len() == 8, "the test looks where it can be seen: {servers:#?}");
    for (status, environment) in servers {
        for key in ["Uid:", "Gid:", "Groups:"] {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            assert!(line.split_whitespace().all(|number| number != "0"), "{key}{line}");
        }
        assert!(environment.contains("PATH=") && !environment.contains(CANARY), "{environment}");
    }
}

/// Tiles with a shop in each, on data of the bench's own folder; limits on latency are so many milliseconds.
pub fn tiles_with_a_shop(bench: &Bench, ms: &str) -> String {
    let shop = format!(
        "[tile.members.shop]\nworkload = \"dvd-store\"\nfront = \"web\"\nconnections = 2\nrate = 30\ndata = \"{}\"\n\
         limit = \"latency_p50_ms < {ms}\"\nthroughput = \"orders_per_min\"\n[factors]\n",
        bench.path("baremark-data").display()
    );
    tiles(&format!("latency_p95_ms < {ms}")).replace("[factors]\n", &shop)
}
