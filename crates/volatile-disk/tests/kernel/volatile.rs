//! What a volatile disk has after its process was killed: what was synced, in every way in which that can be asked for, and nothing else.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

struct Disk {
    folder: tempfile::TempDir,
    process: Child,
}

impl Disk {
    /// A mounted disk; `None` with a printed reason where none can be mounted.
    fn mount() -> Option<Disk> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").map(drop);
        if let Err(why) = device.and_then(|()| baremark_sys::mounts::own_mounts()) {
            eprintln!("skipped: no disk can be mounted ({why}); it takes /dev/fuse and the superuser");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["stored", "at"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let process = started(folder.path());
        Some(Disk { folder, process })
    }

    fn stored(&self, name: &str) -> PathBuf {
        self.folder.path().join("stored").join(name)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join("at").join(name)
    }

    fn lose_power(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn unmount(&self) -> bool {
        let status = Command::new("umount").arg("--lazy").arg(self.folder.path().join("at")).status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.lose_power();
        self.unmount();
    }
}

fn started(folder: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baremark-volatile-disk"));
    command.args([folder.join("stored"), folder.join("at")]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "mounted\n");
    process
}

fn written(path: &Path, text: &str) -> File {
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn a_kill_loses_what_was_not_synced_and_nothing_else() {
    let Some(mut disk) = Disk::mount() else { return };
    fs::write(disk.stored("old"), "old content").unwrap();
    drop(written(&disk.at("old"), "new"));
    assert_eq!(fs::read_to_string(disk.at("old")).unwrap(), "new content");
    written(&disk.at("fsync"), "kept").sync_all().unwrap();
    written(&disk.at("fdatasync"), "kept").sync_data().unwrap();
    for (name, flag) in [("o_sync", libc::O_SYNC), ("o_dsync", libc::O_DSYNC)] {
        let mut file = File::options().write(true).create_new(true).custom_flags(flag).open(disk.at(name)).unwrap();
        file.write_all(b"kept").unwrap();
    }
    let mut longer = written(&disk.at("longer"), "kept");
    longer.sync_all().unwrap();
    longer.write_all(b" and lost").unwrap();
    let cut = written(&disk.at("cut"), "kept");
    cut.sync_all().unwrap();
    cut.set_len(1).unwrap();
    assert_eq!(fs::read_to_string(disk.at("cut")).unwrap(), "k");
    drop(written(&disk.at("renamed-from"), "lost"));
    fs::rename(disk.at("renamed-from"), disk.at("renamed")).unwrap();
    assert_eq!(fs::read_to_string(disk.at("renamed")).unwrap(), "lost");
    disk.lose_power();
    assert!(fs::read(disk.at("old")).is_err(), "a disk without power answers");
    let kept = ["fsync", "fdatasync", "o_sync", "o_dsync", "longer", "cut"].map(|name| (name, "kept"));
    for (name, content) in kept.into_iter().chain([("old", "old content"), ("renamed", "")]) {
        assert_eq!(fs::read_to_string(disk.stored(name)).unwrap(), content, "{name}");
    }
    assert!(disk.unmount());
    disk.process = started(disk.folder.path());
    assert_eq!(fs::read_to_string(disk.at("longer")).unwrap(), "kept");
}

/// Pages that were written through a mapping, one synced by msync(2) and one not.
#[test]
fn a_mapped_page_is_kept_once_msync_has_returned() {
    let Some(mut disk) = Disk::mount() else { return };
    let file = written(&disk.at("mapped"), &"-".repeat(8192));
    file.sync_all().unwrap();
    // SAFETY: a new mapping, at an address of the kernel's choice, of a file that is as long.
    let pages = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            8192,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(pages, libc::MAP_FAILED);
    let write = |at: usize, text: &[u8; 4]| {
        // SAFETY: four bytes within the mapping, to which there is no reference.
        unsafe { pages.cast::<u8>().add(at).cast::<[u8; 4]>().write_volatile(*text) };
    };
    write(0, b"kept");
    // SAFETY: the first page of the mapping.
    assert_eq!(unsafe { libc::msync(pages, 4096, libc::MS_SYNC) }, 0);
    write(4096, b"lost");
    disk.lose_power();
    // SAFETY: the mapping that was made above, which nobody uses any more.
    assert_eq!(unsafe { libc::munmap(pages, 8192) }, 0);
    let stored = fs::read_to_string(disk.stored("mapped")).unwrap();
    assert_eq!((&stored[..4], &stored[4096..4100], stored.len()), ("kept", "----", 8192));
}

#[test]
fn folders_links_owners_and_files_without_a_name_are_as_on_other_file_systems() {
    let Some(disk) = Disk::mount() else { return };
    fs::create_dir_all(disk.at("a/b")).unwrap();
    for number in 0..300 {
        drop(written(&disk.at(&format!("a/b/{number}")), "x"));
    }
    assert_eq!(fs::read_dir(disk.at("a/b")).unwrap().count(), 300);
    fs::rename(disk.at("a"), disk.at("c")).unwrap();
    assert_eq!(fs::read_to_string(disk.at("c/b/17")).unwrap(), "x");
    fs::hard_link(disk.at("c/b/17"), disk.at("linked")).unwrap();
    assert_eq!(fs::read_to_string(disk.at("c/b/17")).unwrap(), "x");
    fs::remove_file(disk.at("c/b/17")).unwrap();
    assert_eq!(fs::read_to_string(disk.at("linked")).unwrap(), "x");
    let open = written(&disk.at("gone"), "still here");
    fs::remove_file(disk.at("gone")).unwrap();
    drop(written(&disk.at("gone"), "another"));
    let mut content = [0; 10];
    open.read_exact_at(&mut content, 0).unwrap();
    assert_eq!((&content, fs::read_to_string(disk.at("gone")).unwrap().as_str()), (b"still here", "another"));
    std::os::unix::fs::chown(disk.at("linked"), Some(7), Some(8)).unwrap();
    fs::set_permissions(disk.at("linked"), fs::Permissions::from_mode(0o640)).unwrap();
    let found = fs::metadata(disk.stored("linked")).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (7, 8, 0o640));
    fs::remove_dir_all(disk.at("c")).unwrap();
    assert!(!disk.stored("c").exists());
}

/// What is written over several pages in the middle of a file, by writes that overlap.
#[test]
fn a_file_reads_as_it_was_written_before_and_after_it_is_synced() {
    let Some(disk) = Disk::mount() else { return };
    let file = written(&disk.at("file"), "");
    let mut model = vec![0_u8; 50_000];
    for (step, (offset, length)) in [(0, 50_000), (4090, 10), (8000, 9000), (40_960, 4096)].into_iter().enumerate() {
        let byte = u8::try_from(step + 1).unwrap();
        file.write_all_at(&vec![byte; length], offset as u64).unwrap();
        model[offset..offset + length].fill(byte);
        assert_eq!(fs::read(disk.at("file")).unwrap(), model);
        if step == 2 {
            file.sync_all().unwrap();
            assert_eq!(fs::read(disk.stored("file")).unwrap(), model);
        }
    }
    assert_ne!(fs::read(disk.stored("file")).unwrap(), model);
}
