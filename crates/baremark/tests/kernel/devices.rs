//! A block device that a study overwrites, by whatever name, and only with consent.

use crate::common::bench::{Bench, root, text};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const BYTES: usize = 8 << 20;
const CONTENT: u8 = 0xa5;

/// A loop device over a file; detached when this is dropped.
struct Loop {
    folder: TempDir,
    device: PathBuf,
}

impl Loop {
    fn new() -> Option<Loop> {
        let folder = TempDir::new_in("/var/tmp").unwrap();
        let image = folder.path().join("image");
        fs::write(&image, vec![CONTENT; BYTES]).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().ok()?;
        let device = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        output.status.success().then_some(Loop { folder, device })
    }

    fn is_untouched(&self) -> bool {
        assert!(Command::new("sync").status().unwrap().success());
        fs::read(self.folder.path().join("image")).unwrap().iter().all(|byte| *byte == CONTENT)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(Command::new("losetup").arg("--detach").arg(&self.device).status());
    }
}

fn study(workload: &str) -> String {
    format!(
        "[study]\ntitle = \"t\"\n[workload]\n{workload}\n[factors]\nenvironment = \"native\"\nranks = 1\n\
         [design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"60 s\"\n"
    )
}

#[test]
fn a_device_is_overwritten_with_consent_for_it_alone() {
    if !root() {
        return;
    }
    let Some(device) = Loop::new() else {
        println!("skipped: no loop device can be made here");
        return;
    };
    let bench = Bench::new();
    let link = device.folder.path().join("by-id");
    symlink(&device.device, &link).unwrap();
    let job =
        bench.write("a.fio", format!("[a]\nrw=randwrite\nsize=1m\nbuffered=1\nfilename={}\n", device.device.display()));
    let block = |keys: String| {
        study(&format!(
            "kind = \"block\"\nsize = \"1 MiB\"\nread_share = \"0 %\"\n{keys}\nduration = \"100 ms\"\nwarm_up = \"0 s\""
        ))
    };
    let member = |keys: String| {
        study(&format!(
            "kind = \"tile\"\nmost = 1\nduration = \"1 s\"\nwarm_up = \"0 s\"\nramp_down = \"0 s\"\n\
             [tile.members.disk]\nworkload = \"block\"\nsize = \"1 MiB\"\nread_share = \"0 %\"\ncache = \"buffered\"\ndepth = 2\n{keys}\n\
             limit = \"write_mean_us < 50000000\"\nthroughput = \"iops\""
        ))
    };
    let ways = [
        (block(format!("device = {:?}", device.device)), true),
        (block(format!("device = {link:?}")), true),
        (block(format!("job = {job:?}")), true),
        (member(format!("device = {link:?}")), true),
        (member(format!("job = {job:?}")), true),
        // A file that is a device is refused with consent, too.
        (block(format!("file = {link:?}")), false),
        (member(format!("file = {link:?}")), false),
    ];
    for (study, is_device) in ways {
        bench.write("study.toml", &study);
        let output = bench.run(&["run", "study.toml"]);
        assert_eq!(output.status.code(), Some(2), "{study}{}", text(&output.stderr));
        assert!(
            text(&output.stderr).contains("would be overwritten; if its content can go"),
            "{}",
            text(&output.stderr)
        );
        assert!(device.is_untouched(), "{study}");
        let allowed = bench.run(&["run", "study.toml", "--allow-destructive", device.device.to_str().unwrap()]);
        let said = text(&allowed.stderr);
        assert_eq!(allowed.status.success(), is_device, "{study}{said}");
        assert_eq!(device.is_untouched(), !is_device, "{study}{said}");
        assert!(
            is_device
                || said.contains("is a block device and would be overwritten; if its content can go, write device"),
            "{said}"
        );
        fs::write(&device.device, vec![CONTENT; BYTES]).unwrap();
        assert!(device.is_untouched());
    }
}

/// Since Linux 6.6 a tmpfs takes O_DIRECT, and its memory was measured as a disk. Who asks for the page cache measures memory, wherever the file is.
#[test]
fn a_target_in_memory_makes_a_run_poor() {
    if !root() {
        return;
    }
    for (cache, is_hindered) in [("direct", true), ("buffered", false)] {
        let bench = Bench::new();
        let path = bench.path("memory");
        fs::create_dir(&path).unwrap();
        let workload = format!(
            "kind = \"block\"\nsize = \"16 MiB\"\nduration = \"100 ms\"\ncache = \"{cache}\"\npath = \"{}\"",
            path.display()
        );
        bench.write("block.toml", study(&workload));
        let script = "mount -t tmpfs tmpfs memory; \"$1\" --store store.db run block.toml >out 2>err || true; \"$1\" --store store.db report --json >document";
        let run = Command::new("unshare")
            .args(["--mount", "sh", "-ec", script, "sh", env!("CARGO_BIN_EXE_baremark")])
            .current_dir(bench.folder.path())
            .status();
        let read = |name: &str| fs::read_to_string(bench.path(name)).unwrap_or_default();
        let said = read("err") + &read("out");
        if is_hindered && said.contains("the file system has no O_DIRECT") {
            return println!("skipped: a tmpfs of this kernel has no O_DIRECT");
        }
        assert!(run.unwrap().success(), "{cache}: {said}");
        // However lines are wrapped, and whatever else lowers it.
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "the target lies in memory, not on a disk (native)",
            "--set path=FOLDER measures the disk of another folder.",
        ] {
            assert_eq!(words.contains(part), is_hindered, "{cache}: {part}: {said}");
        }
        let document: serde_json::Value = serde_json::from_str(&read("document")).unwrap();
        let found = &document["reliability"];
        let codes = found["hindrances"].as_array().is_some_and(|codes| codes.contains(&"in_memory".into()));
        assert_eq!(codes, is_hindered, "{cache}: {found:#}");
        assert!(!is_hindered || found["grade"] == "poor", "{found:#}");
    }
}
