//! Kernel modules by name, with what they need, in the order in which they must be loaded.
//!
//! A package that was unpacked and not installed has no list of dependencies, but every module names its own.

use baremark_model::site::Missing;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of one kernel.
pub struct Modules {
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    builtin: Vec<String>,
}

impl Modules {
    /// Those under `folder`, such as `/lib/modules/VERSION`.
    pub fn under(folder: &Path) -> Self {
        let mut files = BTreeMap::new();
        collect(&folder.join("kernel"), &mut files);
        let builtin = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let builtin = builtin.lines().filter_map(|line| name_of(Path::new(line))).collect();
        Modules { folder: folder.to_owned(), files, builtin }
    }

    /// The files of these modules and of all that they need; what is part of the kernel itself needs no file.
    ///
    /// # Errors
    /// Which module is not there, and who needs it.
    pub fn files_of(&self, names: &[String]) -> Result<Vec<PathBuf>, Missing> {
        let mut files = Vec::new();
        for name in names {
            self.add(&plain(name), None, &mut files)?;
        }
        Ok(files)
    }

    fn add(&self, name: &str, needed_by: Option<&str>, files: &mut Vec<PathBuf>) -> Result<(), Missing> {
        let Some(file) = self.files.get(name) else {
            if self.builtin.iter().any(|known| known == name) {
                return Ok(());
            }
            let who = needed_by.map(|who| format!(", which {who} needs")).unwrap_or_default();
            let what = format!("the guest's kernel has no module {name}{who} (looked under {})", self.folder.display());
            let remedy =
                "name another, or give a kernel that has it: `baremark setup guest-kernel` fetches Debian's for clouds";
            return Err(Missing { what, remedy: remedy.to_owned() });
        };
        if files.contains(file) {
            return Ok(());
        }
        if file.extension().is_none_or(|kind| kind != "ko") {
            let what = format!("the module {} is compressed", file.display());
            return Err(Missing {
                what,
                remedy: "decompress it in the same folder, as a file that ends in .ko".to_owned(),
            });
        }
        let content = fs::read(file).map_err(|why| Missing {
            what: format!("the module {} cannot be read: {why}", file.display()),
            remedy: "let this user read it".to_owned(),
        })?;
        for needed in depends(&content) {
            self.add(&needed, Some(name), files)?;
        }
        // A module that needs itself in a circle has been added by now.
        if !files.contains(file) {
            files.push(file.clone());
        }
        Ok(())
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&path, files);
        } else if let Some(name) = name_of(&path) {
            files.insert(name, path);
        }
    }
}

/// A module's name from its file's, with underscores as the kernel has them.
fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (stem, _) = name.split_once(".ko")?;
    Some(plain(stem))
}

/// The name that people use for `sch_netem` is netem.
fn plain(name: &str) -> String {
    let name = name.replace('-', "_");
    if name == "netem" { "sch_netem".to_owned() } else { name }
}

/// What a module says that it needs.
fn depends(content: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(place) = content.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = content[place + KEY.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let value = String::from_utf8_lossy(value);
    value.split(',').filter(|name| !name.is_empty()).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_needs_comes_before_it_and_what_is_missing_is_named() {
        let folder = std::env::temp_dir().join(format!("baremark-modules-{}", std::process::id()));
        let write = |path: &str, content: &str| {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
            fs::write(path, content).expect("it can be written");
        };
        write("kernel/net/sch_netem.ko", "ELF\0license=GPL\0depends=first-one,core\0name=sch_netem\0");
        write("kernel/lib/first_one.ko", "ELF\0depends=\0");
        write("kernel/md/torn.ko", "ELF\0depends=nowhere\0");
        write("kernel/md/packed.ko.xz", "xz");
        write("modules.builtin", "kernel/kernel/core.ko\n");
        let modules = Modules::under(&folder);
        let files = modules.files_of(&["netem".to_owned(), "first_one".to_owned()]).expect("all are there");
        assert_eq!(files, [folder.join("kernel/lib/first_one.ko"), folder.join("kernel/net/sch_netem.ko")]);
        let why =
            modules.files_of(&["torn".to_owned()]).expect_err("it needs a module that does not exist").to_string();
        assert!(why.starts_with("the guest's kernel has no module nowhere, which torn needs (looked under "), "{why}");
        let why = modules.files_of(&["packed".to_owned()]).expect_err("it is compressed").to_string();
        assert!(why.contains("packed.ko.xz is compressed; decompress it"), "{why}");
        fs::remove_dir_all(folder).expect("it is ours");
    }
}
