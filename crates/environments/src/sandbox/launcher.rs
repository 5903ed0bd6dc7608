//! The launcher of a sandbox: this program as `baremark sandbox`, between whoever wants a sandbox and the program inside.

use baremark_sys::confine::PREFIX;
use baremark_sys::control_group::{self, Controller, Own, Parent, Version};
use baremark_sys::sandbox::{self, Launch, Layer, Refused, Shown};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The variable that names the folder of temporary files, which is the sandbox's own where it has files of its own.
const TEMPORARY: &str = "TMPDIR";

/// What is to be launched.
#[derive(Clone, Debug)]
pub struct Orders {
    /// The layers.
    pub layers: Vec<Layer>,
    /// Folders that may be written.
    pub write: Vec<PathBuf>,
    /// Files and folders that are seen wherever they lie.
    pub read: Vec<PathBuf>,
    /// The most memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// The CPUs; empty for all.
    pub cpus: Vec<usize>,
    /// The program's file and its arguments.
    pub command: Vec<OsString>,
}

/// Launches the program and waits for its end; its exit status, or 128 and the number of the signal that ended it.
///
/// # Errors
/// What was refused; nothing is left then.
pub fn launch(orders: &Orders) -> Result<i32, Refused> {
    let failed = |why: io::Error| Refused { layer: None, why: why.to_string() };
    let groups = if orders.layers.contains(&Layer::ControlGroup) { groups(orders.memory_bytes)? } else { Vec::new() };
    let joined = groups.iter().map(|own| File::options().write(true).open(own.path().join("cgroup.procs")));
    let joined = joined.collect::<io::Result<Vec<File>>>();
    let joined = joined.map_err(|why| Refused { layer: Some(Layer::ControlGroup), why: why.to_string() })?;
    let program = orders.command.first().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let shown = shown(orders, Path::new(program));
    let own_files = orders.layers.contains(&Layer::Mount) && Path::new("/tmp").is_dir();
    let launch = Launch {
        layers: &orders.layers,
        groups: &joined,
        shown: &shown,
        cpus: &orders.cpus,
        program: text(program).map_err(failed)?,
        arguments: orders.command.iter().map(|word| text(word)).collect::<io::Result<_>>().map_err(failed)?,
        environment: environment(own_files, &orders.write).map_err(failed)?,
    };
    launch.run()
}

/// What a sandbox sees: the folders that may be written, and the program and the named files where it would hide them.
fn shown(orders: &Orders, program: &Path) -> Vec<Shown> {
    let write = orders.write.iter().map(|path| Shown { path: path.clone(), writable: true });
    let below_one = |path: &Path| orders.write.iter().any(|folder| path.starts_with(folder));
    let read = orders.read.iter().map(PathBuf::as_path).chain([program]);
    let read = read.filter(|path| sandbox::hides(path) && !below_one(path));
    write.chain(read.map(|path| Shown { path: path.to_owned(), writable: false })).collect()
}

fn text(word: &OsStr) -> io::Result<CString> {
    CString::new(word.as_bytes()).map_err(io::Error::from)
}

/// This process's variables; the folder of temporary files is the sandbox's where it has files of its own.
fn environment(own_files: bool, write: &[PathBuf]) -> io::Result<Vec<CString>> {
    let variable = |(name, value): (OsString, OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).map_err(io::Error::from)
    };
    let kept = std::env::vars_os().filter(|(name, value)| !own_files || is_kept(name, value, write));
    kept.map(variable).collect()
}

/// Whether a variable is as outside where a sandbox has files of its own: a folder of temporary files that nobody may write is none.
fn is_kept(name: &OsStr, value: &OsStr, write: &[PathBuf]) -> bool {
    name != TEMPORARY || write.iter().any(|folder| folder.parent().is_some() && Path::new(value).starts_with(folder))
}

/// Groups of its own, below every hierarchy that has memory or CPU time and offers them to groups already: a sandbox changes nothing for
/// other groups.
fn groups(memory_bytes: Option<u64>) -> Result<Vec<Own>, Refused> {
    let mut groups: Vec<(PathBuf, Own)> = Vec::new();
    let mut why = "no hierarchy of control groups offers memory or CPU time to new groups".to_owned();
    for controller in [Controller::Memory, Controller::Cpu] {
        for parent in control_group::parents(controller).into_iter().filter(|parent| parent.offers(controller)) {
            if groups.iter().any(|(path, _)| *path == parent.path) {
                break;
            }
            match group(&parent, memory_bytes.filter(|_| controller == Controller::Memory)) {
                Ok(own) => {
                    groups.push((parent.path, own));
                    break;
                }
                Err(error) => why = format!("a group in {}: {error}", parent.path.display()),
            }
        }
        if controller == Controller::Memory && groups.is_empty() && memory_bytes.is_some() {
            break;
        }
    }
    if groups.is_empty() {
        return Err(Refused { layer: Some(Layer::ControlGroup), why });
    }
    Ok(groups.into_iter().map(|(_, own)| own).collect())
}

fn group(parent: &Parent, memory_bytes: Option<u64>) -> io::Result<Own> {
    let own = Own::new(&parent.path, PREFIX, false)?;
    // One that takes no process would be found out too late.
    File::options().write(true).open(own.path().join("cgroup.procs"))?;
    if let Some(bytes) = memory_bytes {
        let file = if parent.version == Version::One { "memory.limit_in_bytes" } else { "memory.max" };
        control_group::set(&own.path().join(file), &bytes.to_string())?;
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_are_the_sandboxs_unless_their_folder_may_be_written() {
        let write = [PathBuf::from("/scratch")];
        let kept = |name: &str, value: &str| is_kept(OsStr::new(name), OsStr::new(value), &write);
        assert!(kept("TMPDIR", "/scratch/tmp") && kept("HOME", "/tmp"));
        assert!(!kept("TMPDIR", "/tmp") && !kept("TMPDIR", "/scratches"));
    }

    #[test]
    fn what_would_be_hidden_is_shown_and_what_is_seen_anyway_is_not() {
        let orders = Orders {
            layers: Layer::ALL.to_vec(),
            write: vec!["/tmp/own".into()],
            read: vec!["/tmp/data".into(), "/srv/data".into(), "/tmp/own/data".into()],
            memory_bytes: None,
            cpus: Vec::new(),
            command: Vec::new(),
        };
        let of = |path: &str, writable| Shown { path: path.into(), writable };
        let work = of("/tmp/own", true);
        let expected = [work.clone(), of("/tmp/data", false), of("/tmp/baremark", false)];
        assert_eq!(shown(&orders, Path::new("/tmp/baremark")), expected);
        assert_eq!(shown(&orders, Path::new("/usr/bin/baremark")), expected[..2]);
        assert_eq!(shown(&Orders { read: Vec::new(), ..orders }, Path::new("/tmp/own/baremark")), [work]);
    }
}
