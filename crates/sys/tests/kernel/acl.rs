//! Whom an access control list lets through.

use baremark_sys::acl::allow_search;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Whether `user` can read a file and list a folder.
fn can(user: u32, words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).uid(user).gid(user).current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
}

#[test]
fn users_who_are_let_through_pass_and_see_nothing_and_others_do_not_pass() {
    if !crate::is_root() {
        return;
    }
    // Every user comes as far as /var/tmp.
    let folder = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    for user in [65_533, 65_532] {
        allow_search(folder.path(), user).unwrap();
    }
    if fs::metadata(folder.path()).unwrap().mode() & 0o001 != 0 {
        return println!("skipped: /var/tmp has no access control lists");
    }
    let (file, folder) = (file.display().to_string(), folder.path().display().to_string());
    for user in [65_533, 65_532] {
        assert!(can(user, &["cat", &file]), "{user} does not pass");
        assert!(!can(user, &["ls", &folder]), "{user} sees what is there");
    }
    assert!(!can(65_534, &["cat", &file]), "a stranger passes");
}
