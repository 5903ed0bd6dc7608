//! What a container leaves whose start or whose end was cut short, and its removal.
//!
//! An engine removes what it has in its records. A client that was killed in the middle of a start leaves more: the engine's monitor, the
//! processes of the runtime, and the runtime's state. They are found by the container's name, which is recorded before it starts, and by its
//! identity, which stands in the monitor's command line.

use crate::child;
use baremark_journal::change::details_of;
use baremark_journal::{Change, Kind, Undone};
use baremark_sys::{confine, process_tree};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const KIND: &str = "container";
/// Programs that are started to remove a container.
const ENGINES: [&str; 2] = ["podman", "docker"];
/// How names of containers begin.
const MARK: &str = "baremark-";
/// The program of podman's that watches over a container.
const MONITOR: &str = "conmon";
/// Digits of the identity of a container.
const IDENTITY: usize = 64;
/// How long an engine may take for one answer.
const ENGINE_LIMIT: Duration = Duration::from_secs(20);
/// How long processes that were killed may take to be gone, or an engine to finish the removal that it has begun.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Where control groups are, in hierarchies of version 1 below it, and the one in which podman makes those of containers.
const GROUPS: &str = "/sys/fs/cgroup";
const GROUP_OF_ENGINE: &str = "libpod_parent";
const GLANCE: Duration = Duration::from_millis(5);

/// Identities of containers, each with its runtime.
pub type Identities = BTreeMap<String, String>;

/// The kind of containers that are started.
#[derive(Clone, Copy, Debug)]
pub struct Containers;

/// A container that may be there.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leftover {
    engine: PathBuf,
    name: String,
}

impl Leftover {
    /// The container `name` of `engine`.
    ///
    /// # Errors
    /// `InvalidInput` for a name that baremark does not give.
    pub fn new(engine: &OsStr, name: &str) -> io::Result<Leftover> {
        let made = Leftover { engine: engine.into(), name: name.to_owned() };
        made.check().map(|()| made)
    }

    fn check(&self) -> io::Result<()> {
        let engine = self.engine.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !ENGINES.contains(&engine) {
            let what = format!("'{}' must be podman or docker to remove a container", self.engine.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let plain = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        match self.name.strip_prefix(MARK) {
            Some(rest) if plain(rest) => Ok(()),
            _ => {
                let what = format!("'{}' is not the name of a container that baremark makes", self.name);
                Err(io::Error::new(io::ErrorKind::InvalidInput, what))
            }
        }
    }

    /// Its record.
    ///
    /// # Errors
    /// For an engine whose path is not text.
    pub fn change(&self) -> io::Result<Change> {
        let target = format!("container {}", self.name);
        Ok(Change { kind: KIND.to_owned(), target, details: serde_json::to_value(self)? })
    }

    fn is_docker(&self) -> bool {
        is(&self.engine.to_string_lossy(), "docker")
    }

    fn ask(&self, words: &[&str]) -> io::Result<child::Ran> {
        child::run(Command::new(&self.engine).args(words), ENGINE_LIMIT)
            .map_err(|why| io::Error::other(why.to_string()))
    }

    /// Its identity and its runtime, where podman knows it.
    fn known(&self) -> io::Result<Option<(String, String)>> {
        let ran = self.ask(&["container", "inspect", "--format", "{{.Id}} {{.OCIRuntime}}", &self.name])?;
        let pair = |line: &String| line.split_once(' ').map(|(id, runtime)| (id.to_owned(), runtime.to_owned()));
        Ok(ran.said.iter().filter_map(pair).find(|(id, _)| is_identity(id)).filter(|_| ran.well()))
    }

    /// Whether there is something to remove; podman's identity of it is added to those that are known. Docker's daemon does all by itself.
    ///
    /// # Errors
    /// What asking the engine gives.
    pub fn identify(&self, identities: &mut Identities) -> io::Result<bool> {
        if self.is_docker() {
            return Ok(true);
        }
        // Its monitor first, which goes soon after the container has ended.
        let monitors = process_tree::with_command(|words| self.is_monitor(words))?;
        let known = self.known()?;
        let any = known.is_some() || !monitors.is_empty();
        identities.extend(known);
        identities.extend(monitors.iter().filter(|(pid, _)| is_own(*pid)).filter_map(|(_, words)| told(words)));
        Ok(any)
    }

    /// Ends the container's processes and removes the state of its runtime, which the engine may not know; whether there was something.
    ///
    /// # Errors
    /// When processes do not end or files cannot be removed.
    pub fn end(&self, identities: &mut Identities) -> io::Result<bool> {
        if self.is_docker() {
            return Ok(false);
        }
        let mut found = self.end_processes(identities)?;
        for (id, runtime) in &*identities {
            found |= forget(id, runtime)?;
            found |= remove_groups(id)?;
        }
        Ok(found)
    }

    /// Whether this process is the container's: its monitor, or one of its runtime.
    fn has(&self, words: &[String], ids: &Identities) -> bool {
        let program = words.first().map_or("", String::as_str);
        let ours = || words.iter().any(|word| ids.keys().any(|id| word.contains(id.as_str())));
        self.is_monitor(words) || (!self.is_engine(program) && ours())
    }

    fn is_monitor(&self, words: &[String]) -> bool {
        words.first().is_some_and(|program| is(program, MONITOR)) && words.contains(&self.name)
    }

    fn is_engine(&self, program: &str) -> bool {
        self.engine.file_name().is_some_and(|engine| is(program, &engine.to_string_lossy()))
    }

    /// Kills all processes of the container; `ids` gets what their command lines tell. One that is just removed by the engine is left to it.
    fn end_processes(&self, ids: &mut Identities) -> io::Result<bool> {
        let deadline = Instant::now() + END_LIMIT;
        let mut any = false;
        loop {
            let found = process_tree::with_command(|words| self.has(words, ids))?;
            for (root, words) in &found {
                ids.extend(told(words).filter(|_| is_own(*root)));
                self.kill(*root, Instant::now() > deadline)?;
            }
            if found.is_empty() {
                return Ok(any);
            }
            any = true;
            if Instant::now() > deadline + END_LIMIT {
                let pids: Vec<String> = found.iter().map(|(pid, _)| pid.to_string()).collect();
                let what = format!("processes of container {} do not end: {}", self.name, pids.join(", "));
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            thread::sleep(GLANCE);
        }
    }

    /// Kills a process and all below it, unless the engine works there.
    fn kill(&self, root: u32, in_any_case: bool) -> io::Result<()> {
        let tree = process_tree::pids(root)?;
        let engine = process_tree::with_command(|words| words.first().is_some_and(|program| self.is_engine(program)))?;
        if !in_any_case && engine.iter().any(|(pid, _)| tree.contains(pid)) {
            return Ok(());
        }
        for pid in tree {
            // It may have ended since.
            drop(confine::send(pid.cast_signed(), libc::SIGKILL));
        }
        Ok(())
    }
}

/// Whether this is the program `name`, by whatever path.
fn is(program: &str, name: &str) -> bool {
    program.rsplit('/').next() == Some(name)
}

fn is_identity(word: &str) -> bool {
    word.len() == IDENTITY && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a process is this user's. The runtime that a monitor names is started with this user's rights, and everybody can start a process whose
/// command line looks like a monitor's.
fn is_own(pid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok_and(|facts| facts.uid() == confine::effective_user())
}

/// The identity and the runtime in the command line of a monitor.
fn told(words: &[String]) -> Option<(String, String)> {
    let after = |option: &str| Some(words.iter().skip_while(|word| *word != option).nth(1)?.clone());
    let id = after("-c").filter(|id| is_identity(id))?;
    Some((id, after("-r")?))
}

/// Removes a container by its engine, whatever it does; one that the engine does not know is as good.
///
/// # Errors
/// What asking the engine gives, and when it refuses.
pub fn remove(container: &Leftover) -> io::Result<()> {
    let docker = container.is_docker();
    let options: &[&str] = if docker { &["rm", "--force"] } else { &["rm", "--force", "--ignore", "--time=0"] };
    let ran = container.ask(&[options, &[container.name.as_str()]].concat())?;
    let absent = || docker && ran.said.iter().any(|line| line.contains("No such container"));
    if ran.well() || absent() { Ok(()) } else { Err(io::Error::other(ran.failure())) }
}

/// Lets the runtime forget a container, and removes what it has of it then; whether there was something.
fn forget(id: &str, runtime: &str) -> io::Result<bool> {
    let name = runtime.rsplit('/').next().unwrap_or(runtime);
    let state = runtime_state(name);
    if traces(&state, id).is_empty() {
        return Ok(false);
    }
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut command = Command::new(runtime);
    command.env("PATH", path).args(["delete", "--force", id]);
    child::run(&mut command, ENGINE_LIMIT).map_err(|why| io::Error::other(why.to_string()))?;
    for path in traces(&state, id) {
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
            _ => {}
        }
    }
    Ok(true)
}

/// Ends what runs in the control groups that a runtime has made for a container, and removes them; whether there were some. Of a runtime that
/// was killed before it wrote its state neither the engine nor the runtime knows them.
fn remove_groups(id: &str) -> io::Result<bool> {
    let root = Path::new(GROUPS);
    let hierarchies = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let parents = hierarchies.chain([root.to_owned()]).map(|folder| folder.join(GROUP_OF_ENGINE));
    let groups: Vec<PathBuf> = parents.flat_map(|parent| traces(&parent, id)).filter(|path| path.is_dir()).collect();
    let deadline = Instant::now() + END_LIMIT;
    for group in &groups {
        loop {
            match fs::remove_dir(group) {
                Err(why) if why.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {}
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                _ => break,
            }
            let inside = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            for pid in inside.lines().filter_map(|line| line.parse().ok()) {
                // It may have ended since.
                drop(confine::send(pid, libc::SIGKILL));
            }
            thread::sleep(GLANCE);
        }
    }
    Ok(!groups.is_empty())
}

/// Where a runtime keeps its state.
fn runtime_state(runtime: &str) -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !confine::is_root());
    own.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join(runtime)
}

/// Files and folders there of a container.
fn traces(state: &Path, id: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(state).into_iter().flatten().flatten().map(|entry| entry.path());
    paths.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains(id))).collect()
}

impl Kind for Containers {
    fn name(&self) -> &'static str {
        KIND
    }

    /// An engine's records are on the disk.
    fn survives_reboot(&self) -> bool {
        true
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let container: Leftover = details_of(details)?;
        container.check()?;
        if container.is_docker() {
            // Its containers are the daemon's, which nobody has killed.
            return remove(&container).map(|()| Undone::Done);
        }
        let mut identities = Identities::new();
        let known = container.identify(&mut identities)?;
        let found = container.end(&mut identities)? || known;
        // Last: what was killed in the middle of this is found again by the engine's record.
        remove(&container)?;
        Ok(if found { Undone::Done } else { Undone::Absent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_containers_of_this_program_are_removed() {
        for name in ["postgres", "baremark-x; rm", "baremark_1", ""] {
            let why = Leftover::new("podman".as_ref(), name).expect_err(name);
            assert!(why.to_string().contains("is not the name of a container that baremark makes"), "{why}");
        }
        for (engine, name, expected) in [
            ("podman", "postgres", "'postgres' is not the name"),
            ("/tmp/planted", "baremark-container-7-0", "'/tmp/planted' must be podman or docker"),
        ] {
            let details = serde_json::json!({ "engine": engine, "name": name });
            let why = Containers.undo(&details).expect_err("it is not ours");
            assert!(why.to_string().contains(expected), "{why}");
        }
    }

    #[test]
    fn processes_of_others_name_no_runtime() {
        assert!(is_own(std::process::id()));
        assert!(!is_own(u32::MAX), "there is none");
    }

    #[test]
    fn a_monitor_is_known_by_its_name_and_a_runtime_by_the_containers_identity() {
        let id = "0123456789abcdef".repeat(4);
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let monitor = words(&format!(
            "/usr/bin/conmon --api-version 1 -c {id} -u {id} -r /usr/sbin/runc -n baremark-container-7-0"
        ));
        let ours = Leftover::new("podman".as_ref(), "baremark-container-7-0").expect("a name");
        let other = Leftover::new("podman".as_ref(), "baremark-container-7-01").expect("a name");
        assert_eq!(told(&monitor), Some((id.clone(), "/usr/sbin/runc".to_owned())));
        let ids = BTreeMap::from(told(&monitor).map(|pair| [pair]).expect("a monitor"));
        assert!(ours.has(&monitor, &BTreeMap::new()) && !other.has(&monitor, &BTreeMap::new()));
        let sandbox = words(&format!("runsc-sandbox --root=/run/runsc boot --bundle=/var/x {id}"));
        assert!(ours.has(&sandbox, &ids) && !ours.has(&sandbox, &BTreeMap::new()));
        assert!(
            !ours.has(&words(&format!("/usr/bin/podman container cleanup --rm {id}")), &ids),
            "the engine removes it"
        );
    }
}
