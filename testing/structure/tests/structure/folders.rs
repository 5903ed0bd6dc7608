//! Folders are made in one place: `sys::private_folder` knows whose they are and who else may write them.
//!
//! A folder at a place that others know (/tmp, /var/tmp, the user's data folder) may be there already, made by another user. So every other call
//! that makes folders is in the list below, with the reason for which nobody else can have made its folder or its parent.

use crate::passages::code;
use crate::source;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What makes a folder.
const CALLS: [&str; 4] = ["create_dir", "DirBuilder::new", "mkdirat(", "mkdir("];

/// Files that may, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/sys/src/private_folder.rs", "the place"),
    ("crates/sys/src/private_folder/directory.rs", "the place"),
    ("crates/sys/src/control_group.rs", "a control group, in a file system that others cannot write"),
    ("crates/consolidation/src/quota.rs", "a control group, in a file system that others cannot write"),
    ("crates/consolidation/src/farm.rs", "in a PrivateFolder: the root of a container"),
    ("crates/baremark/src/auction_places.rs", "in a PrivateFolder: the root of a container"),
    ("crates/agent/src/guest.rs", "in a guest that has no other user"),
    (
        "crates/agent/src/spawned.rs",
        "one folder of mode 0700 that must be new; who removes it has to know its name before it is made",
    ),
    (
        "crates/programs/src/keeper.rs",
        "one folder of mode 0700 that must be new; its name has a number more where that is taken",
    ),
    ("crates/programs/src/carried.rs", "in the keeper's folder"),
    ("crates/programs/src/verified.rs", "in the keeper's folder"),
    ("crates/programs/src/workshop.rs", "in the keeper's folder"),
    ("crates/volatile-disk/src/disk.rs", "a call of whoever uses the file system, in the folder behind it"),
    ("crates/volatile-disk/src/operation.rs", "a call of whoever uses the file system, in the folder behind it"),
    ("crates/disks/src/writable.rs", "TMPDIR itself, where the user names one that is not there"),
    ("crates/sys/src/machine/recorded.rs", "in a PrivateFolder: the files of a recorded machine"),
    ("crates/sys/src/sandbox/files.rs", "in a mount namespace of its own: /dev of a program"),
    ("crates/store/src/store.rs", "the folder of the store, which the user names"),
    ("crates/baremark/src/kept.rs", "next to the store"),
    ("crates/baremark/src/commands/site.rs", "the folder of pages that the user names"),
    ("crates/harness/src/archive.rs", "the folder of logs that the user names"),
    ("apps/auction/src/images.rs", "the folder of images that the user names"),
];

/// The lines of a source that make folders, tests apart, by number.
fn makes_folders(text: &str) -> Vec<usize> {
    let makes = |line: &str| CALLS.iter().any(|call| line.contains(call));
    code(text).into_iter().filter(|(_, line)| makes(line)).map(|(number, _)| number).collect()
}

#[test]
fn folders_are_made_by_the_private_folder_and_where_the_list_says_why_not() {
    let root = source::root();
    let app = root.join("apps/auction/src");
    let folders = source::crates().into_iter().map(|(_, folder)| folder).chain([app]);
    let mut allowed: BTreeMap<&str, bool> = ALLOWED.iter().map(|(file, _)| (*file, false)).collect();
    let mut wrong = Vec::new();
    for path in folders.flat_map(|folder| source::files(&folder)) {
        let lines = makes_folders(&fs::read_to_string(&path).unwrap());
        let name = path.strip_prefix(&root).unwrap_or(Path::new("")).display().to_string();
        match (lines.first(), allowed.get_mut(name.as_str())) {
            (Some(_), Some(used)) => *used = true,
            (Some(line), None) => wrong.push(format!("{name}:{line}")),
            (None, _) => {}
        }
    }
    assert!(
        wrong.is_empty(),
        "use sys::private_folder, or say in the list why no one else can make them:\n{}",
        wrong.join("\n")
    );
    let unused: Vec<_> = allowed.into_iter().filter(|(_, used)| !used).map(|(file, _)| file).collect();
    assert!(unused.is_empty(), "these make no folders any more; take them off the list:\n{}", unused.join("\n"));
}

#[test]
fn a_folder_that_is_made_anywhere_is_found_and_tests_are_not_looked_at() {
    let lines = [
        "fn f() {\n    std::fs::create_dir_all(\"/var/tmp/x\")\n}",
        "fn f() {\n    fs::create_dir(path)\n}",
        "fn f() {\n    DirBuilder::new().mode(0o700).create(path)\n}",
        "fn f() {\n    unsafe { libc::mkdir(path, 0o777) }\n}",
        "fn f() {\n    sys::mkdirat(CWD, path, mode)\n}",
    ];
    for text in lines {
        assert_eq!(makes_folders(text), [2], "{text}");
        let test = format!("#[cfg(test)]\nmod tests {{\n{}\n}}\n", text.replace("fn f", "    fn f"));
        assert_eq!(makes_folders(&test), [0_usize; 0], "{test}");
    }
    assert_eq!(makes_folders("// create_dir\nuse std::fs::DirBuilder;\n"), [0_usize; 0]);
}
