//! Mounts of one's own.

use baremark_sys::mounts::{Mounted, own_mounts, see_read_only};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn a_program_reads_and_cannot_write_while_others_still_can() {
    if !crate::is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "before").unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg("cat \"$1\"; echo after > \"$1\"").arg("sh").arg(&file);
    see_read_only(&mut command);
    let output = command.output().expect("sh runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "before");
    assert!(String::from_utf8_lossy(&output.stderr).contains("ead-only file system"), "{output:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    fs::write(&file, "after").expect("we can still write");
}

#[test]
fn a_mount_is_undone_by_its_owner_and_one_in_use_is_an_error() {
    if !crate::is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (from, at) = (folder.path().join("from"), folder.path().join("at"));
    for each in [&from, &at] {
        fs::create_dir(each).unwrap();
    }
    let ours = (from.clone(), at.clone());
    let seen = |path: &Path| fs::read_dir(path).unwrap().count();
    std::thread::spawn(move || {
        let (from, at) = ours;
        own_mounts().expect("the superuser may have mounts of its own");
        let first = Mounted::device(Path::new("none"), "tmpfs", &from).expect("it is mounted");
        fs::write(from.join("file"), "inside").unwrap();
        let second = Mounted::also(&from, &at).expect("it is shown");
        assert_eq!((seen(&from), seen(&at)), (1, 1));
        let open = fs::File::open(at.join("file")).unwrap();
        assert_eq!(second.unmount().expect_err("a file is open").kind(), std::io::ErrorKind::ResourceBusy);
        drop(open);
        assert_eq!(seen(&at), 0, "it went with its last user");
        Mounted::also(&from, &at).expect("once more").unmount().expect("nobody uses it");
        drop(first);
        assert_eq!((seen(&from), seen(&at)), (0, 0));
        assert!(Mounted::device(Path::new("/nowhere"), "ext4", &at).is_err(), "no such device");
    })
    .join()
    .unwrap();
    assert_eq!((seen(&from), seen(&at)), (0, 0), "nobody else has seen any of them");
}
