//! Places in which instances of an application's tiers run, other than this machine.

mod elsewhere;
mod linked;

use baremark_environments::container::{Container, Network, Settings};
use baremark_harness::cluster::Wanted;
use baremark_harness::topology::{Networking, On};
use baremark_services::place::Place;
use baremark_services::recipe::Step;
use baremark_services::service::{Order, ServiceError};
use baremark_sys::confine::{self, Limits};
use baremark_sys::process_tree;
use elsewhere::Elsewhere;
use linked::{Link, Linked};
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
            Some(link) => Ok(Box::new(Linked { program: program.to_owned(), link })),
            None => Ok(Box::new(baremark_services::place::Native)),
        },
        On::Container(image) => {
            let settings = Settings { network: Network::Host, ..Settings::default() };
            let way = Container::new(program.to_owned(), settings).way().map_err(|why| why.to_string())?;
            let id = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("baremark-tier-{}-{id}", std::process::id());
            let program = program.to_owned();
            Ok(Box::new(Contained {
                image: image.clone(),
                program,
                way,
                name,
                limits: limits.clone(),
                link: link(wanted)?,
                root: AtomicU32::new(0),
            }))
        }
        On::Qemu => Ok(Box::new(Elsewhere::guest(wanted)?)),
        On::Ssh(host) => Ok(Box::new(Elsewhere::machine(wanted, host)?)),
    }
}

/// A node of the run's bridge, where the instance is to be on it.
fn link(wanted: &Wanted<'_>) -> Result<Option<Link>, String> {
    (wanted.network == Networking::Lab).then(Link::new).transpose()
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The program itself as containers see it.
const INSIDE: &str = "/baremark";
const ENGINE: &str = "podman";

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
    program: PathBuf,
    way: &'static [&'static str],
    name: String,
    limits: Limits,
    link: Option<Link>,
    /// The container's first process, once it is known.
    root: AtomicU32,
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
        let mut args: Vec<String> =
            ["run", "--rm", "--interactive", "--log-driver=none", "--http-proxy=false"].map(str::to_owned).to_vec();
        let network = self.link.as_ref().map_or("host".to_owned(), |link| format!("ns:{}", link.namespace()));
        args.push(format!("--network={network}"));
        args.extend(
            ["--cap-drop=all", "--security-opt=no-new-privileges", "--security-opt=label=disable"].map(str::to_owned),
        );
        args.extend(self.way.iter().map(|word| (*word).to_owned()));
        args.extend(["--name".to_owned(), self.name.clone()]);
        args.extend(["--mount".to_owned(), format!("type=bind,ro=true,src={},dst={INSIDE}", self.program.display())]);
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
            Some(image) => args.extend(["--entrypoint=[]".to_owned(), "--".to_owned(), image.clone()]),
            None => {
                let root = order.folder.join("root");
                make_root(&root, own).map_err(|why| io("making a container's root", why))?;
                if !own {
                    let binds = OF_THIS_MACHINE.map(|folder| format!("type=bind,ro=true,src={folder},dst={folder}"));
                    args.extend(binds.into_iter().flat_map(|bind| ["--mount".to_owned(), bind]));
                }
                args.extend(["--rootfs".to_owned(), root.display().to_string()]);
            }
        }
        args.extend([INSIDE.to_owned(), "tend".to_owned()]);
        args.push(if own { INSIDE.to_owned() } else { step.program.display().to_string() });
        args.extend(step.args);
        Ok(Step { program: PathBuf::from(ENGINE), args, env: step.env })
    }

    fn root(&self, started: u32) -> u32 {
        let known = self.root.load(Ordering::Relaxed);
        if known > 0 {
            return known;
        }
        // The engine's own helper is its parent, not the client.
        let mut command = Command::new(ENGINE);
        command.args(["inspect", "--format", "{{.State.Pid}}", &self.name]).stdin(Stdio::null()).stderr(Stdio::null());
        let told = command.output().ok().and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
        let root = told.filter(|pid| *pid > 0);
        self.root.store(root.unwrap_or(0), Ordering::Relaxed);
        root.unwrap_or(started)
    }

    /// Without the superuser's rights also in its container: databases refuse those.
    fn owner(&self, user: &str) -> Option<(u32, u32)> {
        if confine::is_root() { confine::user(user).or(Some(NOBODY)) } else { None }
    }

    /// The program itself is the child of who tends it, and knows more signals.
    fn target(&self, started: u32) -> u32 {
        let root = self.root(started);
        let below = process_tree::pids(root).unwrap_or_default();
        below.into_iter().find(|pid| process_tree::parent(*pid) == Some(root)).unwrap_or(started)
    }

    fn clean(&self, _order: &Order) {
        self.root.store(0, Ordering::Relaxed);
        let mut command = Command::new(ENGINE);
        command.args(["rm", "--force", "--time=0", &self.name]);
        drop(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status());
    }
}
