//! Every way to name a block device: without consent for it the engine writes nothing, whoever gives the order.

use baremark_disks::settings::PARAMETERS;
use baremark_disks::workload::Block;
use baremark_model::arm::ResolvedArm;
use baremark_model::job::{Job, JobContext, JobError};
use baremark_model::knob::Default;
use baremark_model::page_size::PageSize;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const BYTES: usize = 8 << 20;
/// What is on the device, which is no known format.
const CONTENT: u8 = 0xa5;

/// A loop device over a file; detached when this is dropped.
struct Loop {
    folder: TempDir,
    device: PathBuf,
}

impl Loop {
    fn new() -> Option<Loop> {
        // Devices have nodes there, and the file is not in memory alone.
        let folder = TempDir::new_in("/var/tmp").unwrap();
        let image = folder.path().join("image");
        fs::write(&image, vec![CONTENT; BYTES]).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().ok()?;
        let device = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        output.status.success().then_some(Loop { folder, device })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn content(&self) -> Vec<u8> {
        assert!(Command::new("sync").status().unwrap().success());
        fs::read(self.at("image")).unwrap()
    }

    fn is_untouched(&self) -> bool {
        self.content().iter().all(|byte| *byte == CONTENT)
    }

    fn restore(&self) {
        fs::write(&self.device, vec![CONTENT; BYTES]).unwrap();
        File::open(&self.device).unwrap().sync_all().unwrap();
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(Command::new("losetup").arg("--detach").arg(&self.device).status());
    }
}

fn arm(typed: &[(&str, &str)]) -> ResolvedArm {
    let mut arm = ResolvedArm::native(1, PageSize::Small);
    for knob in &PARAMETERS {
        let own = typed.iter().find(|(key, _)| *key == knob.key).map(|(_, value)| *value);
        let text = own.or(if let Default::Typed(text) = knob.default { Some(text) } else { None });
        if let Some(text) = text {
            arm.parameters.insert(knob.key.to_owned(), knob.read_text(text).unwrap());
        }
    }
    arm
}

/// Has the engine prepare this order, which fills the target.
fn prepared(typed: &[(&str, &str)], overwritable: &[PathBuf]) -> Result<(), JobError> {
    let mut all = typed.to_vec();
    all.extend([("size", "1 MiB"), ("engine", "threads"), ("cache", "buffered")]);
    let interrupt = Arc::default();
    let around = JobContext {
        keeper: Path::new("/"),
        cpus: &[],
        seed: 1,
        phase: Duration::ZERO,
        overwritable,
        interrupt: &interrupt,
    };
    Block.prepare(&arm(&all), around).map(drop)
}

/// Each way, with its parameter: the name of the device, a link as in `/dev/disk/by-id`, and a node of another name as in `/dev/mapper`; each as
/// a device, as a file, and in a fio job.
fn ways(device: &Loop) -> Vec<(&'static str, &'static str, String)> {
    fs::create_dir_all(device.at("by-id")).unwrap();
    symlink(&device.device, device.at("by-id/disk")).unwrap();
    symlink("by-id/disk", device.at("link-to-link")).unwrap();
    let number = fs::metadata(&device.device).unwrap().rdev();
    let numbers = [libc::major(number).to_string(), libc::minor(number).to_string()];
    let made = Command::new("mknod").arg(device.at("node")).arg("b").args(&numbers).status().unwrap();
    assert!(made.success(), "the superuser makes nodes");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let names = [
        text(&device.device),
        text(&device.at("by-id/disk")),
        text(&device.at("link-to-link")),
        text(&device.at("node")),
    ];
    let mut ways: Vec<(&str, &str, String)> = Vec::new();
    for name in &names {
        ways.push(("device", "device", name.clone()));
        ways.push(("file", "file", name.clone()));
        ways.push(("fio filename", "job_text", format!("[a]\nrw=randwrite\nsize=1m\nfilename={name}\n")));
        let (folder, file) = name.rsplit_once('/').unwrap();
        let job = format!("[a]\nrw=randwrite\nsize=1m\ndirectory={folder}\nfilename={file}\n");
        ways.push(("fio directory and filename", "job_text", job));
    }
    ways
}

#[test]
fn no_name_of_a_device_leads_around_the_consent() {
    let Some(device) = Loop::new() else {
        println!("skipped: no loop device can be made here");
        return;
    };
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("skipped: not root");
        return;
    }
    let other = [PathBuf::from("/dev/null"), device.at("image"), PathBuf::from("/dev/loop-control")];
    let mut written = 0;
    for (way, key, value) in ways(&device) {
        for overwritable in [&[][..], &other] {
            let why = prepared(&[(key, &value)], overwritable).expect_err(way).to_string();
            assert!(
                why.contains("is a block device and would be overwritten; if its content can go"),
                "{way}, {value}: {why}"
            );
            assert!(device.is_untouched(), "{way}, {value}");
        }
        // With consent, by whichever name: what is named as a device is written, what is named as a file is not.
        let named = [device.at("link-to-link")];
        match prepared(&[(key, &value)], &named) {
            Ok(()) => {
                assert!(!device.is_untouched(), "{way}, {value}: nothing was written");
                device.restore();
                written += 1;
            }
            Err(why) => {
                let why = why.to_string();
                assert!(way != "device" && why.contains("write device = "), "{way}, {value}: {why}");
                assert!(device.is_untouched(), "{way}, {value}");
            }
        }
    }
    assert!(written >= 4 + 2, "all names as a device, and the one below /dev in a fio job: {written}");
}

/// What is mounted, held, or has something on it is refused with consent, too.
#[test]
fn consent_is_not_enough_for_a_device_in_use_or_with_something_on_it() {
    let Some(device) = Loop::new() else {
        println!("skipped: no loop device can be made here");
        return;
    };
    let named = [device.device.clone()];
    let name = device.device.to_str().unwrap();
    let held = fs::OpenOptions::new();
    let held =
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut held.clone(), libc::O_EXCL).read(true).open(name).unwrap();
    let why = prepared(&[("device", name)], &named).expect_err("it is held").to_string();
    assert!(why.contains("is mounted or in use"), "{why}");
    drop(held);
    let mut bytes = vec![CONTENT; BYTES];
    // The superblock of an md array, version 1.0, at the end.
    let at = BYTES - (8 << 10);
    bytes[at..at + 4].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9]);
    fs::write(name, &bytes).unwrap();
    let why = prepared(&[("device", name)], &named).expect_err("a member of an array").to_string();
    assert!(why.contains("holds a member of an md array; if it is not needed, erase it first: wipefs --all"), "{why}");
    assert_eq!(device.content(), bytes);
    let why = prepared(&[("device", name), ("size", "1 GiB")], &named).expect_err("too small").to_string();
    assert!(why.contains("holds a member of an md array"), "{why}");
    device.restore();
    let why = prepared(&[("device", name), ("size", "1 GiB")], &named).expect_err("too small").to_string();
    assert!(why.contains("has 8 MiB, and size is 1 GiB; write a smaller size"), "{why}");
    assert!(device.is_untouched());
}

/// The ledger of a verified file is not written to a device that its name leads to.
#[test]
fn a_ledger_that_is_a_link_to_a_device_is_refused() {
    let Some(device) = Loop::new() else {
        println!("skipped: no loop device can be made here");
        return;
    };
    symlink(&device.device, device.at("data.ledger")).unwrap();
    let file = device.at("data");
    let order = [("file", file.to_str().unwrap()), ("verify", "true"), ("depth", "1")];
    let why = prepared(&order, std::slice::from_ref(&device.device)).expect_err("a device").to_string();
    assert!(why.contains("the ledger") && why.contains("is a block device and would be overwritten"), "{why}");
    assert!(device.is_untouched());
}
