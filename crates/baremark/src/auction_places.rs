//! Places in which instances of an application's tiers run, other than this machine.

mod elsewhere;
mod linked;

use crate::places;
use baremark_environments::container::{Container, Network, Settings};
use baremark_harness::cluster::Wanted;
use baremark_harness::topology::{Environments, Networking, On};
use baremark_model::site::Environment;
use baremark_model::value::Value;
use baremark_services::card::Card;
use baremark_services::error::ServiceError;
use baremark_services::order::Order;
use baremark_services::place::{Inside, Place};
use baremark_services::recipe::Step;
use baremark_sys::confine::{self, Limits};
use baremark_sys::container_engine::{self, Access, INSIDE, PODMAN, Root};
use baremark_sys::process_tree::{self, Usage};
use elsewhere::Elsewhere;
use linked::Link;
use std::ffi::{OsStr, OsString};
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
        container_engine::is_docker(self.engine.as_ref())
    }
}

/// What a container without an image sees of this machine, but for one of this program alone. Docker takes no folder as a root: its image of nothing
/// has places for these, and what podman's has in its folder is mounted.
fn seen(docker: bool) -> Vec<OsString> {
    let mut args: Vec<OsString> = OF_THIS_MACHINE.iter().flat_map(|folder| read(Path::new(folder), folder)).collect();
    // As folders that were merged into /usr are seen on this machine.
    for name in ["/bin", "/sbin", "/lib", "/lib64"].iter().filter(|_| docker) {
        if let Ok(target) = std::fs::canonicalize(name) {
            args.extend(read(&target, name));
        }
    }
    args
}

fn not_utf8(word: &OsStr) -> std::io::Error {
    std::io::Error::other(format!("{}: not UTF-8", word.to_string_lossy()))
}

fn read(here: &Path, inside: &str) -> [OsString; 2] {
    container_engine::mounted(here, Path::new(inside), Access::Read)
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
        let shared = Path::new(&shared);
        let own = step.program == self.program;
        let mut options: Vec<OsString> = container_engine::mounted(shared, shared, Access::Write).into();
        options.extend(order.owner.map(|(user, group)| format!("--user={user}:{group}").into()));
        // By name, so that a secret is in no list of processes.
        options.extend(step.env.iter().flat_map(|(name, _)| [OsString::from("--env"), name.into()]));
        let root = order.folder.join("root");
        let root = match &self.image {
            Some(image) => Root::Image(image),
            None => {
                match self.is_docker() {
                    true => {
                        options.extend(["--tmpfs=/tmp:mode=1777", "--tmpfs=/run", "--tmpfs=/var"].map(OsString::from))
                    }
                    false => make_root(&root, own).map_err(|why| io("making a container's root", why))?,
                }
                options.extend(if own { Vec::new() } else { seen(self.is_docker()) });
                Root::Empty(&root)
            }
        };
        let container = container_engine::Container {
            engine: self.engine.as_ref(),
            name: &self.name,
            way: self.way,
            network: &self.link.as_ref().map_or("host".to_owned(), |link| format!("ns:{}", link.namespace())),
            cpus: &self.limits.cpus,
            memory_bytes: self.limits.memory_bytes,
            program: &self.program,
            options,
            root,
        };
        let text = |word: OsString| word.into_string().map_err(|word| io("starting a container", not_utf8(&word)));
        let mut args = container.arguments().into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
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
    fn owner(&self, _order: &Order, card: &Card) -> Result<Option<(u32, u32)>, ServiceError> {
        Ok(confine::is_root().then(|| card.install.account(confine::user).unwrap_or(NOBODY)))
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
    use baremark_services::card::Tier;
    use baremark_sys::container_engine::NOTHING;

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
