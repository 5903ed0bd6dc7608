//! Studies with real guests from end to end: their host's files, several at once, and what goes wrong with them.

use super::qemu::{alone, fetched};
use super::{NEVER, wait_for};
use crate::bench::{Bench, children, lives, signal, text};
use baremark_environments::qemu::{Accel, Qemu, Settings};
use baremark_lab::link::AgentLink;
use baremark_model::wire::PROTOCOL;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A study of `work` whose emulated guests have the settings `guest`, with a kernel by which they are known.
pub fn study(bench: &Bench, work: &str, factors: &str, guest: &str, design: &str) -> String {
    let kernel = bench.path("kernel");
    if !kernel.exists() {
        std::os::unix::fs::symlink(fetched(), &kernel).unwrap();
    }
    format!(
        "[study]\ntitle = \"guests\"\n{work}\n[factors]\n{factors}\n[environments.qemu]\nkernel = {:?}\naccel = \"tcg\"\n\
         {guest}\n[design]\nbudget = \"8 min\"\nprecision = \"20 %\"\n{design}\n",
        kernel
    )
}

/// The same in a file, where its places can be used.
pub fn usable_study(bench: &Bench, work: &str, factors: &str, guest: &str, design: &str) -> Option<String> {
    let written = bench.write("study.toml", study(bench, work, factors, guest, design));
    let written = written.to_str().unwrap().to_owned();
    usable(bench, &written).then_some(written)
}

/// A metric of a command that prints its key and a number.
fn metric(key: &&str) -> String {
    format!("[command.metrics.{key}]\nunit = \"1\"\nbetter = \"higher\"\nregex = '{key} (?<value>[0-9.]+)'\n")
}

const FOUR_BLOCKS: &str = "least_blocks = 4\nmost_blocks = 4";

/// Whether the places can be used; what is missing is reported.
fn usable(bench: &Bench, study: &str) -> bool {
    let planned = bench.run(&["plan", study]);
    let absent = text(&planned.stdout) + &text(&planned.stderr);
    let missing = ["qemu-system-x86_64 does not run", "cannot be read", "needs virtiofsd", "needs the superuser"]
        .iter()
        .find_map(|what| absent.lines().find(|line| line.contains(what)));
    if let Some(line) = missing {
        assert!(std::env::var_os("BAREMARK_REQUIRE_ENVIRONMENTS").is_none(), "guests are demanded: {line}");
        eprintln!("skipped: a study of guests: {}", line.trim());
    }
    missing.is_none()
}

/// The trials of an environment.
pub fn trials<'d>(document: &'d Value, environment: &str) -> Vec<&'d Value> {
    let of = |trial: &&Value| trial["arms"][0]["treatment"]["environment"] == environment;
    document["trials"].as_array().unwrap().iter().filter(of).collect()
}

fn counted(trials: &[&Value]) -> usize {
    trials.iter().filter(|trial| trial["status"] == "ok").count()
}

fn estimate(document: &Value, metric: &str, treatment: &[(&str, &str)]) -> Option<f64> {
    let rows = document["estimates"].as_array().unwrap();
    let of =
        |row: &&Value| row["metric"] == metric && treatment.iter().all(|(key, level)| row["treatment"][key] == *level);
    rows.iter().find(of)?["estimate"].as_f64()
}

/// The processes whose command line names something in this bench's folder: its guests, by their kernel.
fn left(bench: &Bench) -> Vec<String> {
    let folder = bench.folder.path().to_str().unwrap();
    let listed = fs::read_dir("/proc").unwrap().flatten();
    let lines = listed.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(folder)).map(|line| line.replace('\0', " ")).collect()
}

/// The table with the NUMA nodes of a machine (ACPI SRAT): present where a guest is given nodes.
const NODES_TOLD: &str = "/sys/firmware/acpi/tables/SRAT";

/// The same program natively and in a guest that has this machine's files: what it is, what it may write, what it cannot.
#[test]
fn a_guest_runs_its_hosts_programs_and_changes_none_of_its_files() {
    let _alone = alone();
    let bench = Bench::new();
    let mark = format!("baremark-was-here-{}", std::process::id());
    let script = format!(
        "set -e; . /etc/os-release; echo \"release ${{VERSION_ID:-0}}\"; grep -c . /proc/cpuinfo >/dev/null; \
         if grep -q ' / overlay .*lowerdir=/host' /proc/mounts; then \
           test ! -e {NODES_TOLD}; \
           echo mark > /usr/{mark}; grep -q mark /usr/{mark}; mkdir -p /tmp/again; \
           if mount -t virtiofs host /tmp/again && touch /tmp/again/usr/{mark}; then echo guest 2; else echo guest 1; fi; \
         else echo guest 0; fi"
    );
    let work = format!(
        "[workload]\nkind = \"command\"\ntimeout = \"2 min\"\n[command]\nargv = [\"sh\", \"-c\", '''{script}''']\n{}{}",
        metric(&"release"),
        metric(&"guest")
    );
    let factors = "environment = [\"native\", \"qemu\"]\nranks = 1";
    let guest = "rootfs = \"host\"\nmemory = \"384 MiB\"\nfresh = \"run\"";
    let Some(study) = usable_study(&bench, &work, factors, guest, FOUR_BLOCKS) else { return };
    let document = bench.json(&["run", &study, "--json"]);
    assert_eq!((counted(&trials(&document, "native")), counted(&trials(&document, "qemu"))), (4, 4), "{document:#}");
    let of = |metric, place| estimate(&document, metric, &[("environment", place)]);
    assert!(of("release", "qemu").is_some() && of("release", "qemu") == of("release", "native"), "{document:#}");
    assert_eq!((of("guest", "native"), of("guest", "qemu")), (Some(0.0), Some(1.0)), "2: the guest could write");
    assert!(!Path::new("/usr").join(mark).exists());
    assert_eq!(left(&bench), [""; 0]);
}

/// A block device of this machine over a file, until it is dropped.
struct Loop {
    device: String,
}

impl Loop {
    fn over(file: &Path) -> Option<Self> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        made.status.success().then(|| Loop { device: text(&made.stdout).trim().to_owned() })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(Command::new("losetup").args(["--detach", &self.device]).output());
    }
}

/// What the guest finds of itself, a number a line, and what it writes to its disks.
const LOOK: &str = r#"set -e
echo cpus $(nproc)
echo sockets $(grep "^physical id" /proc/cpuinfo | sort -u | wc -l)
echo nodes $(ls -d /sys/devices/system/node/node* | wc -l)
echo sectors $(cat /sys/block/vda/size)
echo disks $(ls -d /sys/block/vd* | wc -l)
echo queues $(ls -d /sys/block/vda/mq/* | wc -l)
grep -q "\[never\]" /sys/kernel/mm/transparent_hugepage/enabled && echo pages 1
for module in sch_netem md_mod dm_mod xfs; do test -d /sys/module/$module; done && echo modules 1
test -e NODES_TOLD && echo told 1
grep -qw mitigations=off /proc/cmdline && echo options 1
echo from the guest > /dev/vda
echo from the guest > /dev/vdb
sync
"#;

/// What a study sets about a guest is what the guest itself finds.
#[test]
fn a_guest_finds_what_the_study_has_set() {
    let _alone = alone();
    let bench = Bench::new();
    // Where direct I/O is possible, which it is not everywhere that temporary files lie.
    let folder = TempDir::new_in("/var/tmp").unwrap();
    let [file, under] = ["file", "under"].map(|name| folder.path().join(name));
    for path in [&file, &under] {
        fs::File::create(path).unwrap().set_len(1 << 20).unwrap();
    }
    let device = Loop::over(&under);
    let second = device.as_ref().map_or_else(|| under.to_str().unwrap().to_owned(), |device| device.device.clone());
    let keys = ["cpus", "sockets", "nodes", "sectors", "disks", "queues", "pages", "modules", "told", "options"];
    let look = LOOK.replace("NODES_TOLD", NODES_TOLD);
    let metrics: String = keys.iter().map(metric).collect();
    let work = format!(
        "[workload]\nkind = \"command\"\ntimeout = \"2 min\"\n[command]\nargv = [\"sh\", \"-c\", '''{look}''']\n{metrics}"
    );
    let guest = format!(
        "rootfs = \"host\"\nmemory = \"384 MiB\"\nfresh = \"run\"\nvcpus = 2\nsockets = 2\nguest_numa = \"exposed\"\n\
         guest_pages = \"never\"\nmodules = [\"netem\", \"md-mod\", \"dm_mod\", \"xfs\"]\ndisks = [{file:?}, {second:?}]\ndisk_cache = \"none\"\n\
         disk_aio = \"native\"\ndisk_iothread = true\ndisk_queues = 1\nkernel_options = [\"mitigations=off\"]\nblock_devices = true\nbacking = \"4k\""
    );
    let factors = "environment = \"qemu\"\nranks = 2";
    let written_text = study(&bench, &work, factors, &guest, FOUR_BLOCKS);
    let written = bench.write("study.toml", &written_text);
    if !usable(&bench, written.to_str().unwrap()) {
        return;
    }
    let document = bench.json(&["run", written.to_str().unwrap(), "--json"]);
    assert_eq!(counted(&trials(&document, "qemu")), 4, "{document:#}");
    let nodes = fs::read_to_string("/sys/devices/system/node/has_memory");
    let nodes = nodes.map_or(1, |text| if text.contains([',', '-']) { 2 } else { 1 });
    let found = keys.map(|key| estimate(&document, key, &[]).unwrap());
    assert_eq!((found[0], found[1], &found[3..]), (2.0, 2.0, &[2048.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0][..]), "{keys:?}");
    assert!(found[2] >= f64::from(nodes), "{found:?}");
    assert!(fs::read(&file).unwrap().starts_with(b"from the guest"));
    if let Some(device) = &device {
        let careless = written_text.replace("block_devices = true", "block_devices = false");
        let planned = bench.run(&["plan", bench.write("careless.toml", careless).to_str().unwrap()]);
        let said = text(&planned.stdout) + &text(&planned.stderr);
        let expected = format!("{} is a block device, whose contents the guest may overwrite", device.device);
        assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(&expected), "{said}");
    }
    drop(device);
    assert!(fs::read(&under).unwrap().starts_with(b"from the guest"));
}

/// A disk as the guest measures it, next to QEMU's own counts of the same phases: what QEMU takes is part of what the guest waits for.
#[test]
fn a_disk_is_measured_inside_the_guest_and_by_qemu() {
    let _alone = alone();
    let bench = Bench::new();
    let folder = TempDir::new_in("/var/tmp").unwrap();
    let file = folder.path().join("disk");
    fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
    let work = "[workload]\nkind = \"block\"\ndevice = \"/dev/vda\"\nsize = \"16 MiB\"\naccess = \"random-mixed\"\ndepth = 4\n\
                warm_up = \"0 s\"\nduration = \"500 ms\"";
    let guest = format!(
        "memory = \"384 MiB\"\nfresh = \"run\"\nvcpus = 2\ndisks = [{file:?}]\ndisk_cache = \"none\"\ndisk_iothread = true\n\
         disk_queues = 2"
    );
    let design = "quads = 1\nleast_blocks = 2\nmost_blocks = 2";
    let Some(written) = usable_study(&bench, work, "environment = \"qemu\"\nranks = 1", &guest, design) else { return };
    let document = bench.json(&["run", &written, "--allow-destructive", "/dev/vda", "--json"]);
    assert_eq!(counted(&trials(&document, "qemu")), 2, "{document:#}");
    let of = |metric: &str| estimate(&document, metric, &[]).unwrap_or_else(|| panic!("{metric}: {document:#}"));
    for kind in ["read", "write"] {
        let (inside, outside) = (of(&format!("{kind}_mean_us")), of(&format!("qemu_{kind}_mean_us")));
        assert!(outside > 0.0 && outside < inside, "{kind}: {outside} us of QEMU's, {inside} us in the guest");
        let median = of(&format!("qemu_{kind}_p50_us"));
        assert!(median > 0.0 && median < of(&format!("{kind}_p95_us")), "{kind}: {median} us");
    }
    // As many as the guest has measured, and those of no ramp.
    let detail = &document["details"][0]["document"];
    let counted = detail["qemu"].as_array().unwrap_or_else(|| panic!("{document:#}"));
    for (kind, bins) in counted.iter().map(|row| (row["operation"].as_str().unwrap(), &row["below_ns"])) {
        let sum: u64 = bins.as_array().unwrap().iter().filter_map(|bin| bin[1].as_u64()).sum();
        let inside = detail[kind]["samples"].as_u64().unwrap_or(0);
        assert!(sum * 10 >= inside * 9, "{kind}: {sum} counted by QEMU, {inside} in the guest");
    }
    let report = text(&bench.run(&["report", "--details"]).stdout);
    assert!(report.contains("Latencies of guests' disks") && report.contains("QEMU p50"), "{report}");
    assert_eq!(left(&bench), [""; 0]);
}

/// Checks what two sites of `place` did together: members, their sums, and what they did at the same time.
fn two_sites(document: &Value, place: &str) {
    let all = trials(document, place);
    let two = |trial: &&&Value| trial["status"] == "ok" && trial["arms"][0]["treatment"]["count"] == "2";
    let together: Vec<_> = all.iter().filter(two).collect();
    assert!(!together.is_empty(), "{place}: {all:#?}");
    let of = |row: &&Value| row["treatment"]["environment"] == place && row["treatment"]["count"] == "2";
    let fair = document["fairness"].as_array().unwrap().iter().find(of).unwrap_or_else(|| panic!("{document:#}"));
    assert!(
        fair["members"] == 2 && fair["estimate"].as_f64().is_some_and(|index| 0.5 < index && index <= 1.0),
        "{fair}"
    );
    for trial in together {
        let arm = &trial["arms"][0];
        let members = arm["members"].as_array().unwrap();
        assert_eq!(members.len(), 2, "{trial:#}");
        let value = |samples: &Value| {
            let found = samples.as_array().unwrap().iter().find(|sample| sample["metric"] == "simultaneous_mb_per_s");
            found.and_then(|sample| sample["value"].as_f64()).unwrap_or_else(|| panic!("{trial:#}"))
        };
        let sum: f64 = members.iter().map(value).sum();
        let window = value(&arm["medians"]);
        // Medians over phases of what is smaller in each phase.
        assert!(window > 0.0 && window <= 1.5 * sum, "what all did in one window is no more: {window} of {sum}");
        assert!(arm["counters"]["clock_uncertainty_ns"].as_u64() > Some(0), "{trial:#}");
    }
}

/// The same machine as two guests or two containers, then as two guests that together have more vCPUs than it has CPUs.
#[test]
fn guests_and_containers_share_the_work_behind_one_gate() {
    let _alone = alone();
    let bench = Bench::new();
    let work = "[workload]\nkind = \"stream\"\narray = \"2 MiB\"\nsmall = true";
    let design = "phase = \"1 s\"\nquads = 1\nleast_blocks = 2\nmost_blocks = 2";
    let factors =
        |places: &str, ranks: usize| format!("environment = {places}\nranks = {ranks}\ncount = [2, 3]\npage = \"4k\"");
    let guest = "memory = \"1 GiB\"\nfresh = \"run\"";
    let both = factors("[\"qemu\", \"container\"]", 2);
    let Some(written) = usable_study(&bench, work, &both, guest, design) else { return };
    let document = bench.json(&["run", &written, "--json"]);
    two_sites(&document, "qemu");
    if !trials(&document, "container").is_empty() {
        two_sites(&document, "container");
    }
    let absent = document["absent"].as_array().unwrap();
    let odd = absent.iter().find(|row| row["treatment"]["count"] == "3" && row["treatment"]["environment"] == "qemu");
    assert_eq!(odd.unwrap()["reason"], "a team of 2 cannot be divided over 3 machines");
    let cpus = std::thread::available_parallelism().unwrap().get();
    let many = 2 * cpus.min(4);
    let text = study(&bench, work, &factors("\"qemu\"", many), guest, design);
    let written = bench.write("study.toml", text);
    two_sites(&bench.json(&["run", written.to_str().unwrap(), "--json"]), "qemu");
    assert_eq!(left(&bench), [""; 0]);
}

/// Counts up for a second and says how far it came and when it began, in seconds since 1970.
const COUNTER: &str = r#"
#include <stdio.h>
#include <time.h>
static double now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(void) {
    double begun = now(CLOCK_REALTIME), start = now(CLOCK_MONOTONIC);
    unsigned long count = 0;
    while (now(CLOCK_MONOTONIC) < start + 1.0) count++;
    printf("counted %lu\nbegun %.6f\nalone 1\n", count, begun);
    return 0;
}
"#;

/// Programs as members of an ensemble: each in a place of its own, begun together, their figures joined by the rule of each.
#[test]
fn programs_run_as_members_of_an_ensemble_in_guests_and_containers() {
    let _alone = alone();
    let bench = Bench::new();
    let folder = TempDir::new_in("/var/tmp").unwrap();
    let program = compiled(&folder, COUNTER);
    let lower = metric(&"begun").replace("\"higher\"", "\"lower\"");
    let work = format!(
        "[workload]\nkind = \"command\"\ntimeout = \"2 min\"\n[command]\nargv = [\"{{folder}}/count\"]\n\
         [command.bring]\ncount = {program:?}\n{}{lower}{}",
        metric(&"counted"),
        metric(&"alone")
    );
    let factors = "environment = [\"qemu\", \"container\"]\nranks = 2\ncount = [1, 2]";
    let guest = "memory = \"512 MiB\"\nfresh = \"run\"";
    let design = "least_blocks = 2\nmost_blocks = 2";
    let Some(written) = usable_study(&bench, &work, factors, guest, design) else { return };
    let document = bench.json(&["run", &written, "--json"]);
    for place in ["qemu", "container"] {
        let all = trials(&document, place);
        if all.is_empty() {
            continue;
        }
        assert_eq!(counted(&all), 4, "{all:#?}");
        for trial in all.iter().filter(|trial| trial["arms"][0]["treatment"]["count"] == "2") {
            let arm = &trial["arms"][0];
            let value = |samples: &Value, metric: &str| {
                let found = samples.as_array().unwrap().iter().find(|sample| sample["metric"] == metric);
                found.and_then(|sample| sample["value"].as_f64()).unwrap_or_else(|| panic!("{metric}: {trial:#}"))
            };
            let members = arm["members"].as_array().unwrap();
            assert_eq!(members.len(), 2, "{trial:#}");
            assert_eq!(value(&arm["medians"], "alone"), 2.0, "higher-is-better metrics are summed");
            let begun: Vec<f64> = members.iter().map(|member| value(member, "begun")).collect();
            let mean = (begun[0] + begun[1]) / 2.0;
            assert!((value(&arm["medians"], "begun") - mean).abs() < 0.001, "what is lower is averaged: {trial:#}");
            // Containers share a clock: medians over two phases that both had begun together. Guests have their own.
            assert!(place == "qemu" || (begun[0] - begun[1]).abs() < 5.0, "{begun:?}");
        }
    }
    assert_eq!(left(&bench), [""; 0]);
}

/// Runs and is heard line by line.
fn started(bench: &Bench, arguments: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut lab = bench.command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(lab.stderr.take().unwrap()).lines().map_while(Result::ok);
    (lab, lines)
}

fn guest_of(lab: u32) -> Option<u32> {
    let is_guest =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("qemu"));
    children(lab).into_iter().find(is_guest)
}

/// Processor time of a process, in hundredths of a second.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    fields.iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[test]
fn a_guest_that_is_killed_in_mid_trial_costs_that_trial_alone_and_the_run_can_be_resumed() {
    let _alone = alone();
    let bench = Bench::new();
    let work = "[workload]\nkind = \"random-access\"\ntable = \"4 MiB\"";
    let factors = "environment = [\"native\", \"qemu\"]\nranks = 1";
    let guest = "memory = \"512 MiB\"\nfresh = \"run\"\nrootfs = \"host\"";
    // Emulated, a phase of as many repetitions takes twenty times as long.
    let design = "phase = \"40 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4";
    let Some(study) = usable_study(&bench, work, factors, guest, design) else { return };
    let (mut lab, mut lines) = started(&bench, &["run", &study]);
    // The guest is kept: once a block is stored, it only computes when its next trial runs.
    lines.by_ref().find(|line| line.contains("block 1 is stored")).expect("a guest's trial");
    let guest = guest_of(lab.id()).expect("a guest that is kept");
    let before = ticks(guest);
    wait_for(|| (ticks(guest) > before + 50).then_some(()));
    signal(guest, libc::SIGKILL);
    let failed = lines.by_ref().find(|line| line.contains("failed")).expect("the trial fails");
    assert!(failed.contains(": the trial failed: the agent is lost: "), "{failed}");
    lines.by_ref().find(|line| line.contains("block 3") && line.contains("stored")).expect("the study goes on");
    // Its agents, its next guest and what serves that guest files.
    let all = children(lab.id());
    signal(lab.id(), libc::SIGKILL);
    lab.wait().unwrap();
    wait_for(|| all.iter().all(|&pid| !lives(pid)).then_some(()));
    let document = bench.json(&["resume", "--json"]);
    let (native, qemu) = (trials(&document, "native"), trials(&document, "qemu"));
    assert_eq!((counted(&native), counted(&qemu)), (4, 3), "{document:#}");
    assert_eq!(left(&bench), [""; 0]);
    let reason = qemu.iter().find_map(|trial| trial["reason"].as_str()).unwrap();
    assert!(reason.starts_with("the agent is lost: "), "{reason}");
}

#[test]
fn a_guest_without_an_instruction_set_says_so_and_the_run_ends_early() {
    let _alone = alone();
    if !fs::read_to_string("/proc/cpuinfo").unwrap().contains("avx512f") {
        println!("skipped: this processor has no AVX-512 that a guest could lack");
        return;
    }
    let bench = Bench::new();
    let work = "[workload]\nkind = \"fma\"\nisa = \"avx512\"";
    let factors = "environment = [\"native\", \"qemu\"]\nranks = 1";
    let design = "phase = \"50 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4";
    let guest = "memory = \"256 MiB\"\nfresh = \"run\"\ncpu_model = \"Haswell\"";
    let Some(written) = usable_study(&bench, work, factors, guest, design) else { return };
    let lacking = "isa = Avx512: this machine has Avx2 at most; write isa = \"widest\"";
    let document = ended_early(&bench, &written, lacking);
    let (native, qemu) = (trials(&document, "native"), trials(&document, "qemu"));
    assert!((2..4).contains(&counted(&native)), "{document:#}");
    assert_eq!((counted(&qemu), qemu.len()), (0, 3), "given up after three in a row");
    let reason = qemu[0]["reason"].as_str().unwrap();
    assert!(reason.contains(lacking), "{reason}");
    // A program of somebody else's that needs it ends by the processor's own exception. (A guest has a /tmp of its own.)
    let folder = TempDir::new_in("/var/tmp").unwrap();
    let program = compiled(&folder, "int main(void) { __asm__ volatile(\"vpxorq %zmm1, %zmm1, %zmm1\"); return 0; }");
    let work = format!("[workload]\nkind = \"command\"\n[command]\nargv = [{program:?}]");
    let guest = format!("{guest}\nrootfs = \"host\"");
    let Some(written) = usable_study(&bench, &work, factors, &guest, FOUR_BLOCKS) else { return };
    let lacking = "SIGILL: an instruction that this processor does not have";
    let document = ended_early(&bench, &written, lacking);
    let qemu = trials(&document, "qemu");
    assert_eq!((counted(&qemu), qemu.len()), (0, 3), "{document:#}");
    let reason = qemu[0]["reason"].as_str().unwrap();
    assert!(reason.contains(lacking), "{reason}");
}

/// The document of a run that ends early because nothing can be compared, for this reason.
fn ended_early(bench: &Bench, study: &str, why: &str) -> Value {
    let ran = bench.run(&["run", study, "--json"]);
    let said = text(&ran.stderr);
    assert!(ran.status.code() == Some(1) && said.contains("nothing could be compared") && said.contains(why), "{said}");
    bench.json(&["report", "--json"])
}

/// An agent of another protocol, as the first process of a guest: it says that it is ready, greets, and waits.
const FOREIGN_AGENT: &str = r#"
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <termios.h>
#include <unistd.h>
int main(void) {
    mount("devtmpfs", "/dev", "devtmpfs", 0, 0);
    int port = open("/dev/ttyS1", O_RDWR | O_NOCTTY);
    struct termios t;
    tcgetattr(port, &t);
    cfmakeraw(&t);
    tcsetattr(port, TCSANOW, &t);
    const char *ready = "baremark guest ready\n";
    const char *hello = "{\"type\":\"hello\",\"protocol\":999,\"version\":\"9\",\"capabilities\":[],"
                        "\"instruction_set\":\"baseline\",\"pid\":1}";
    unsigned n = strlen(hello);
    unsigned char head[6] = {(n + 4) & 255, (n + 4) >> 8, n & 255, n >> 8, 0, 0};
    write(port, ready, strlen(ready));
    write(port, head, 6);
    write(port, hello, n);
    for (;;) pause();
}
"#;

/// A static program of this text.
fn compiled(folder: &TempDir, source: &str) -> std::path::PathBuf {
    let (text, program) = (folder.path().join("program.c"), folder.path().join("program"));
    fs::write(&text, source).unwrap();
    let made = Command::new("cc").args(["-static", "-w", "-o"]).arg(&program).arg(text).status().unwrap();
    assert!(made.success());
    program
}

#[test]
fn an_agent_of_another_version_in_a_guest_is_told_from_ours() {
    let _alone = alone();
    let folder = TempDir::new().unwrap();
    let program = compiled(&folder, FOREIGN_AGENT);
    let limit = Duration::from_secs(120);
    let settings = Settings {
        kernel: Some(fetched().join("vmlinuz")),
        accel: Accel::Tcg,
        boot_limit: limit,
        ..Settings::default()
    };
    let qemu = Qemu::new(program, settings);
    if !super::usable(&qemu) {
        return;
    }
    let why = AgentLink::start(&qemu, &NEVER).err().unwrap().to_string();
    let expected = format!(
        "the agent is lost: the other side speaks protocol 999, this one {PROTOCOL}; use the same version of baremark on both"
    );
    assert!(why.starts_with(&expected), "{why}");
    assert_eq!(super::qemu::left(), [""; 0]);
}
