//! This machine's programs in a sandbox: what a container engine isolates by default, without an engine, an image or root.
//!
//! The agent is started by a launcher, this program as `baremark sandbox` ([`launcher`]), which sets the layers up ([`baremark_sys::sandbox`]). The files are
//! this machine's, read-only except for the working folder; /tmp, /dev and /proc are the sandbox's own. Layers that the kernel refuses are found
//! once, by running the program's `--version` in a sandbox, and left out; the plan records which there are, and every later start has exactly
//! these or fails.

pub mod launcher;
pub(crate) mod study;

use crate::child::{self, Piped};
use crate::folder::Folder;
use baremark_model::environments::{LACKING, LACKS, LAYERS};
use baremark_model::site::{Environment, Link, Missing, Portion, Site, SiteError, loopback};
use baremark_sys::private_folder::directory::Directory;
use baremark_sys::sandbox::{Layer, refusal};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a sandbox may take to start a program that ends at once, or to end.
const LIMIT: Duration = Duration::from_secs(20);

/// How sandboxes are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The layers, all of which it must have; those that this machine permits when `None`.
    pub layers: Option<Vec<Layer>>,
    /// Folders that may be written, all of which must be there.
    pub write: Vec<PathBuf>,
    /// Folders of this program that may be written as well: each start makes what is missing, where it can.
    pub own: Vec<PathBuf>,
    /// Files and folders that are seen although they lie in a folder that the sandbox has of its own.
    pub read: Vec<PathBuf>,
    /// The most memory that it may use, in bytes; no limit when `None`.
    pub memory_bytes: Option<u64>,
    /// The CPUs that it may use; all when `None`.
    pub cpus: Option<Vec<usize>>,
}

/// What a sandbox has and lacks on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    /// What it has, in the order in which it is set up.
    pub has: Vec<Layer>,
    /// What it lacks, and why.
    pub lacks: Vec<(Layer, String)>,
}

impl Layers {
    /// With these layers, of which `try_them` says which is refused, if any, until none is; the error is what it fails with besides.
    ///
    /// # Errors
    /// Where nothing that isolates is left, or it fails for another reason than a layer.
    fn find(
        wanted: &[Layer],
        mut try_them: impl FnMut(&[Layer]) -> Result<Option<(Layer, String)>, String>,
    ) -> Result<Layers, String> {
        let mut layers = Layers { has: wanted.to_vec(), lacks: Vec::new() };
        while let Some((refused, why)) = try_them(&layers.has)? {
            if !layers.has.contains(&refused) {
                return Err(why);
            }
            layers.leave_out(refused, why);
        }
        let isolates = |layer: &Layer| !matches!(layer, Layer::ControlGroup | Layer::Capabilities | Layer::User);
        if layers.has.iter().any(isolates) { Ok(layers) } else { Err(layers.reasons().join("; ")) }
    }

    fn leave_out(&mut self, refused: Layer, why: String) {
        self.has.retain(|layer| *layer != refused);
        self.lacks.push((refused, why));
        let without: Vec<Layer> = self.has.iter().copied().filter(|layer| layer.needs() == Some(refused)).collect();
        for layer in without {
            self.leave_out(layer, format!("needs {}", refused.name()));
        }
    }

    /// What it lacks, each with its reason.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        self.lacks.iter().map(|(layer, why)| format!("{} ({why})", layer.name())).collect()
    }
}

/// The sandbox environment: starts `program agent` in a sandbox of its own for each site.
pub struct Sandbox {
    program: PathBuf,
    settings: Settings,
    layers: OnceLock<Result<Layers, Missing>>,
}

impl Sandbox {
    /// With this program as the launcher and the agent, usually the one that is running.
    #[must_use]
    pub fn new(program: PathBuf, settings: Settings) -> Self {
        Sandbox { program, settings, layers: OnceLock::new() }
    }

    /// What it has and lacks on this machine, found once.
    ///
    /// # Errors
    /// What is missing, with its remedy.
    pub fn layers(&self) -> Result<Layers, Missing> {
        self.layers.get_or_init(|| self.find()).clone()
    }

    fn find(&self) -> Result<Layers, Missing> {
        let missing = |what: String, remedy: &str| Missing { what, remedy: remedy.to_owned() };
        child::has_its_program(&self.program)?;
        if let Some(folder) = self.settings.write.iter().find(|folder| !folder.is_absolute() || !folder.is_dir()) {
            let what = format!("write = '{}' is not the absolute path of a folder that exists", folder.display());
            return Err(missing(what, "make it, or name another"));
        }
        let wanted = self.settings.layers.as_deref().unwrap_or(&Layer::ALL);
        if let Some(layer) = wanted.iter().find(|layer| layer.needs().is_some_and(|other| !wanted.contains(&other))) {
            let needed = layer.needs().map_or("", Layer::name);
            return Err(missing(format!("the layer {} needs the layer {needed}", layer.name()), "add it to layers"));
        }
        let found = Layers::find(wanted, |layers| self.refused(layers));
        let remedy = "permit user namespaces (sysctl user.max_user_namespaces) or seccomp, or run as root";
        let layers = found.map_err(|why| missing(format!("a sandbox cannot be started: {why}"), remedy))?;
        if let (Some(_), Some((layer, why))) = (&self.settings.layers, layers.lacks.first()) {
            let what = format!("the sandbox cannot have the layer {}: {why}", layer.name());
            return Err(missing(what, "leave it out of layers"));
        }
        if let (Some(_), Some((_, why))) =
            (self.settings.memory_bytes, layers.lacks.iter().find(|(layer, _)| *layer == Layer::ControlGroup))
        {
            let what = format!("the sandbox cannot have a limit on its memory: {why}");
            return Err(missing(what, "run it as root or in a delegated control group, or leave memory out"));
        }
        Ok(layers)
    }

    /// Which of these layers is refused, and why; `None` where a program runs with all of them.
    fn refused(&self, layers: &[Layer]) -> Result<Option<(Layer, String)>, String> {
        let mut command = self.command(layers);
        let ran = child::run_launcher(command.arg("--version"), LIMIT, LIMIT).map_err(|why| why.to_string())?;
        if ran.well() {
            return Ok(None);
        }
        let refused = ran.said.iter().find_map(|line| refusal(line)).map(|(layer, why)| (layer, why.to_owned()));
        refused.map(Some).ok_or_else(|| ran.failure())
    }

    /// Whether its temporary files lie where this machine's do, so that a kill would leave them: what is inside cannot record them.
    fn has_files_of_this_machine(&self) -> bool {
        // "/" shows nothing: a sandbox keeps folders of its own.
        let shows = |folder: &PathBuf| folder.parent().is_some() && std::env::temp_dir().starts_with(folder);
        self.writable().any(shows)
    }

    /// The folders that may be written and are there.
    fn writable(&self) -> impl Iterator<Item = &PathBuf> {
        self.settings.write.iter().chain(self.settings.own.iter().filter(|folder| folder.is_dir()))
    }

    /// The launcher up to the arguments of the program inside.
    fn command(&self, layers: &[Layer]) -> Command {
        let mut command = Command::new(&self.program);
        let names: Vec<&str> = layers.iter().map(|layer| layer.name()).collect();
        command.arg("sandbox").arg(format!("--layers={}", names.join(",")));
        for folder in self.writable() {
            command.arg("--write").arg(folder);
        }
        for path in &self.settings.read {
            command.arg("--read").arg(path);
        }
        if let Some(bytes) = self.settings.memory_bytes {
            command.arg(format!("--memory={bytes}"));
        }
        for cpu in self.settings.cpus.iter().flatten() {
            command.arg(format!("--cpu={cpu}"));
        }
        command.arg("--").arg(&self.program);
        command
    }
}

impl Environment for Sandbox {
    fn name(&self) -> &'static str {
        "sandbox"
    }

    fn probe(&self) -> Result<(), Missing> {
        self.layers().map(drop)
    }

    fn found(&self) -> BTreeMap<String, Vec<String>> {
        let Ok(layers) = self.layers() else { return BTreeMap::new() };
        let has = layers.has.iter().map(|layer| layer.name().to_owned()).collect();
        let mut found = BTreeMap::from([(LAYERS.to_owned(), has)]);
        if !layers.lacks.is_empty() {
            found.insert(LACKS.to_owned(), vec![layers.reasons().join("; ")]);
            found.insert(LACKING.to_owned(), layers.lacks.iter().map(|(layer, _)| layer.name().to_owned()).collect());
        }
        found
    }

    /// Each gets CPUs of its own as long as there are enough, else they share them in turn, and its part of the memory.
    fn portion(&self, portion: Portion) -> Result<Option<Box<dyn Environment>>, Missing> {
        let of = portion.of;
        if of == 1 {
            return Ok(None);
        }
        let cpus = crate::portion::cpus(self.settings.cpus.as_deref(), portion, "sandboxes")?;
        let memory_bytes = self.settings.memory_bytes.map(|bytes| bytes / of as u64);
        let settings = Settings { cpus: Some(cpus), memory_bytes, ..self.settings.clone() };
        let own = Sandbox::new(self.program.clone(), settings);
        Ok(Some(Box::new(Sandbox { layers: self.layers.clone(), ..own })))
    }

    fn start(&self, _interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        let layers = self.layers()?;
        // Work that needs one that cannot be made says so itself.
        self.settings.own.iter().filter(|folder| !folder.exists()).for_each(|folder| drop(Directory::own(folder)));
        // Of labs that were killed and could not record theirs.
        drop(Folder::orphans("sandbox"));
        let mut command = self.command(&layers.has);
        let files = self.has_files_of_this_machine().then(|| Folder::create("sandbox")).transpose()?;
        if let Some(folder) = &files {
            command.env("TMPDIR", folder.inner());
        }
        let launcher = Piped::launch(command.arg("agent"), LIMIT)?;
        Ok(Box::new(SandboxSite { launcher, has_network: layers.has.contains(&Layer::Network), _files: files }))
    }
}

struct SandboxSite {
    launcher: Piped,
    /// Whether it has a network of its own.
    has_network: bool,
    /// Its temporary files where they lie on this machine, removed after it has ended.
    _files: Option<Folder>,
}

impl Site for SandboxSite {
    fn link(&mut self) -> Option<Link> {
        self.launcher.link()
    }

    fn leave(&mut self, limit: Duration) {
        self.launcher.ends_within(limit);
    }

    fn kill(&mut self) {
        self.launcher.kill();
    }

    fn log(&self) -> Vec<String> {
        self.launcher.log()
    }

    fn reach(&mut self, there: u16, _here: u16) -> Result<SocketAddr, SiteError> {
        self.shares_the_network().map(|()| loopback(there))
    }

    fn offer(&mut self, here: u16, _there: u16) -> Result<SocketAddr, SiteError> {
        self.shares_the_network().map(|()| loopback(here))
    }

    fn sees(&mut self, address: SocketAddr) -> Result<SocketAddr, SiteError> {
        self.shares_the_network().map(|()| address)
    }
}

impl SandboxSite {
    fn shares_the_network(&self) -> Result<(), SiteError> {
        if !self.has_network {
            return Ok(());
        }
        let what = "the sandbox's network is isolated".to_owned();
        let remedy = "write layers in [environments.sandbox] without network".to_owned();
        Err(Missing { what, remedy }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a machine refuses, in any order in which it may be tried.
    fn found(refused: &[(Layer, &str)]) -> Result<Layers, String> {
        Layers::find(&Layer::ALL, |layers| {
            let first = refused.iter().find(|(layer, _)| layers.contains(layer));
            Ok(first.map(|(layer, why)| (*layer, (*why).to_owned())))
        })
    }

    #[test]
    fn what_is_refused_is_left_out_with_what_needs_it() {
        assert_eq!(found(&[]).expect("all"), Layers { has: Layer::ALL.to_vec(), lacks: Vec::new() });
        let some = found(&[(Layer::ControlGroup, "read-only"), (Layer::Mount, "not permitted")]).expect("some");
        assert_eq!(some.reasons(), ["control-group (read-only)", "mount (not permitted)", "pid (needs mount)"]);
        assert!(some.has.contains(&Layer::Seccomp) && !some.has.contains(&Layer::Pid), "{some:?}");
    }

    /// An ordinary user where user namespaces are forbidden has the filter alone; where that is refused, too, nothing isolates.
    #[test]
    fn a_sandbox_without_anything_that_isolates_is_none() {
        let spaces =
            [Layer::ControlGroup, Layer::User, Layer::Mount, Layer::Ipc, Layer::Uts, Layer::Network, Layer::Pid];
        let mut refused: Vec<(Layer, &str)> = spaces.map(|layer| (layer, "not permitted")).to_vec();
        let filtered = found(&refused).expect("a filter");
        assert_eq!(filtered.has, [Layer::Capabilities, Layer::Seccomp]);
        refused.push((Layer::Seccomp, "not built in"));
        let why = found(&refused).expect_err("nothing isolates");
        assert!(why.contains("mount (not permitted)") && why.contains("seccomp (not built in)"), "{why}");
    }

    /// A launcher refuses a folder that is not there.
    #[test]
    fn own_folders_may_be_written_once_they_are_there() {
        let folder = Folder::create("own-folders").expect("a folder");
        let [there, missing] = ["there", "missing"].map(|name| folder.path().join(name));
        std::fs::create_dir(&there).expect("made");
        let own = vec![there.clone(), missing.clone()];
        let sandbox = Sandbox::new("/bin/true".into(), Settings { own, ..Settings::default() });
        let written = || {
            let command = sandbox.command(&Layer::ALL);
            let words: Vec<PathBuf> = command.get_args().map(PathBuf::from).collect();
            words.windows(2).filter(|pair| pair[0].as_os_str() == "--write").map(|pair| pair[1].clone()).collect()
        };
        let before: Vec<PathBuf> = written();
        std::fs::create_dir(&missing).expect("made");
        assert_eq!((before, written()), (vec![there.clone()], vec![there, missing]));
    }

    #[test]
    fn temporary_files_that_are_this_machines_lie_in_a_folder_of_the_sandbox() {
        let of = |settings: Settings| Sandbox::new("/bin/true".into(), settings).has_files_of_this_machine();
        let written = |write: Vec<PathBuf>| of(Settings { write, ..Settings::default() });
        assert!(written(vec!["/nowhere".into(), std::env::temp_dir()]));
        assert!(!written(vec![std::env::temp_dir().join("below"), "/".into()]) && !written(Vec::new()));
        assert!(of(Settings { own: vec![std::env::temp_dir()], ..Settings::default() }));
    }

    #[test]
    fn a_failure_that_is_no_layers_is_not_taken_for_one() {
        let failed = Layers::find(&Layer::ALL, |_| Err("no such program".to_owned()));
        assert_eq!(failed.expect_err("failed"), "no such program");
        // A launcher that refuses what it was not asked for would be asked for ever.
        let stubborn = Layers::find(&[Layer::Seccomp], |_| Ok(Some((Layer::Mount, "again".to_owned()))));
        assert_eq!(stubborn.expect_err("failed"), "again");
    }
}
