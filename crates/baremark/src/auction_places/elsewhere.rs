//! An instance in a guest or on another machine: a process of ours there carries it out, and one here attends to that.
//!
//! The attendant (`baremark at`) is what the instance's process is here: it passes the log on, hands on a signal to stop, and
//! takes the site with it when it is killed. Ports lead in and out as the site can: through QEMU's own network, or through ssh.
//! Programs of other people are the site's own: a guest that runs one sees this machine's files, which it cannot change.

use crate::lab_network;
use crate::places::{self, Settings};
use baremark_environments::lab::LabPort;
use baremark_environments::qemu::HOST_SEEN;
use baremark_harness::cluster::Wanted;
use baremark_harness::topology::Networking;
use baremark_lab::remote_program::{Attended, Orders};
use baremark_model::spawned::{Spawn, SpawnLimits, Spawned};
use baremark_model::units::Bytes;
use baremark_model::value::Value;
use baremark_services::error::ServiceError;
use baremark_services::order::Order;
use baremark_services::place::{Control, Place};
use baremark_services::recipe::Step;
use baremark_services::remote_site;
use baremark_sys::confine::{Limits, MemoryLimit};
use baremark_sys::network::HeldPort;
use baremark_sys::process_tree::{self, Usage, Waits};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How long a server may take to finish what it has begun.
const GRACE_NS: u64 = 60_000_000_000;
const ORDERS: &str = "orders.json";
const ACCOUNT: &str = "account.json";

/// What is particular to the kind of place. A port of another machine is one that is held here: its number is most likely free
/// there too, and it is the same port where ssh leads back to this machine.
enum Kind {
    Guest {
        emulated: bool,
        /// On the bridge of the run; else in QEMU's own network.
        lab: Option<Mutex<Box<dyn LabPort>>>,
    },
    Machine {
        host: String,
        /// The port on which the program listens there.
        port: HeldPort,
        /// That on which whoever carries it out does.
        control: HeldPort,
    },
}

/// A site of its own for one instance.
pub struct Elsewhere {
    kind: Kind,
    settings: Settings,
    program: PathBuf,
    limits: Limits,
    /// The port here that leads to whoever carries the instance out.
    control: HeldPort,
    /// Ports that lead here: of this machine, and of the site.
    offers: Mutex<BTreeMap<u16, Option<HeldPort>>>,
}

impl Elsewhere {
    /// In a guest of its own, which has as many vCPUs as the instance may have CPUs, and the memory that it may have.
    ///
    /// # Errors
    /// Why there can be none, with the remedy.
    pub fn guest(wanted: &Wanted<'_>) -> Result<Self, String> {
        let mut settings = wanted.environments.get("qemu").cloned().unwrap_or_default();
        settings.insert("net".to_owned(), Value::Choice("user".to_owned()));
        if !wanted.limits.cpus.is_empty() {
            settings.insert("vcpus".to_owned(), Value::Count(wanted.limits.cpus.len() as u64));
        }
        if let Some(bytes) = wanted.limits.memory_bytes {
            settings.insert("memory".to_owned(), Value::SizeBytes(Bytes(bytes)));
        }
        if !wanted.own {
            settings.insert("rootfs".to_owned(), Value::Choice("host".to_owned()));
        }
        let emulated = checked("qemu", &settings, wanted)?;
        let accel = if emulated { "tcg" } else { "kvm" };
        settings.insert("accel".to_owned(), Value::Choice(accel.to_owned()));
        let lab = (wanted.network == Networking::Lab).then(lab_network::guest).transpose()?;
        if let Some(port) = &lab {
            settings.insert("net".to_owned(), Value::Choice("tap".to_owned()));
            settings.insert("tap".to_owned(), Value::Text(port.name()));
            settings.insert("address".to_owned(), Value::Text(format!("{}/{}", port.address(), port.length())));
            settings.insert("vhost".to_owned(), Value::Switch(Path::new("/dev/vhost-net").exists()));
        }
        let lab = lab.map(Mutex::new);
        Elsewhere::new(Kind::Guest { emulated, lab }, settings, wanted)
    }

    /// On the machine that ssh reaches by this name.
    ///
    /// # Errors
    /// Why it cannot be used, with the remedy.
    pub fn machine(wanted: &Wanted<'_>, host: &str) -> Result<Self, String> {
        let mut settings = wanted.environments.get("ssh").cloned().unwrap_or_default();
        settings.insert("host".to_owned(), Value::Text(host.to_owned()));
        checked("ssh", &settings, wanted)?;
        let (port, control) = (a_port()?, a_port()?);
        Elsewhere::new(Kind::Machine { host: host.to_owned(), port, control }, settings, wanted)
    }

    fn new(kind: Kind, settings: Settings, wanted: &Wanted<'_>) -> Result<Self, String> {
        Ok(Elsewhere {
            kind,
            settings,
            program: wanted.program.to_owned(),
            limits: wanted.limits.clone(),
            control: a_port()?,
            offers: Mutex::new(BTreeMap::new()),
        })
    }

    /// Ports here that lead there: what listens there on the first is reached here on the second.
    fn reach(&self, address: SocketAddr) -> Vec<(u16, u16)> {
        let (program, control) = match &self.kind {
            // It is reached at its own address.
            Kind::Guest { lab: Some(_), .. } => return Vec::new(),
            Kind::Guest { .. } => (address.port(), self.control.number()),
            Kind::Machine { port, control, .. } => (port.number(), control.number()),
        };
        vec![(program, address.port()), (control, self.control.number())]
    }

    fn offers(&self) -> std::sync::MutexGuard<'_, BTreeMap<u16, Option<HeldPort>>> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the attendant has last written of the program.
    fn account(order: &Order) -> Option<Spawned> {
        serde_json::from_slice(&fs::read(order.folder.join(ACCOUNT)).ok()?).ok()
    }

    fn orders(&self, order: &Order, step: &Step) -> Orders {
        let environment = match self.kind {
            Kind::Guest { .. } => "qemu",
            Kind::Machine { .. } => "ssh",
        };
        let limits = match self.kind {
            // The guest has the others.
            Kind::Guest { .. } => SpawnLimits { open_files: self.limits.open_files, ..SpawnLimits::default() },
            Kind::Machine { .. } => SpawnLimits {
                cpus: self.limits.cpus.clone(),
                memory_bytes: self.limits.memory_bytes,
                open_files: self.limits.open_files,
            },
        };
        Orders {
            environment: environment.to_owned(),
            settings: self.settings.clone(),
            attended: Attended {
                files: vec![(remote_site::FILE.to_owned(), order.folder.join(remote_site::FILE))],
                reach: self.reach(order.address),
                offer: self.offers().iter().map(|(here, there)| (*here, number(there))).collect(),
                grace_ns: GRACE_NS,
            },
            program: Spawn {
                name: order.name.clone(),
                program: None,
                arguments: step.args.clone(),
                environment: BTreeMap::new(),
                limits,
            },
            account: order.folder.join(ACCOUNT),
        }
    }
}

impl Place for Elsewhere {
    fn label(&self) -> String {
        match &self.kind {
            Kind::Guest { lab: Some(_), .. } => "qemu, lab network".to_owned(),
            Kind::Guest { .. } => "qemu".to_owned(),
            Kind::Machine { host, .. } => format!("ssh:{host}"),
        }
    }

    fn is_here(&self) -> bool {
        false
    }

    fn address(&self) -> IpAddr {
        match &self.kind {
            Kind::Guest { lab: Some(port), .. } => IpAddr::V4(held(port).address()),
            _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }

    fn control(&self) -> Option<Control> {
        let here = SocketAddr::from((self.address(), self.control.number()));
        let there = match &self.kind {
            Kind::Guest { .. } => SocketAddr::from((Ipv4Addr::UNSPECIFIED, self.control.number())),
            Kind::Machine { control, .. } => SocketAddr::from((Ipv4Addr::LOCALHOST, control.number())),
        };
        Some(Control { here, there })
    }

    fn dress(&self, order: &Order, step: Step) -> Result<Step, ServiceError> {
        let io = |what: &str, source| ServiceError::Io { name: order.name.clone(), what: what.to_owned(), source };
        let path = order.folder.join(ORDERS);
        let text = serde_json::to_vec_pretty(&self.orders(order, &step));
        let text = text.map_err(|why| io("writing the configuration of the remote instance", why.into()))?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(&text));
        written.map_err(|why| io("writing the configuration of the remote instance", why))?;
        let args = vec!["at".to_owned(), path.display().to_string()];
        Ok(Step { program: self.program.clone(), args, env: step.env })
    }

    fn listens(&self, address: SocketAddr) -> SocketAddr {
        match &self.kind {
            // The guest's card, for its loopback cannot be led to.
            Kind::Guest { .. } => SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())),
            Kind::Machine { port, .. } => SocketAddr::from((Ipv4Addr::LOCALHOST, port.number())),
        }
    }

    fn reaches(&self, address: SocketAddr) -> SocketAddr {
        match self.kind {
            // Everything on the bridge is where it is; of what is on this machine alone, a port of the bridge leads there.
            Kind::Guest { lab: Some(ref port), .. } if address.ip().is_loopback() => {
                held(port).offer(address.port()).unwrap_or(address)
            }
            Kind::Guest { lab: Some(_), .. } => address,
            Kind::Guest { .. } => SocketAddr::from((HOST_SEEN, address.port())),
            Kind::Machine { .. } => {
                let mut offers = self.offers();
                // Where no port is free here, the site will say that the forwarding failed.
                let there = offers.entry(address.port()).or_insert_with(|| HeldPort::any().ok());
                SocketAddr::from((Ipv4Addr::LOCALHOST, number(there)))
            }
        }
    }

    fn advertises(&self, address: SocketAddr) -> SocketAddr {
        match self.kind {
            Kind::Guest { lab: Some(_), .. } => address,
            // Guests reach each other through this machine.
            Kind::Guest { .. } => SocketAddr::from((HOST_SEEN, address.port())),
            Kind::Machine { .. } => self.listens(address),
        }
    }

    fn held_here(&self, limits: &Limits) -> Limits {
        match self.kind {
            Kind::Guest { .. } => Limits { cpus: limits.cpus.clone(), ..Limits::default() },
            Kind::Machine { .. } => Limits::default(),
        }
    }

    fn holds(&self, order: &Order) -> Option<MemoryLimit> {
        match self.kind {
            Kind::Guest { .. } => Some(MemoryLimit::Machine),
            Kind::Machine { .. } => {
                let held = Elsewhere::account(order).and_then(|told| MemoryLimit::of_label(&told.memory_held));
                Some(held.unwrap_or(MemoryLimit::None))
            }
        }
    }

    /// Of a guest, with all that emulates it: what it costs this machine. Of another machine, what the agent there tells.
    fn usage(&self, order: &Order, started: u32) -> Usage {
        match self.kind {
            Kind::Guest { .. } => process_tree::usage(started).unwrap_or_default(),
            Kind::Machine { .. } => Elsewhere::account(order).map_or_else(Usage::default, |told| Usage {
                cpu_ns: told.used.cpu_ns,
                resident_bytes: told.used.resident_bytes,
                processes: told.used.processes,
            }),
        }
    }

    /// A guest's threads wait inside it, and those of another machine there.
    fn waits(&self, _started: u32) -> Option<Waits> {
        None
    }

    fn emulated(&self) -> bool {
        matches!(self.kind, Kind::Guest { emulated: true, .. })
    }

    /// What was told of an earlier life is not told of the next.
    fn clean(&self, order: &Order) {
        drop(fs::remove_file(order.folder.join(ACCOUNT)));
    }
}

fn held(port: &Mutex<Box<dyn LabPort>>) -> std::sync::MutexGuard<'_, Box<dyn LabPort>> {
    port.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an environment can be used, and whether its processor is emulated; found out once for the same settings.
fn checked(name: &str, settings: &Settings, wanted: &Wanted<'_>) -> Result<bool, String> {
    static KNOWN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());
    let key = format!("{name} {settings:?}");
    if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(*known);
    }
    let environment = places::place(name, settings, wanted.program.to_owned()).map_err(|why| why.message)?;
    let environment = environment.ok_or_else(|| format!("no environment is '{name}'"))?;
    environment.probe().map_err(|missing| missing.to_string())?;
    let emulated = environment.emulated(wanted.interrupt);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, emulated);
    Ok(emulated)
}

fn a_port() -> Result<HeldPort, String> {
    HeldPort::any().map_err(|why| format!("looking for a free port: {why}"))
}

/// 0 where none was left.
fn number(port: &Option<HeldPort>) -> u16 {
    port.as_ref().map_or(0, HeldPort::number)
}
