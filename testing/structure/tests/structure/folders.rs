//! Folders are made in one place: `sys::private_folder` knows whose they are and who else may write them.
//!
//! A folder at a place that others know (/tmp, /var/tmp, the user's data folder) may be there already, made by another user. So every other call
//! that makes folders is in the list below, with the reason for which nobody else can have made its folder or its parent.
//!
//! A path that is read back from a file or from another process may lead elsewhere than where it was written for: every type that has one is in a
//! second list, with what keeps it from that.

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
    ("crates/agent/src/spawned.rs", "TMPDIR itself, which a site made of this program alone does not have yet"),
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

/// Files with paths in what is read back from a file or from another process, and what keeps each from leading elsewhere.
const STORED: &[(&str, &str)] = &[
    ("crates/databases/src/dataset_cache.rs", "opened beneath the folder, by no link (private_folder::directory)"),
    ("crates/journal/src/file.rs", "of the user's own journal; what is removed has a name that a run makes"),
    ("crates/journal/src/group.rs", "of the user's own journal; what is removed is a control group that a run makes"),
    ("crates/journal/src/value.rs", "of the user's own journal; what is written lies below the folders of settings"),
    ("crates/consolidation/src/quota.rs", "of the user's own journal; what is removed are control groups of a farm"),
    (
        "crates/environments/src/container/leftovers.rs",
        "of the user's own journal; it is started only by the name podman or docker",
    ),
    ("crates/networks/src/link.rs", "compared, never opened"),
    ("crates/model/src/wire.rs", "the user's consent, which holds for a device's number"),
    ("crates/databases/src/dvd_store/front.rs", "from the process that starts it, by standard input"),
    ("crates/databases/src/endpoint.rs", "from the process that starts it, by standard input"),
    ("crates/programs/src/keeper.rs", "from the process that starts it, by standard input, and back"),
    ("crates/services/src/order.rs", "from the process that starts it: its private folder and program"),
    ("crates/lab/src/remote_program.rs", "from the process that starts it, in a folder of the run's own"),
    ("crates/load/src/order.rs", "of the user's own command or study"),
    ("crates/load/src/transport.rs", "of the user's own command or study"),
];

/// The lines of a source that make folders, tests apart, by number.
fn makes_folders(text: &str) -> Vec<usize> {
    let makes = |line: &str| CALLS.iter().any(|call| line.contains(call));
    code(text).into_iter().filter(|(_, line)| makes(line)).map(|(number, _)| number).collect()
}

/// The lines of a source, tests apart, with a path in a type that is read back.
fn stored_paths(text: &str) -> Vec<usize> {
    let (mut found, mut is_read_back) = (Vec::new(), false);
    for (number, line) in code(text) {
        is_read_back |= line.starts_with("#[derive(") && line.contains("Deserialize");
        if is_read_back && line.contains("PathBuf") {
            found.push(number);
        }
        // The type's end.
        if line == "}" || line == ");" || (line.contains("struct ") && line.ends_with(';')) {
            is_read_back = false;
        }
    }
    found
}

/// The files of all sources in which something is found, with its first line, each once: those that a list lacks, and those of the list without it.
fn compared(list: &'static [(&str, &str)], find: impl Fn(&str) -> Vec<usize>) -> (Vec<String>, Vec<&'static str>) {
    let root = source::root();
    let folders = source::crates().into_iter().map(|(_, folder)| folder).chain([root.join("apps/auction/src")]);
    let mut listed: BTreeMap<&str, bool> = list.iter().map(|(file, _)| (*file, false)).collect();
    let mut lacking = Vec::new();
    for path in folders.flat_map(|folder| source::files(&folder)) {
        let lines = find(&fs::read_to_string(&path).unwrap());
        let name = path.strip_prefix(&root).unwrap_or(Path::new("")).display().to_string();
        match (lines.first(), listed.get_mut(name.as_str())) {
            (Some(_), Some(used)) => *used = true,
            (Some(line), None) => lacking.push(format!("{name}:{line}")),
            (None, _) => {}
        }
    }
    (lacking, listed.into_iter().filter(|(_, used)| !used).map(|(file, _)| file).collect())
}

#[test]
fn folders_are_made_by_the_private_folder_and_where_the_list_says_why_not() {
    let (wrong, unused) = compared(ALLOWED, makes_folders);
    assert!(
        wrong.is_empty(),
        "use sys::private_folder, or say in the list why no one else can make them:\n{}",
        wrong.join("\n")
    );
    assert!(unused.is_empty(), "these make no folders any more; take them off the list:\n{}", unused.join("\n"));
}

#[test]
fn paths_that_are_read_back_are_those_of_the_list() {
    let (wrong, unused) = compared(STORED, stored_paths);
    let advice = "open it by sys::private_folder::directory, or say in the list what keeps it from leading elsewhere";
    assert!(wrong.is_empty(), "{advice}:\n{}", wrong.join("\n"));
    assert!(unused.is_empty(), "these have no stored paths any more; take them off the list:\n{}", unused.join("\n"));
}

#[test]
fn a_path_in_a_type_that_is_read_back_is_found() {
    let of = |derived: &str| {
        stored_paths(&format!(
            "#[derive({derived})]\nstruct A {{\n    path: Vec<PathBuf>,\n}}\nfn f(p: PathBuf) {{\n}}\n"
        ))
    };
    assert_eq!(of("Debug, Deserialize"), [3]);
    assert_eq!(of("Debug, Serialize"), [0_usize; 0]);
    assert_eq!(stored_paths("#[derive(Deserialize)]\nstruct A(PathBuf);\nstruct B(PathBuf);\n"), [2]);
    let two = "#[derive(Deserialize)]\nenum A {\n    B(PathBuf),\n    C {\n        d: PathBuf,\n    },\n}\nstruct E(\n    PathBuf,\n);\n";
    assert_eq!(stored_paths(two), [3, 5]);
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
