//! A program with all of its processes, killed until none of them is left.
//!
//! A list of processes is old as soon as it is made: a process that is forked meanwhile is not in it and loses its parent with
//! the kill. A process group cannot be forked out of in that moment (the kernel lets fork(2) fail under a pending signal), so
//! the group of every process that is known is killed too. What has left its group is known by its working folder.

use crate::process_tree::{self, Entry};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is checked whether processes are left.
const GLANCE: Duration = Duration::from_millis(1);

/// Shared memory that PostgreSQL and Apache make for one server each; it stays in `/dev/shm` when that is killed.
const SHARED_MEMORY: [&str; 2] = ["/dev/shm/PostgreSQL.", "/dev/shm/ShM."];

/// A program that this process has started, and what that has started in turn.
#[derive(Debug)]
pub struct Family {
    root: u32,
    folder: PathBuf,
    /// Executables of its processes: a stranger's shell may be in the folder too.
    programs: BTreeSet<PathBuf>,
    /// The groups of its processes.
    groups: BTreeSet<u32>,
    /// Shared memory that its processes have mapped and that goes with them.
    shared_memory: BTreeSet<PathBuf>,
}

impl Family {
    /// What `root`, a child of this process that leads a process group, has become: started as `program` with a working folder in
    /// `folder`. It may have ended.
    #[must_use]
    pub fn of(root: u32, program: &Path, folder: &Path) -> Family {
        let programs = fs::canonicalize(program).into_iter().collect();
        Family {
            root,
            folder: folder.to_owned(),
            programs,
            groups: BTreeSet::from([root]),
            shared_memory: BTreeSet::new(),
        }
    }

    /// Kills all of it and looks again until nothing is left, then removes the shared memory of servers.
    ///
    /// # Errors
    /// `TimedOut` with the processes that are left after `limit`; what reading `/proc` gives.
    pub fn kill(&mut self, limit: Duration) -> io::Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let members = self.members()?;
            if members.is_empty() {
                for path in std::mem::take(&mut self.shared_memory) {
                    drop(fs::remove_file(path));
                }
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("processes do not end: {members:?}")));
            }
            for group in &self.groups {
                kill(-group.cast_signed());
            }
            for pid in members {
                kill(pid.cast_signed());
            }
            thread::sleep(GLANCE);
        }
    }

    /// Its processes that live, whose groups and executables are remembered.
    ///
    /// # Errors
    /// What reading `/proc` gives.
    pub fn members(&mut self) -> io::Result<BTreeSet<u32>> {
        let all = process_tree::entries()?;
        let own = std::process::id();
        let own_group = all.get(&own).map_or(own, |entry| entry.group);
        let mut members = BTreeSet::new();
        // The number of a child that was waited for may be somebody else's by now, who has it once no process of its group is left.
        match all.get(&self.root) {
            Some(entry) if entry.parent == own => members = process_tree::members(&all, self.root),
            Some(_) if !process_tree::members(&all, own).contains(&self.root) => {
                self.groups.remove(&self.root);
            }
            _ => {}
        }
        let known = |pid: u32, entry: &Entry| self.groups.contains(&entry.group) || self.stands_here(pid);
        members.extend(all.iter().filter(|(pid, entry)| known(**pid, entry)).map(|(pid, _)| *pid));
        members.retain(|pid| *pid != own && all.get(pid).is_some_and(|entry| !entry.ended));
        for pid in &members {
            let group = all.get(pid).map_or(0, |entry| entry.group);
            if group > 1 && group != own_group {
                self.groups.insert(group);
            }
            self.programs.extend(fs::read_link(format!("/proc/{pid}/exe")));
            self.shared_memory.extend(shared_memory(*pid));
        }
        Ok(members)
    }

    fn stands_here(&self, pid: u32) -> bool {
        let link = |name: &str| fs::read_link(format!("/proc/{pid}/{name}"));
        link("cwd").is_ok_and(|folder| folder.starts_with(&self.folder))
            && link("exe").is_ok_and(|program| self.programs.contains(&program))
    }
}

/// The named shared memory of servers that a process has mapped.
fn shared_memory(pid: u32) -> BTreeSet<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| line.find("/dev/shm/").map(|at| &line[at..]));
    mapped.filter(|path| SHARED_MEMORY.iter().any(|own| path.starts_with(own))).map(PathBuf::from).collect()
}

fn kill(pid: i32) {
    // SAFETY: takes numbers and touches no memory. One that is gone is not an error.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    /// Starts a shell in `folder`, in a group of its own.
    fn shell(folder: &Path, script: &str) -> Child {
        Command::new("/bin/sh").args(["-c", script]).current_dir(folder).process_group(0).spawn().expect("it starts")
    }

    /// The file that the server of the next test maps.
    const MAPPED: &str = "BAREMARK_TEST_SHARED_MEMORY";

    /// Not a test: what the next test starts and kills, a server with shared memory.
    #[test]
    fn maps_shared_memory() {
        let Some(path) = std::env::var_os(MAPPED) else { return };
        let file = fs::File::options().read(true).write(true).create_new(true).open(path).expect("it is new");
        file.set_len(4096).expect("room");
        let (rights, fd) = (libc::PROT_READ | libc::PROT_WRITE, std::os::fd::AsRawFd::as_raw_fd(&file));
        // SAFETY: a new mapping at an address of the kernel's choice, which nobody uses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, libc::MAP_SHARED, fd, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        fs::write("mapped", "").expect("its working folder is ours");
        loop {
            thread::park();
        }
    }

    #[test]
    fn shared_memory_of_a_killed_server_is_removed() {
        if !Path::new("/dev/shm").is_dir() {
            let skipped = "skipped: shared memory of a killed server: there is no /dev/shm\n";
            return std::io::Write::write_all(&mut io::stderr(), skipped.as_bytes()).expect("standard error");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let name = format!("/dev/shm/PostgreSQL.test-{}", std::process::id());
        let program = std::env::current_exe().expect("a test");
        let mut command = Command::new(&program);
        command.args(["--exact", "kill_tree::tests::maps_shared_memory"]).env(MAPPED, &name).stdout(Stdio::null());
        let mut child = command.current_dir(folder.path()).process_group(0).spawn().expect("it starts");
        wait_for("it maps its memory", || folder.path().join("mapped").exists());
        assert!(Path::new(&name).exists());
        Family::of(child.id(), &program, folder.path()).kill(Duration::from_secs(60)).expect("it ends");
        drop(child.wait());
        assert!(!Path::new(&name).exists());
    }

    /// Processes that are in a folder.
    fn standing(folder: &Path) -> Vec<u32> {
        let pids =
            fs::read_dir("/proc").expect("/proc").flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at.starts_with(folder)))
            .collect()
    }

    fn wait_for(what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !condition() {
            assert!(Instant::now() < deadline, "{what}");
            thread::sleep(GLANCE);
        }
    }

    #[test]
    fn nothing_is_left_of_a_program_that_forks_while_it_is_killed() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("it is there");
        // As a server that a supervisor has started: in a group of its own, with workers that come and go all the time. Ten such kills, at
        // ten moments, are in tests/kernel.
        // It goes on for as long as this test.
        let test = std::process::id();
        let forks = format!("while kill -0 {test}; do (sleep 5; :) & (exec sleep 0.001); done");
        let mut root = shell(&folder, &format!("setsid sh -c '{forks}' & wait"));
        wait_for("it forks", || standing(&folder).len() > 4);
        let killed = Family::of(root.id(), Path::new("/bin/sh"), &folder).kill(Duration::from_secs(60));
        root.wait().expect("a child");
        assert!(killed.is_ok(), "{killed:?}");
        assert_eq!(standing(&folder), Vec::<u32>::new());
    }

    /// A server that had ended by itself was waited for, and its number was a stranger's when the run ended.
    #[test]
    fn the_group_of_a_stranger_who_has_the_number_of_a_child_that_is_gone_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = "setsid sleep 600 >/dev/null 2>&1 & echo $!";
        let output = Command::new("/bin/sh").args(["-c", script]).output().expect("it starts");
        let stranger: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
        let lives = || {
            let all = process_tree::entries().expect("/proc");
            all.get(&stranger).is_some_and(|entry| !entry.ended && entry.group == stranger)
        };
        wait_for("it leads a group", lives);
        let killed = Family::of(stranger, Path::new("/bin/true"), folder.path()).kill(Duration::from_secs(60));
        let lived = lives();
        kill(stranger.cast_signed());
        assert!(killed.is_ok() && lived, "{killed:?}");
    }

    #[test]
    fn a_daemon_is_found_by_its_folder_and_a_strangers_program_there_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("it is there");
        let mut stranger = Command::new("sleep").arg("600").current_dir(&folder).spawn().expect("it starts");
        // It leaves for a session of its own, and who started it ends.
        let mut root = shell(&folder, "setsid sh -c 'while read line < /dev/zero; do :; done' & exit 0");
        root.wait().expect("a child");
        // Before it is a shell it is setsid, which is a stranger too, and before that a copy of the first shell, in that one's session.
        let shell = Path::new("/bin/sh").canonicalize().expect("a shell");
        let is_shell = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == shell);
        let leads_session = |pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let session = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(3)?.parse().ok());
            session == Some(pid)
        };
        wait_for("it runs", || standing(&folder).into_iter().any(|pid| leads_session(pid) && is_shell(pid)));
        Family::of(root.id(), Path::new("/bin/sh"), &folder).kill(Duration::from_secs(60)).expect("it ends");
        let left = standing(&folder);
        stranger.kill().expect("a child");
        stranger.wait().expect("a child");
        assert_eq!(left, [stranger.id()]);
    }
}
