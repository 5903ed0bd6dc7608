//! The command line by which podman or docker runs a container of this program's: without privileges, removed when it has ended, its standard streams
//! the caller's.
//!
//! Whoever starts a container says here what differs. What all have in common, and how the two engines differ, is in this module alone.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Where a container sees this program.
pub const INSIDE: &str = "/baremark";
/// The engine that takes folders as roots and namespaces as networks.
pub const PODMAN: &str = "podman";
/// The image that docker keeps of nothing at all.
pub const NOTHING: &str = "baremark-nothing:latest";

/// Options without which an engine does not work on a machine.
pub type Way = &'static [&'static str];

/// Tried in turn. An engine may hand limits to the container that are above what its caller may hand on, and a machine may not have what
/// the default runtime needs.
pub const WAYS: [Way; 4] = [
    &[],
    &["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"],
    &["--runtime", "runc"],
    &["--runtime", "runc", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"],
];

/// The ways that leave the runtime to whoever names one.
pub fn ways_with_any_runtime() -> impl Iterator<Item = Way> {
    WAYS.into_iter().filter(|way| !way.contains(&"--runtime"))
}

/// gVisor's runtime.
pub const GVISOR: &str = "runsc";

/// The options of a runtime. gVisor does without cgroups, which it cannot use in a hybrid hierarchy, and without a network; `platform` is how it
/// intercepts system calls.
#[must_use]
pub fn runtime(name: &str, platform: &str) -> Vec<OsString> {
    let mut options = vec!["--runtime".to_owned(), name.to_owned()];
    if name == GVISOR {
        for flag in [format!("platform={platform}"), "ignore-cgroups".into(), "network=none".into()] {
            options.extend(["--runtime-flag".to_owned(), flag]);
        }
    }
    options.into_iter().map(OsString::from).collect()
}

/// A container's files.
#[derive(Clone, Copy, Debug)]
pub enum Root<'a> {
    /// Nothing but what is mounted; podman takes this empty folder for it, docker an image of nothing.
    Empty(&'a Path),
    /// A folder, which podman alone takes, with an overlay over it where that is asked for.
    Folder {
        /// The folder.
        path: &'a Path,
        /// Whether what is written is dropped.
        overlay: bool,
    },
    /// An image.
    Image(&'a str),
}

/// A container to be run.
#[derive(Clone, Debug)]
pub struct Container<'a> {
    /// The engine's program.
    pub engine: &'a OsStr,
    /// The container's name.
    pub name: &'a str,
    /// Options that the engine needs here.
    pub way: &'a [&'a str],
    /// Its network: `none`, `host`, `bridge`, or `ns:` and a name or path.
    pub network: &'a str,
    /// The CPUs that it may use; empty for all.
    pub cpus: &'a [usize],
    /// The most memory that it may use, in bytes.
    pub memory_bytes: Option<u64>,
    /// This program, which it sees at [`INSIDE`].
    pub program: &'a Path,
    /// Further options.
    pub options: Vec<OsString>,
    /// Its files.
    pub root: Root<'a>,
}

impl Container<'_> {
    fn is_docker(&self) -> bool {
        is_docker(self.engine)
    }

    /// The engine's arguments, up to the words that run in the container.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["run", "--rm", "--interactive", "--log-driver=none"].map(OsString::from).into();
        words.extend((!self.is_docker()).then(|| OsString::from("--http-proxy=false")));
        let without = ["--cap-drop=all", "--security-opt=no-new-privileges", "--security-opt=label=disable"];
        words.extend(without.iter().chain(self.way).map(OsString::from));
        words.extend([OsString::from("--name"), self.name.into(), format!("--network={}", self.network).into()]);
        words.extend(mounted(self.program, Path::new(INSIDE), Access::Read));
        if !self.cpus.is_empty() {
            let list: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
            words.push(format!("--cpuset-cpus={}", list.join(",")).into());
        }
        words.extend(self.memory_bytes.map(|bytes| format!("--memory={bytes}b").into()));
        words.extend(self.options.iter().cloned());
        words.extend(self.root());
        words
    }

    fn root(&self) -> Vec<OsString> {
        let image =
            |entry: Option<&str>, name: &str| entry.into_iter().chain(["--", name]).map(OsString::from).collect();
        match self.root {
            Root::Empty(_) if self.is_docker() => image(None, NOTHING),
            // An empty entry point is written in two ways.
            Root::Image(name) if self.is_docker() => image(Some("--entrypoint="), name),
            Root::Image(name) => image(Some("--entrypoint=[]"), name),
            Root::Empty(path) | Root::Folder { path, overlay: false } => vec!["--rootfs".into(), path.into()],
            Root::Folder { path, overlay: true } => {
                let mut path = path.as_os_str().to_owned();
                path.push(":O");
                vec!["--rootfs".into(), path]
            }
        }
    }
}

/// Whether an engine is docker, by the name of its program.
#[must_use]
pub fn is_docker(engine: &OsStr) -> bool {
    Path::new(engine).file_name() == Some(OsStr::new("docker"))
}

/// What a container may do with a folder of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}

/// The options that show a file or a folder of this machine in a container.
#[must_use]
pub fn mounted(here: &Path, inside: &Path, access: Access) -> [OsString; 2] {
    let mut mount = OsString::from(match access {
        Access::Read => "type=bind,readonly,src=",
        Access::Write => "type=bind,src=",
    });
    mount.push(here);
    mount.push(",dst=");
    mount.push(inside);
    ["--mount".into(), mount]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(engine: &str, root: Root<'_>) -> String {
        let container = Container {
            engine: engine.as_ref(),
            name: "it",
            way: WAYS[1],
            network: "none",
            cpus: &[0, 2],
            memory_bytes: Some(1 << 20),
            program: Path::new("/opt/baremark"),
            options: mounted(Path::new("/srv"), Path::new("/data"), Access::Write).into(),
            root,
        };
        container.arguments().join(OsStr::new(" ")).into_string().expect("UTF-8")
    }

    #[test]
    fn each_engine_gets_a_command_line_that_it_takes() {
        let empty = Root::Empty(Path::new("/run/it"));
        let common = "run --rm --interactive --log-driver=none";
        let rest = "--cap-drop=all --security-opt=no-new-privileges --security-opt=label=disable --ulimit nofile=1024:1024 \
                    --ulimit nproc=1024:1024 --name it --network=none --mount type=bind,readonly,src=/opt/baremark,dst=/baremark \
                    --cpuset-cpus=0,2 --memory=1048576b --mount type=bind,src=/srv,dst=/data";
        assert_eq!(line("podman", empty), format!("{common} --http-proxy=false {rest} --rootfs /run/it"));
        assert_eq!(line("/usr/bin/docker", empty), format!("{common} {rest} -- {NOTHING}"));
        let overlay = Root::Folder { path: Path::new("/"), overlay: true };
        assert!(line("podman", overlay).ends_with(" --rootfs /:O"));
        assert!(line("podman", Root::Image("debian:12")).ends_with(" --entrypoint=[] -- debian:12"));
        assert!(line("docker", Root::Image("debian:12")).ends_with(" --entrypoint= -- debian:12"));
    }

    #[test]
    fn gvisor_has_options_of_its_own_and_a_named_runtime_is_not_tried_otherwise() {
        let of = |name: &str| runtime(name, "kvm").join(OsStr::new(" ")).into_string().expect("UTF-8");
        assert_eq!(of("crun"), "--runtime crun");
        let flags = "--runtime-flag platform=kvm --runtime-flag ignore-cgroups --runtime-flag network=none";
        assert_eq!(of(GVISOR), format!("--runtime runsc {flags}"));
        assert_eq!(ways_with_any_runtime().collect::<Vec<_>>(), WAYS[..2]);
    }
}
