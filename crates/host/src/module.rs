//! Parameters that a kernel module takes only when it is loaded: changed by loading it again.
//!
//! The change is recorded before the module is removed. Undoing it loads the module with what the parameter was, also where a kill came
//! between removing and loading. Other parameters keep what they were: those that loading made otherwise are given to it as well. A module
//! that something uses, or that is part of the kernel, is refused.

use baremark_journal::change::details_of;
use baremark_journal::{Held, Journal, Kind, MakeError, Undone};
use baremark_sys::process;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

const KIND: &str = "module";
const MODULES: &str = "sys/module";
/// Loads a module and what it needs.
const LOAD: &str = "modprobe";
/// Removes a module and nothing that it needed, whose parameters would be lost as well.
const REMOVE: &str = "rmmod";
/// Where they are when they are not on the PATH.
const ELSEWHERE: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The kind of changes to parameters of modules.
#[derive(Clone, Copy, Debug)]
pub struct Modules;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    module: String,
    parameter: String,
    value: String,
    /// All parameters that could be read, as they were.
    previous: BTreeMap<String, String>,
}

impl Kind for Modules {
    fn name(&self) -> &'static str {
        KIND
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let Details { module, parameter, value, previous } = details_of(details)?;
        [&module, &parameter].into_iter().chain(previous.keys()).try_for_each(|name| is_name(name))?;
        settled(&module);
        let before = previous.get(&parameter).ok_or_else(|| invalid(format!("details: no {parameter}")))?;
        match parameters(&module).get(&parameter) {
            Some(found) if found == before => return Ok(Undone::Absent),
            Some(found) if *found != value => return Ok(Undone::Foreign(format!("{found}, not {value}"))),
            _ => load(&module, &parameter, before, &previous)?,
        }
        Ok(Undone::Done)
    }
}

/// Why a parameter of this module, below `root`, cannot be changed by loading it again; `None` when it can.
pub fn fixed(root: &Path, module: &str) -> Option<String> {
    let folder = root.join(MODULES).join(module);
    if !folder.join("initstate").exists() {
        return Some(format!("{module} is part of this kernel, which takes its parameters when it boots"));
    }
    [LOAD, REMOVE].into_iter().find_map(|name| program(name).err()).map(|why| why.to_string())
}

/// Why a module cannot be removed now; `None` when nothing uses it.
pub fn used(root: &Path, module: &str) -> Option<String> {
    let folder = root.join(MODULES).join(module);
    let holders = names(&folder.join("holders"));
    if !holders.is_empty() {
        return Some(format!("{module} is used by the modules {}", holders.join(", ")));
    }
    let count = fs::read_to_string(folder.join("refcnt")).unwrap_or_default();
    match count.trim() {
        "" | "0" => None,
        count => Some(format!("{module} is used {count} times, as by a process that has /dev/kvm open")),
    }
}

/// Loads a module again with a value of one of its parameters, until the hold on it is dropped.
///
/// # Errors
/// When it cannot be recorded, the module is in use, or the kernel does not take the value.
pub fn set(journal: &Journal, module: &str, parameter: &str, value: &str) -> Result<Held, MakeError<io::Error>> {
    let look = || {
        let previous = parameters(module);
        let details =
            Details { module: module.to_owned(), parameter: parameter.to_owned(), value: value.to_owned(), previous };
        Ok(serde_json::to_value(details)?)
    };
    let make = |details: &Value| {
        let Details { previous, .. } = details_of(details)?;
        match previous.get(parameter) {
            Some(found) if found == value => Ok(()),
            _ => load(module, parameter, value, &previous),
        }
    };
    let target = Path::new("/").join(MODULES).join(module).display().to_string();
    journal.make_from(KIND.to_owned(), target, look, make).map(|((), held)| held)
}

/// Waits for a program that a killed process had started to remove or load a module: it goes on, and what it does is not done yet.
fn settled(module: &str) {
    let begun = Instant::now();
    while works_on(module) && begun.elapsed() < LONGEST {
        thread::sleep(GLANCE);
    }
}

fn works_on(module: &str) -> bool {
    let processes = names(Path::new("/proc")).into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let mut lines = processes.filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok());
    lines.any(|line| {
        let words: Vec<&str> = line.split('\0').collect();
        let program = words.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        [LOAD, REMOVE].contains(&program) && words.contains(&module)
    })
}

/// How long such a program may take, and how often it is looked for.
const LONGEST: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(20);

/// Loads a module with `parameter = value`, removed before if it is there; its other parameters are as `previous` has them.
fn load(module: &str, parameter: &str, value: &str, previous: &BTreeMap<String, String>) -> io::Result<()> {
    let own = format!("{parameter}={value}");
    again(module, std::slice::from_ref(&own))?;
    let others = differing(&parameters(module), previous, parameter);
    if !others.is_empty() {
        again(module, &[vec![own], others].concat())?;
    }
    let now = parameters(module);
    let found = now.get(parameter).map_or("nothing", String::as_str);
    if found != value {
        return Err(io::Error::other(format!("{module} was loaded with {parameter}={value} and has {found}")));
    }
    match differing(&now, previous, parameter) {
        others if others.is_empty() => Ok(()),
        others => Err(io::Error::other(format!("{module} could not be loaded with {}", others.join(" ")))),
    }
}

/// `parameter=value` of each parameter but one that is not as it was.
fn differing(now: &BTreeMap<String, String>, previous: &BTreeMap<String, String>, but: &str) -> Vec<String> {
    let others = previous.iter().filter(|(name, value)| *name != but && now.get(*name) != Some(value));
    others.map(|(name, value)| format!("{name}={value}")).collect()
}

/// Removes a module if it is there, and loads it.
fn again(module: &str, arguments: &[String]) -> io::Result<()> {
    if Path::new("/").join(MODULES).join(module).exists() {
        if let Some(why) = used(Path::new("/"), module) {
            return Err(io::Error::other(why));
        }
        run(REMOVE, &[module])?;
    }
    let all: Vec<&str> = [module].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    run(LOAD, &all)
}

fn run(name: &str, arguments: &[&str]) -> io::Result<()> {
    let done = Command::new(program(name)?).args(arguments).output()?;
    match done.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(io::Error::other(format!("{name} {}: {}", arguments.join(" "), said.trim())))
        }
    }
}

fn program(name: &str) -> io::Result<PathBuf> {
    process::installed(name, &ELSEWHERE)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no {name}; install kmod")))
}

/// The parameters of a module that can be read. None when it is not loaded.
fn parameters(module: &str) -> BTreeMap<String, String> {
    let folder = Path::new("/").join(MODULES).join(module).join("parameters");
    let value = |name: &String| Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
    names(&folder).into_iter().filter_map(|name| value(&name).map(|value| (name, value))).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// A record is not obeyed that would give modprobe something else than names.
fn is_name(name: &str) -> io::Result<()> {
    let named = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if named { Ok(()) } else { Err(invalid(format!("details: '{name}' is not a name"))) }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
