//! Places in which instances of an application's tiers run, other than this machine.

mod elsewhere;
mod linked;

use crate::places;
use baremark_environments::container::{Container, NOTHING, Network, Settings};
use baremark_harness::cluster::Wanted;
use baremark_harness::topology::{Environments, Networking, On};
use baremark_model::descriptor::Value;
use baremark_model::site::Environment;
use baremark_services::place::{Inside, Place};
use baremark_services::recipe::Step;
use baremark_services::service::{Order, Service, ServiceError};
use baremark_sys::confine::{self, Limits};
use baremark_sys::process_tree::{self, Usage};
use elsewhere::Elsewhere;
use linked::Link;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The place of that kind.
///
/// # Errors
/// Why it cannot be had, with the remedy.
pub fn make(wanted: &Wanted<'_>) -> Result<Box<dyn Place>, String> {
    let Wanted { program, limits, .. } = *wanted;
    match wanted.on {
        On::Native => match link(wanted)? {
            Some(link) => {
                let (namespace, address) = (link.namespace().into(), link.address());
                Ok(Box::new(Inside { program: program.to_owned(), namespace, address, kept: link }))
            }
            None => Ok(Box::new(baremark_services::place::Native)),
        },
        On::Container(image) => {
            let settings = Settings { network: Network::Host, ..Settings::default() };
            let engine = wanted.environments.get("container").and_then(|own| own.get("engine"));
            let engine = engine.map_or_else(|| PODMAN.to_owned(), ToString::to_string);
            if engine == "docker" && wanted.network == Networking::Lab {
                return Err("network = \"lab\": docker puts no container into a namespace that is there; use engine = \"podman\"".to_owned());
            }
            let container = Container::new(program.to_owned(), settings).with_engine(&engine);
            let way = container.way().map_err(|why| why.to_string())?;
            let id = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("baremark-tier-{}-{id}", std::process::id());
            let program = program.to_owned();
            Ok(Box::new(Contained {
                image: image.clone(),
                engine,
                program,
                way,
                name,
                limits: limits.clone(),
                link: link(wanted)?,
                root: AtomicU32::new(0),
            }))
        }
        On::Qemu => Ok(Box::new(Elsewhere::guest(wanted)?)),
        On::External(server) => Err(format!("nothing is started on external:{server}")),
        On::Ssh(host) => Ok(Box::new(Elsewhere::machine(wanted, host)?)),
    }
}

/// The site of a load generator, as `load.on` names it.
///
/// # Errors
/// Why it cannot be had, with the remedy.
pub fn load_site(name: &str, environments: &Environments) -> Result<Box<dyn Environment>, String> {
    if name == "container" {
        let mut settings = environments.get(name).cloned().unwrap_or_default();
        settings.insert("network".to_owned(), Value::Text("host".to_owned()));
        let program = std::env::current_exe().map_err(|why| format!("finding this program: {why}"))?;
        let place = places::place(name, &settings, program).map_err(|why| why.message)?;
        return place.ok_or_else(|| format!("no environment is '{name}'"));
    }
    let config = environments.get("ssh").and_then(|ssh| ssh.get("config")).map(ToString::to_string).map(PathBuf::from);
    places::of_site(name, config.as_deref()).map_err(|why| why.message)
}

/// A node of the run's bridge, where the instance is to be on it.
fn link(wanted: &Wanted<'_>) -> Result<Option<Link>, String> {
    (wanted.network == Networking::Lab).then(Link::new).transpose()
}

/// The options with which podman starts containers here.
///
/// # Errors
/// What is missing, with the remedy.
pub fn container_options() -> Result<Vec<String>, String> {
    let program = std::env::current_exe().map_err(|why| format!("finding this program: {why}"))?;
    let way = Container::new(program, Settings::default()).way().map_err(|why| why.to_string())?;
    Ok(way.iter().map(|word| (*word).to_owned()).collect())
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The program itself as containers see it.
const INSIDE: &str = "/baremark";
const PODMAN: &str = "podman";

/// What a container without an image sees of this machine, and only reads: the programs of other people are the same as natively.
const OF_THIS_MACHINE: [&str; 2] = ["/usr", "/etc"];
const NOBODY: (u32, u32) = (65_534, 65_534);

/// A root with the places where things are mounted; for this program alone it stays empty.
fn make_root(root: &Path, own: bool) -> std::io::Result<()> {
    if root.exists() {
        return Ok(());
    }
    for folder in ["", "tmp", "dev", "proc", "sys", "etc", "run", "usr", "var"] {
        std::fs::create_dir_all(root.join(folder))?;
    }
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    std::fs::set_permissions(root.join("tmp"), everybody)?;
    // As folders that were merged into /usr are seen on this machine.
    for name in ["bin", "sbin", "lib", "lib64"].into_iter().filter(|_| !own) {
        if let Ok(target) = std::fs::read_link(Path::new("/").join(name)) {
            std::os::unix::fs::symlink(target, root.join(name))?;
        }
    }
    Ok(())
}

/// A container of its own for an instance, on this machine's network or the run's.
struct Contained {
    image: Option<String>,
    /// `podman` or `docker`.
    engine: String,
    program: PathBuf,
    way: &'static [&'static str],
    name: String,
    limits: Limits,
    link: Option<Link>,
    /// The container's first process, once it is known.
    root: AtomicU32,
}

impl Contained {
    fn is_docker(&self) -> bool {
        self.engine == "docker"
    }
}

/// Docker takes no folder as a root: its image of nothing, with what a container of podman's sees of this machine.
fn docker_root(own: bool) -> Vec<String> {
    let mut args = ["--tmpfs=/tmp:mode=1777", "--tmpfs=/run", "--tmpfs=/var"].map(str::to_owned).to_vec();
    let mut bind = |from: &Path, to: &str| {
        args.extend(["--mount".to_owned(), format!("type=bind,readonly,src={},dst={to}", from.display())]);
    };
    for folder in OF_THIS_MACHINE.iter().filter(|_| !own) {
        bind(Path::new(folder), folder);
    }
    // As folders that were merged into /usr are seen on this machine.
    for name in ["/bin", "/sbin", "/lib", "/lib64"].iter().filter(|_| !own) {
        if let Ok(target) = std::fs::canonicalize(name) {
            bind(&target, name);
        }
    }
    args.extend(["--".to_owned(), NOTHING.to_owned()]);
    args
}

impl Place for Contained {
    fn label(&self) -> String {
        if self.link.is_some() { "container, lab network" } else { "container" }.to_owned()
    }

    fn address(&self) -> IpAddr {
        self.link.as_ref().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), Link::address)
    }

    fn is_here(&self) -> bool {
        false
    }

    fn dress(&self, order: &Order, step: Step) -> Result<Step, ServiceError> {
        let io = |what: &str, source| ServiceError::Io { name: order.name.clone(), what: what.to_owned(), source };
        // What an application keeps alongside its instances (its database's file, its images) stands one folder up.
        let shared = order.folder.parent().unwrap_or(&order.folder).display().to_string();
        let mut args: Vec<String> = ["run", "--rm", "--interactive", "--log-driver=none"].map(str::to_owned).to_vec();
        args.extend((!self.is_docker()).then(|| "--http-proxy=false".to_owned()));
        let network = self.link.as_ref().map_or("host".to_owned(), |link| format!("ns:{}", link.namespace()));
        args.push(format!("--network={network}"));
        args.extend(
            ["--cap-drop=all", "--security-opt=no-new-privileges", "--security-opt=label=disable"].map(str::to_owned),
        );
        args.extend(self.way.iter().map(|word| (*word).to_owned()));
        args.extend(["--name".to_owned(), self.name.clone()]);
        args.extend(["--mount".to_owned(), format!("type=bind,readonly,src={},dst={INSIDE}", self.program.display())]);
        args.extend(["--mount".to_owned(), format!("type=bind,src={shared},dst={shared}")]);
        if !self.limits.cpus.is_empty() {
            let list: Vec<String> = self.limits.cpus.iter().map(usize::to_string).collect();
            args.push(format!("--cpuset-cpus={}", list.join(",")));
        }
        args.extend(self.limits.memory_bytes.map(|bytes| format!("--memory={bytes}b")));
        args.extend(order.owner.map(|(user, group)| format!("--user={user}:{group}")));
        let own = step.program == self.program;
        // By name, so that a secret is in no list of processes.
        args.extend(step.env.iter().flat_map(|(name, _)| ["--env".to_owned(), name.clone()]));
        match &self.image {
            // An empty entry point is written in two ways.
            Some(image) if self.is_docker() => {
                args.extend(["--entrypoint=".to_owned(), "--".to_owned(), image.clone()]);
            }
            Some(image) => args.extend(["--entrypoint=[]".to_owned(), "--".to_owned(), image.clone()]),
            None if self.is_docker() => args.extend(docker_root(own)),
            None => {
                let root = order.folder.join("root");
                make_root(&root, own).map_err(|why| io("making a container's root", why))?;
                if !own {
                    let binds = OF_THIS_MACHINE.map(|folder| format!("type=bind,readonly,src={folder},dst={folder}"));
                    args.extend(binds.into_iter().flat_map(|bind| ["--mount".to_owned(), bind]));
                }
                args.extend(["--rootfs".to_owned(), root.display().to_string()]);
            }
        }
        args.extend([INSIDE.to_owned(), "tend".to_owned()]);
        args.push(if own { INSIDE.to_owned() } else { step.program.display().to_string() });
        args.extend(step.args);
        Ok(Step { program: PathBuf::from(&self.engine), args, env: step.env })
    }

    fn root(&self, started: u32) -> u32 {
        let known = self.root.load(Ordering::Relaxed);
        if known > 0 {
            return known;
        }
        // The engine's own helper is its parent, not the client.
        let mut command = Command::new(&self.engine);
        command.args(["inspect", "--format", "{{.State.Pid}}", &self.name]).stdin(Stdio::null()).stderr(Stdio::null());
        let told = command.output().ok().and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
        let root = told.filter(|pid| *pid > 0);
        self.root.store(root.unwrap_or(0), Ordering::Relaxed);
        root.unwrap_or(started)
    }

    /// Without the superuser's rights also in its container: databases refuse those, and without a user namespace they are this machine's.
    fn owner(&self, _order: &Order, service: &dyn Service) -> Result<Option<(u32, u32)>, ServiceError> {
        Ok(confine::is_root().then(|| service.install().account(confine::user).unwrap_or(NOBODY)))
    }

    fn usage(&self, _order: &Order, started: u32) -> Usage {
        process_tree::usage_of_tended(self.root(started)).unwrap_or_default()
    }

    /// The program itself is below who tends it, and knows more signals.
    fn target(&self, started: u32) -> u32 {
        process_tree::tended(self.root(started)).unwrap_or(started)
    }

    fn clean(&self, _order: &Order) {
        self.root.store(0, Ordering::Relaxed);
        let mut command = Command::new(&self.engine);
        command.args(["rm", "--force"]).args((!self.is_docker()).then_some("--time=0")).arg(&self.name);
        drop(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_services::service::Tier;

    /// The command that starts `program` in a container of an engine.
    fn dressed(engine: &str, program: &str, image: Option<&str>) -> Step {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Contained {
            image: image.map(str::to_owned),
            engine: engine.to_owned(),
            program: PathBuf::from("/opt/baremark"),
            way: &[],
            name: "it".to_owned(),
            limits: Limits::default(),
            root: AtomicU32::new(0),
            link: None,
        };
        let order = Order {
            name: "web-1".to_owned(),
            tier: Tier::Web,
            address: ([127, 0, 0, 1], 80).into(),
            folder: folder.path().join("web-1"),
            program: PathBuf::from(program),
            settings: baremark_services::settings::Settings::default(),
            upstreams: Vec::new(),
            wiring: Vec::new(),
            secret: String::new(),
            database_secret: None,
            owner: None,
            tls: None,
        };
        std::fs::create_dir(&order.folder).expect("a folder");
        let step = Step::new(program, ["-g", "daemon off;"]);
        place.dress(&order, step).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Docker knows neither a folder as a root nor all options of podman; both see the same of this machine.
    #[test]
    fn each_engine_gets_a_command_line_that_it_takes() {
        let of = |engine: &str, program: &str, image: Option<&str>| {
            let step = dressed(engine, program, image);
            assert_eq!(step.program, PathBuf::from(engine));
            step.args.join(" ")
        };
        let (podman, docker) = (of("podman", "/usr/sbin/nginx", None), of("docker", "/usr/sbin/nginx", None));
        assert!(podman.contains("--http-proxy=false") && podman.contains("--rootfs "), "{podman}");
        assert!(!docker.contains("--http-proxy") && !docker.contains("--rootfs"), "{docker}");
        for line in [&podman, &docker] {
            assert!(line.contains("--network=host") && line.contains("type=bind,readonly,src=/usr,dst=/usr"), "{line}");
            assert!(line.ends_with("/baremark tend /usr/sbin/nginx -g daemon off;"), "{line}");
        }
        assert!(docker.contains(&format!("-- {NOTHING} /baremark")), "{docker}");
        let own = of("docker", "/opt/baremark", None);
        assert!(own.ends_with("/baremark tend /baremark -g daemon off;") && !own.contains("dst=/usr"), "{own}");
        let image = of("docker", "/usr/sbin/nginx", Some("debian:12"));
        assert!(image.contains("--entrypoint= -- debian:12 /baremark"), "{image}");
    }
}
