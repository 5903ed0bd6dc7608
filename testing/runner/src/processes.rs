//! Which processes descend from one.

use std::collections::HashMap;
use std::fs;

/// A process that is there and no zombie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    parent: i32,
    state: char,
}

/// From /proc/PID/stat: the command's name is in brackets and may have any character.
fn parsed(stat: &str) -> Option<Process> {
    let pid = stat.split_once(' ')?.0.parse().ok()?;
    let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
    let state = rest.next()?.chars().next()?;
    Some(Process { pid, state, parent: rest.next()?.parse().ok()? })
}

/// All that descend from `root`, whether their parents still live or not: whoever asks is a subreaper. Zombies are left out.
pub fn descendants(root: i32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let all = pids.filter_map(|pid| parsed(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?));
    below(root, &all.map(|process| (process.pid, process)).collect())
}

fn below(root: i32, all: &HashMap<i32, Process>) -> Vec<Process> {
    let descends = |process: &Process| {
        let mut at = process.parent;
        // No longer than there are processes: the list is no snapshot, so it could have a circle.
        for _ in 0..=all.len() {
            if at == root {
                return true;
            }
            let Some(parent) = all.get(&at) else { return false };
            at = parent.parent;
        }
        false
    };
    let mut found: Vec<Process> = all
        .values()
        .filter(|process| process.state != 'Z' && process.pid != root && descends(process))
        .cloned()
        .collect();
    found.sort_by_key(|process| process.pid);
    found
}

/// What tells a person which process this is.
pub fn described(process: &Process) -> String {
    let of = |file: &str| fs::read(format!("/proc/{}/{file}", process.pid)).unwrap_or_default();
    let command = String::from_utf8_lossy(&of("cmdline")).replace('\0', " ");
    let command =
        if command.trim().is_empty() { format!("[{}]", String::from_utf8_lossy(&of("comm")).trim()) } else { command };
    let folder = fs::read_link(format!("/proc/{}/cwd", process.pid)).unwrap_or_default();
    let (pid, parent, state) = (process.pid, process.parent, process.state);
    format!("process {pid} ({state}, parent {parent}, in {}): {}", folder.display(), command.trim())
}

#[cfg(test)]
mod tests {
    use super::{Process, below, parsed};

    #[test]
    fn a_command_may_have_brackets_and_spaces_in_its_name() {
        let process = parsed("12 (a) S (b) R 7 12 0").map(|process| (process.pid, process.state, process.parent));
        assert_eq!(process, Some((12, 'R', 7)));
        assert_eq!(parsed("12"), None);
    }

    #[test]
    fn descendants_are_found_however_far_they_are_and_zombies_are_not() {
        let one = |pid, parent, state| (pid, Process { pid, parent, state });
        let all = [
            one(1, 0, 'S'),
            one(5, 1, 'S'),
            one(6, 5, 'S'),
            one(7, 6, 'T'),
            one(8, 6, 'Z'),
            one(9, 1, 'S'),
            one(20, 21, 'S'),
            one(21, 20, 'S'),
        ];
        let pids = |root| below(root, &all.clone().into_iter().collect()).iter().map(|of| of.pid).collect::<Vec<_>>();
        assert_eq!(pids(5), [6, 7]);
        assert_eq!(pids(1), [5, 6, 7, 9]);
        assert_eq!(pids(7), Vec::<i32>::new());
    }
}
