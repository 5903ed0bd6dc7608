//! Studies with real guests from end to end: their host's files, several at once, and what goes wrong with them.

use crate::bench::{Bench, children, lives, signal, text};
use crate::guests::{FOUR_BLOCKS, can_run, compiled, estimate, left, metric, study, usable_study};
use crate::qemu::{self, fetched};
use crate::sites::{NEVER, usable, wait_for};
use crate::trials::{self, Ends, accounted};
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

/// The table with the NUMA nodes of a machine (ACPI SRAT): present where a guest is given nodes.
const NODES_TOLD: &str = "/sys/firmware/acpi/tables/SRAT";

/// The same program natively and in a guest that has this machine's files: what it is, what it may write, what it cannot.
#[test]
fn a_guest_runs_its_hosts_programs_and_changes_none_of_its_files() {
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
    let ran = [accounted(&trials::of(&document, "native"), 4), accounted(&trials::of(&document, "qemu"), 4)];
    assert!(ran.iter().all(|ran| *ran > 0), "{document:#}");
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
    if !can_run(&bench, written.to_str().unwrap()) {
        return;
    }
    let document = bench.json(&["run", written.to_str().unwrap(), "--json"]);
    assert!(accounted(&trials::of(&document, "qemu"), 4) > 0, "{document:#}");
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
    assert!(accounted(&trials::of(&document, "qemu"), 2) > 0, "{document:#}");
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
    let bench = Bench::new();
    let work = "[workload]\nkind = \"random-access\"\ntable = \"4 MiB\"";
    let factors = "environment = [\"native\", \"qemu\"]\nranks = 1";
    let guest = "memory = \"512 MiB\"\nfresh = \"run\"\nrootfs = \"host\"";
    // Emulated, a phase of as many repetitions takes twenty times as long.
    let design = "phase = \"40 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4";
    let Some(study) = usable_study(&bench, work, factors, guest, design) else { return };
    let (mut lab, mut lines) = started(&bench, &["run", &study]);
    // The guest is kept: once a block is stored, it only computes when its next trial runs.
    lines.by_ref().find(|line| line.starts_with("block 1") && line.contains("stored")).expect("a guest's trial");
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
    let (native, qemu) = (trials::of(&document, "native"), trials::of(&document, "qemu"));
    assert!(accounted(&native, 4) > 0, "{document:#}");
    let ends = Ends::of(&qemu);
    assert_eq!((ends.ok + ends.void, ends.failed), (3, 1), "{document:#}");
    assert_eq!(left(&bench), [""; 0]);
    let reason = qemu.iter().find_map(|trial| trial["reason"].as_str()).unwrap();
    assert!(reason.starts_with("the agent is lost: "), "{reason}");
}

#[test]
fn a_guest_without_an_instruction_set_says_so_and_the_run_ends_early() {
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
    let (native, qemu) = (trials::of(&document, "native"), trials::of(&document, "qemu"));
    let ends = Ends::of(&native);
    assert!((2..4).contains(&(ends.ok + ends.void)) && ends.failed == 0, "{document:#}");
    assert_eq!(Ends::of(&qemu), Ends { failed: 3, ..Ends::default() }, "given up after three in a row");
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
    let qemu = trials::of(&document, "qemu");
    assert_eq!(Ends::of(&qemu), Ends { failed: 3, ..Ends::default() }, "{document:#}");
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
    const char *hello = "{\"hello\":{\"protocol\":999,\"version\":\"9\",\"capabilities\":[],"
                        "\"instruction_set\":\"baseline\",\"pid\":1}}";
    unsigned n = strlen(hello);
    unsigned char head[6] = {(n + 4) & 255, (n + 4) >> 8, n & 255, n >> 8, 0, 0};
    write(port, ready, strlen(ready));
    write(port, head, 6);
    write(port, hello, n);
    for (;;) pause();
}
"#;

#[test]
fn an_agent_of_another_version_in_a_guest_is_told_from_ours() {
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
    if !usable(&qemu) {
        return;
    }
    let why = AgentLink::start(&qemu, &NEVER).err().unwrap().to_string();
    let expected = format!(
        "the agent is lost: the other side speaks protocol 999, this one {PROTOCOL}; use the same version of baremark on both"
    );
    assert!(why.starts_with(&expected), "{why}");
    assert_eq!(qemu::left(), [""; 0]);
}
