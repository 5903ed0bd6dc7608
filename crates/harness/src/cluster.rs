//! One application as it runs: its instances by tier, how they are wired, and how their number changes.
//!
//! Instances must be started by a thread that lives as long as they shall: the kernel ends them with it.

mod commands;

use crate::certificate::Authority;
use crate::external::{ExternalDatabase, ExternalError};
use crate::generator::LoadSites;
use crate::kept_data::{Content, DataError, KeptData};
use crate::leaving::{Leaving, STOP_LIMIT};
use crate::passwords::Passwords;
use crate::tier_cpus::{unknown, unusable};
use crate::topology::{Application, Environments, Networking, On, TierPlan};
use baremark_databases::dataset_cache::digest;
use baremark_databases::kind::Kind;
use baremark_lab::generators::MakeEnvironment;
use baremark_services::auction::Auction;
use baremark_services::card::Tier;
use baremark_services::error::ServiceError;
use baremark_services::order::{Order, Tls, Upstream};
use baremark_services::place::{Native, Place};
use baremark_services::service::{Instance, Service, program};
use baremark_services::statistics::Statistics;
use baremark_services::users::make_for;
use baremark_sys::affinity;
use baremark_sys::confine::{self, Limits};
use baremark_sys::network::HeldPort;
use baremark_sys::private_folder::directory::Directory;
use baremark_sys::process_tree::{Usage, Waits};
use baremark_sys::registry::random_secret;
use baremark_sys::stall_group::Stalls;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The file of the database's password.
const DATABASE_PASSWORD: &str = "database-password";
/// How long it may take at the end of a run.
const LAST_STOP_LIMIT: Duration = Duration::from_millis(500);
/// Requests that a new server gets before users come.
const WARMING: usize = 20;

/// What a place other than this machine is made of.
pub struct Wanted<'w> {
    /// Which.
    pub on: &'w On,
    /// Whether the instance is this program itself, which needs no other at its site.
    pub own: bool,
    /// The program itself.
    pub program: &'w Path,
    /// What connects it with other instances.
    pub network: Networking,
    /// What the instance may have.
    pub limits: &'w Limits,
    /// Settings of environments.
    pub environments: &'w Environments,
    /// Raised when the user wants it to stop.
    pub interrupt: &'w AtomicBool,
}

/// Makes such a place, or says why it cannot be had, with the remedy.
pub type Places = fn(&Wanted<'_>) -> Result<Box<dyn Place>, String>;

/// What every application of a run shares.
#[derive(Clone)]
pub struct ClusterContext {
    /// The program itself, for the application's own servers.
    pub program: PathBuf,
    /// The run's folder.
    pub folder: PathBuf,
    /// Set when the user wants it to stop.
    pub interrupt: Arc<AtomicBool>,
    /// How places other than this machine are made.
    pub places: Places,
    /// How the sites of load generators are made.
    pub load_sites: LoadSites,
    /// The texts of the application that decide its data.
    pub data_sources: &'static [&'static str],
    /// Settings of environments.
    pub environments: Arc<Environments>,
}

/// Why a cluster cannot be had or has failed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A service.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// Several programs are missing; each with its remedy.
    #[error("{}", .0.join("\n"))]
    Missing(Vec<String>),
    /// A place.
    #[error("{tier}: {why}")]
    Place {
        /// The tier.
        tier: &'static str,
        /// Why it cannot be had.
        why: String,
    },
    /// A command of the application.
    #[error("baremark auction {command} ended with {code}: {said}")]
    Command {
        /// Which.
        command: &'static str,
        /// Its exit code.
        code: String,
        /// The last that it said.
        said: String,
    },
    /// The database on a server that is there already.
    #[error(transparent)]
    External(#[from] ExternalError),
    /// Data that are kept.
    #[error("data: {0}")]
    Data(#[from] DataError),
    /// CPUs that are not there, or that this process may not use.
    #[error("{}", .0.join("\n"))]
    Cpus(Vec<String>),
    /// A file.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A certificate.
    #[error("making a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The user wants it to stop.
    #[error("interrupted")]
    Interrupted,
}

/// A running application.
pub struct Cluster {
    plan: Application,
    around: ClusterContext,
    folder: PathBuf,
    secret: String,
    /// The user and group of the application's servers and commands; absent, those of whoever starts them.
    owner: Option<(u32, u32)>,
    /// Whose certificates users trust, where they come by TLS.
    authority: Option<Authority>,
    instances: BTreeMap<Tier, Vec<Instance>>,
    numbers: BTreeMap<Tier, u32>,
    /// Instances that were killed on purpose.
    killed: BTreeSet<String>,
    /// Instances that finish what they have begun.
    leaving: Leaving,
    /// Processor time of instances that are gone, by tier.
    gone_ns: BTreeMap<Tier, u64>,
    /// Processor time of app servers for checking passwords.
    passwords: Passwords,
    /// What its instances listen on, by their names, so that nobody else is given that before they do, or while one is
    /// started again.
    ports: BTreeMap<String, Vec<HeldPort>>,
    // Removed after the instances have stopped.
    external: Option<ExternalDatabase>,
}

/// What one instance has told and used.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its name.
    pub name: String,
    /// Its service.
    pub service: &'static str,
    /// What it has used.
    pub usage: Usage,
    /// Its own statistics, or why there are none.
    pub statistics: Result<Statistics, String>,
    /// The last lines of its log.
    pub log: Vec<String>,
    /// What holds its memory, in words.
    pub memory_limit: &'static str,
    /// Where it runs.
    pub on: String,
    /// Whether its processor is emulated there.
    pub emulated: bool,
}

/// What the application's check said.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Whether everything held.
    pub valid: bool,
    /// Its own words.
    pub report: serde_json::Value,
}

impl Cluster {
    /// Checks that every program is there and that the CPUs can be used, before anything is started.
    ///
    /// # Errors
    /// All that is missing, each with the command that installs it; CPUs that cannot be used.
    pub fn check(plan: &Application) -> Result<(), ClusterError> {
        let own = |tier: &TierPlan| tier.service.kind() == "auction" || !matches!(tier.on, On::Native);
        let missing: Vec<String> = plan
            .tiers
            .values()
            .filter(|tier| !own(tier))
            .filter_map(|tier| program(tier.service).err().map(|why| why.to_string()))
            .collect();
        if !missing.is_empty() {
            return Err(ClusterError::Missing(missing));
        }
        let allowed = affinity::allowed_cpus()
            .map_err(|source| ClusterError::Io { what: "asking which CPUs may be used".to_owned(), source })?
            .into_iter()
            .collect();
        let mut wrong: Vec<String> =
            plan.tiers.iter().filter_map(|(tier, it)| unusable(tier.label(), it, &allowed)).collect();
        wrong.extend(unknown("load", &plan.load.cpus, &allowed));
        if wrong.is_empty() { Ok(()) } else { Err(ClusterError::Cpus(wrong)) }
    }

    /// Starts the tiers that keep state and loads the data; then everything that serves it. `say` is told each step.
    ///
    /// # Errors
    /// Whatever makes it impossible; what was started is stopped.
    pub fn start(
        plan: Application,
        around: ClusterContext,
        seed: u64,
        say: &mut dyn FnMut(&str),
    ) -> Result<Cluster, ClusterError> {
        Cluster::check(&plan)?;
        let folder = around.folder.join(&plan.name);
        let making = |path: &Path| {
            let what = format!("making {}", path.display());
            move |source| ClusterError::Io { what, source }
        };
        Directory::make_new(&folder).map_err(making(&folder))?;
        let kept = kept(&plan, seed, &around)?;
        let secret = match &kept {
            Some(kept) => kept.secret()?,
            None => {
                random_secret().map_err(|source| ClusterError::Io { what: "making a secret".to_owned(), source })?
            }
        };
        let authority = plan.tls.then(Authority::new).transpose()?;
        let mut cluster = Cluster {
            plan,
            authority,
            around,
            folder,
            secret,
            owner: confine::is_root().then(|| Auction.install().account(confine::user)).flatten(),
            instances: BTreeMap::new(),
            numbers: BTreeMap::new(),
            killed: BTreeSet::new(),
            leaving: Leaving::default(),
            gone_ns: BTreeMap::new(),
            passwords: Passwords::default(),
            ports: BTreeMap::new(),
            external: None,
        };
        let own = cluster.own_folder();
        make_for(cluster.owner, &own).map_err(making(&own))?;
        if let Some(wanted) = &cluster.plan.external {
            cluster.external = Some(ExternalDatabase::create(wanted, &cluster.around.program)?);
        }
        cluster.write_passwords(kept.as_ref().and_then(KeptData::password))?;
        if !cluster.plan.tiers.contains_key(&Tier::Database) {
            let folder = cluster.sqlite_folder();
            make_for(cluster.owner, &folder).map_err(making(&folder))?;
        }
        for tier in [Tier::Database, Tier::Bus] {
            cluster.grow(tier, cluster.planned(tier), say)?;
        }
        match &kept {
            Some(kept) if kept.is_there() => {
                say("taking the data that are kept");
                cluster.take(kept)?;
            }
            _ => {
                say("loading the data");
                cluster.load(seed)?;
                if let Some(kept) = &kept {
                    cluster.keep(kept)?;
                }
            }
        }
        drop(kept);
        for tier in [Tier::App, Tier::Web, Tier::Balancer] {
            cluster.grow(tier, cluster.planned(tier), say)?;
        }
        Ok(cluster)
    }

    fn planned(&self, tier: Tier) -> u64 {
        let scheduled = self.plan.elastic.scheduled(tier, 0.0);
        let started = self.plan.tiers.get(&tier).filter(|plan| !matches!(plan.on, On::External(_)));
        started.map_or(0, |plan| scheduled.unwrap_or(plan.count))
    }

    fn grow(&mut self, tier: Tier, count: u64, say: &mut dyn FnMut(&str)) -> Result<(), ClusterError> {
        while (self.count(tier)) < count {
            let mut instance = self.make(tier)?;
            say(&format!("starting {} ({})", instance.name(), instance.service().kind()));
            instance.wait_ready(&self.around.interrupt)?;
            self.instances.entry(tier).or_default().push(instance);
        }
        Ok(())
    }

    /// Starts one more instance of a tier; it is not ready then.
    fn make(&mut self, tier: Tier) -> Result<Instance, ClusterError> {
        let plan = self
            .plan
            .tiers
            .get(&tier)
            .cloned()
            .ok_or(ClusterError::Place { tier: tier.label(), why: "this topology has no such tier".to_owned() })?;
        let number = self.numbers.entry(tier).or_insert(0);
        *number += 1;
        let name = format!("{}-{number}", tier.label());
        let offset = u16::try_from(*number - 1).unwrap_or(u16::MAX);
        let port = if plan.port == 0 { self.a_port(&name)? } else { plan.port.saturating_add(offset) };
        let program =
            if plan.service.kind() == "auction" { self.around.program.clone() } else { self.program(plan.service)? };
        let place = self.place(tier, &plan)?;
        let address = SocketAddr::new(place.address(), port);
        let wiring = if tier == Tier::App { self.server_wiring(address, &*place) } else { Vec::new() };
        let tls = self.tls(tier, &name, address)?;
        let order = Order {
            folder: self.folder_of(tier).join(&name),
            name,
            tier,
            address,
            program,
            settings: plan.settings.clone(),
            upstreams: self.behind(tier),
            wiring,
            secret: self.secret.clone(),
            database_secret: self.external.as_ref().map(|database| database.password().to_owned()),
            owner: None,
            tls,
        };
        Ok(Instance::start(plan.service, order, &plan.limits, place)?)
    }

    /// The folder in which instances of a tier have theirs.
    fn folder_of(&self, tier: Tier) -> &Path {
        let own = self.plan.database_folder.as_deref().filter(|_| tier == Tier::Database);
        own.unwrap_or(&self.folder)
    }

    /// The folder of SQLite's file.
    fn sqlite_folder(&self) -> PathBuf {
        self.folder_of(Tier::Database).join("sqlite")
    }

    /// The folder of what the application's servers and commands share: passwords, and images in files.
    fn own_folder(&self) -> PathBuf {
        self.folder.join("shared")
    }

    /// Stops the database, which has its data then in a folder that can be copied; that folder and whose it is.
    fn rest(&mut self) -> Result<(PathBuf, Option<(u32, u32)>), ClusterError> {
        let Some(instance) = self.instances.get_mut(&Tier::Database).and_then(|list| list.first_mut()) else {
            return Ok((self.sqlite_folder(), self.owner));
        };
        instance.stop(STOP_LIMIT);
        Ok((instance.folder().join("data"), instance.order().owner))
    }

    /// Starts the database on the data that is there.
    fn wake(&mut self) -> Result<(), ClusterError> {
        let interrupt = Arc::clone(&self.around.interrupt);
        if let Some(instance) = self.instances.get_mut(&Tier::Database).and_then(|list| list.first_mut()) {
            instance.restart()?;
            instance.wait_ready(&interrupt)?;
        }
        Ok(())
    }

    /// Keeps what was loaded.
    fn keep(&mut self, kept: &KeptData) -> Result<(), ClusterError> {
        let password = self.password()?;
        let (data, _) = self.rest()?;
        kept.put(&data, &password)?;
        self.wake()
    }

    /// Takes data that was kept in place of a load; the application checks them before anything serves them.
    fn take(&mut self, kept: &KeptData) -> Result<(), ClusterError> {
        let (data, owner) = self.rest()?;
        kept.take(&data, owner)?;
        self.wake()?;
        let checked = self.check_invariants()?;
        if checked.valid { Ok(()) } else { Err(DataError::Unsound(checked.report).into()) }
    }

    /// The last lines of each instance's log, by the path of its folder.
    #[must_use]
    pub fn logs(&self) -> Vec<(PathBuf, Vec<String>)> {
        let all = self.instances.values().flatten();
        all.map(|instance| (self.folder.join(instance.name()), instance.log())).collect()
    }

    /// A port for an instance.
    fn a_port(&mut self, name: &str) -> Result<u16, ClusterError> {
        let held = HeldPort::any()
            .map_err(|source| ClusterError::Io { what: "looking for a free port".to_owned(), source })?;
        let number = held.number();
        self.ports.entry(name.to_owned()).or_default().push(held);
        Ok(number)
    }

    /// What the tier at which users come in needs to serve TLS.
    fn tls(&mut self, tier: Tier, name: &str, address: SocketAddr) -> Result<Option<Tls>, ClusterError> {
        let front = [Tier::Balancer, Tier::Web].into_iter().find(|tier| self.plan.tiers.contains_key(tier));
        let Some(authority) = self.authority.as_ref().filter(|_| front == Some(tier)) else { return Ok(None) };
        let made = authority.certify(address.ip())?;
        let plain = SocketAddr::new(address.ip(), self.a_port(name)?);
        Ok(Some(Tls { chain: made.chain, key: made.key, plain }))
    }

    fn program(&self, service: &'static dyn Service) -> Result<PathBuf, ClusterError> {
        // In a place of its own it is where its package puts it there.
        let usual = || PathBuf::from(service.install().programs.first().copied().unwrap_or_default());
        let elsewhere =
            self.plan.tiers.values().any(|tier| tier.service.kind() == service.kind() && tier.on != On::Native);
        match program(service) {
            Err(_) if elsewhere => Ok(usual()),
            found => Ok(found?),
        }
    }

    fn place(&self, tier: Tier, plan: &TierPlan) -> Result<Box<dyn Place>, ClusterError> {
        if plan.on == On::Native && self.plan.network == Networking::Host {
            return Ok(Box::new(Native));
        }
        let wanted = Wanted {
            on: &plan.on,
            own: tier == Tier::App,
            program: &self.around.program,
            network: self.plan.network,
            limits: &plan.limits,
            environments: &self.around.environments,
            interrupt: &self.around.interrupt,
        };
        (self.around.places)(&wanted).map_err(|why| ClusterError::Place { tier: tier.label(), why })
    }

    /// The servers that a tier sends requests to.
    fn behind(&self, tier: Tier) -> Vec<Upstream> {
        let next = match tier {
            Tier::Balancer if self.count(Tier::Web) > 0 => Tier::Web,
            Tier::Balancer | Tier::Web => Tier::App,
            _ => return Vec::new(),
        };
        let servers = self.instances.get(&next).into_iter().flatten();
        servers.map(|server| Upstream { name: server.name().to_owned(), address: server.address() }).collect()
    }

    /// Instances of a tier that serve.
    #[must_use]
    pub fn count(&self, tier: Tier) -> u64 {
        self.instances.get(&tier).map_or(0, Vec::len) as u64
    }

    /// Where users come in: the addresses among which they are spread.
    #[must_use]
    pub fn fronts(&self) -> Vec<SocketAddr> {
        let tiers = [Tier::Balancer, Tier::Web, Tier::App];
        let front = tiers.iter().find_map(|tier| self.instances.get(tier).filter(|list| !list.is_empty()));
        front.into_iter().flatten().map(Instance::address).collect()
    }

    /// The first of them as a URL.
    #[must_use]
    pub fn front_url(&self) -> Option<String> {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        self.fronts().first().map(|front| format!("{scheme}://{front}"))
    }

    /// The certificate of the authority that users trust, as PEM; absent without TLS.
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_ref().map(Authority::pem)
    }

    /// Makes the environment in which a load generator runs.
    #[must_use]
    pub fn load_site(&self, name: &str) -> MakeEnvironment {
        let (name, make) = (name.to_owned(), self.around.load_sites);
        let environments = Arc::clone(&self.around.environments);
        Box::new(move || make(&name, &environments))
    }

    /// The application's plan.
    #[must_use]
    pub fn plan(&self) -> &Application {
        &self.plan
    }

    /// The password of all accounts.
    ///
    /// # Errors
    /// When its file is gone.
    pub fn password(&self) -> Result<String, ClusterError> {
        let path = self.own_folder().join("password");
        fs::read_to_string(&path)
            .map(|text| text.trim().to_owned())
            .map_err(|source| ClusterError::Io { what: path.display().to_string(), source })
    }

    fn database_secret(&self) -> &str {
        self.external.as_ref().map_or(&self.secret, ExternalDatabase::password)
    }

    /// The password of all accounts, and that of the database.
    fn write_passwords(&self, kept: Option<String>) -> Result<(), ClusterError> {
        let path = self.own_folder();
        let write = || {
            let folder = Directory::of_others(&path)?;
            let made = kept.map_or_else(random_secret, |kept| Ok(kept.trim().to_owned()))?;
            for (name, word) in [("password", made.as_str()), (DATABASE_PASSWORD, self.database_secret())] {
                folder.replace(Path::new(name), format!("{word}\n").as_bytes(), self.owner)?;
            }
            Ok(())
        };
        write()
            .map_err(|source| ClusterError::Io { what: format!("writing passwords into {}", path.display()), source })
    }

    /// Brings a tier to `count` instances while it serves, and returns how long that took: new ones are ready and warm before
    /// requests come; those that go get no more requests, and finish and end while the others serve.
    ///
    /// # Errors
    /// When a new one does not become ready, or those before it cannot be told.
    pub fn scale(&mut self, tier: Tier, count: u64) -> Result<Duration, ClusterError> {
        let begin = Instant::now();
        let before = self.count(tier);
        if count > before {
            self.grow(tier, count, &mut |_| {})?;
            for instance in self.instances.get(&tier).into_iter().flatten().skip(usize::try_from(before).unwrap_or(0)) {
                warm(instance.address());
            }
            self.rewire(tier)?;
            return Ok(begin.elapsed());
        }
        let keep = usize::try_from(count).unwrap_or(0);
        let leaving =
            self.instances.get_mut(&tier).map(|list| list.split_off(keep.min(list.len()))).unwrap_or_default();
        if !leaving.is_empty() {
            self.rewire(tier)?;
        }
        let took = begin.elapsed();
        for instance in leaving {
            // It listens until it ends, and never again.
            self.ports.remove(instance.name());
            // Its last reading: nobody sends it log-ins any more.
            if tier == Tier::App {
                self.passwords.read(&instance);
            }
            self.leaving.add(tier, instance, &mut self.gone_ns);
        }
        Ok(took)
    }

    /// Tells those before a tier which instances it has.
    fn rewire(&mut self, changed: Tier) -> Result<(), ClusterError> {
        let before: &[Tier] = match changed {
            Tier::App if self.count(Tier::Web) > 0 => &[Tier::Web],
            Tier::App | Tier::Web => &[Tier::Balancer],
            _ => &[],
        };
        for tier in before {
            let upstreams = self.behind(*tier);
            for instance in self.instances.get_mut(tier).into_iter().flatten() {
                instance.rewire(&upstreams)?;
            }
        }
        Ok(())
    }

    /// Kills an instance as a crash would: the tests and studies of faults do.
    ///
    /// # Errors
    /// When there is no such instance.
    pub fn kill(&mut self, tier: Tier, index: usize) -> Result<(), ClusterError> {
        if let (Tier::App, Some(server)) = (tier, self.instances.get(&tier).and_then(|list| list.get(index))) {
            self.passwords.read(server);
        }
        let instance = self.instance(tier, index)?;
        instance.kill();
        let name = instance.name().to_owned();
        self.killed.insert(name);
        Ok(())
    }

    /// Starts a killed instance again on what it had kept.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn restart(&mut self, tier: Tier, index: usize) -> Result<(), ClusterError> {
        let interrupt = Arc::clone(&self.around.interrupt);
        let instance = self.instance(tier, index)?;
        instance.restart()?;
        instance.wait_ready(&interrupt)?;
        let name = instance.name().to_owned();
        self.killed.remove(&name);
        Ok(())
    }

    /// Lets an instance read its configuration again.
    ///
    /// # Errors
    /// When it cannot.
    pub fn reload(&mut self, tier: Tier, index: usize) -> Result<(), ClusterError> {
        Ok(self.instance(tier, index)?.reload()?)
    }

    fn instance(&mut self, tier: Tier, index: usize) -> Result<&mut Instance, ClusterError> {
        let found = self.instances.get_mut(&tier).and_then(|list| list.get_mut(index));
        found.ok_or_else(|| ClusterError::Place { tier: tier.label(), why: format!("it has no instance {index}") })
    }

    /// Processor time of each tier so far, in ns, instances that are gone included.
    pub fn cpu_ns(&mut self) -> BTreeMap<Tier, u64> {
        self.leaving.reap(&mut self.gone_ns);
        let mut sums = self.gone_ns.clone();
        for (tier, list) in &mut self.instances {
            *sums.entry(*tier).or_default() += list.iter_mut().map(|instance| instance.usage().cpu_ns).sum::<u64>();
        }
        sums
    }

    /// Processor time that app servers have used so far for checking passwords, in ns, those that are gone included; `None` where one
    /// that runs does not say. It is a part of the app tier's in [`Cluster::cpu_ns`].
    pub fn passwords_ns(&mut self) -> Option<u64> {
        let servers = self.instances.get(&Tier::App).into_iter().flatten();
        let mut all = true;
        for server in servers.filter(|server| !self.killed.contains(server.name())) {
            all &= self.passwords.read(server);
        }
        all.then(|| self.passwords.sum_ns())
    }

    /// What the threads of each tier have waited for, by the processes of the instances that run; tiers of which one runs where that is
    /// not seen are left out.
    pub fn waits(&self) -> BTreeMap<Tier, BTreeMap<u32, Waits>> {
        self.by_life(Instance::waits)
    }

    /// How long the processes of each tier stalled, by those of the instances that run; tiers of which one runs where that is not
    /// counted are left out.
    pub fn stalls(&self) -> BTreeMap<Tier, BTreeMap<u32, Stalls>> {
        self.by_life(Instance::stalls)
    }

    /// What `of` says of each instance that runs, by its process: one that was started again is another.
    fn by_life<T>(&self, of: fn(&Instance) -> Option<T>) -> BTreeMap<Tier, BTreeMap<u32, T>> {
        let of_tier = |list: &Vec<Instance>| {
            let running = list.iter().filter_map(|instance| Some((instance.pid()?, instance)));
            let all = running.map(|(pid, instance)| Some((pid, of(instance)?))).collect::<Option<BTreeMap<_, _>>>()?;
            (!all.is_empty()).then_some(all)
        };
        self.instances.iter().filter_map(|(tier, list)| Some((*tier, of_tier(list)?))).collect()
    }

    /// Instances that have ended by themselves, with the last lines of their logs.
    pub fn fallen(&mut self) -> Vec<String> {
        let killed = self.killed.clone();
        let all = self.instances.values_mut().flatten().filter(|instance| !killed.contains(instance.name()));
        all.filter_map(|instance| {
            (!instance.is_running()).then(|| format!("{} has ended: {}", instance.name(), instance.log().join(" | ")))
        })
        .collect()
    }

    /// What everybody tells.
    pub fn collect(&mut self) -> Vec<Told> {
        let all = self.instances.values_mut().flatten();
        all.map(|instance| Told {
            name: instance.name().to_owned(),
            service: instance.service().kind(),
            usage: instance.usage(),
            statistics: instance.statistics().map_err(|why| why.to_string()),
            log: instance.log(),
            memory_limit: instance.memory_limit().label(),
            on: instance.place().label(),
            emulated: instance.place().emulated(),
        })
        .collect()
    }

    /// Stops everything, from the front to the back. Nobody is served any more and no data is kept, so that nobody is waited
    /// for.
    pub fn stop(&mut self) {
        self.leaving.end(&mut self.gone_ns);
        for tier in Tier::ALL {
            for mut instance in self.instances.remove(&tier).unwrap_or_default() {
                instance.stop(LAST_STOP_LIMIT);
                *self.gone_ns.entry(tier).or_default() += instance.usage().cpu_ns;
            }
        }
        self.external = None;
    }
}

/// The place of data that are to be kept; what decides their rows is compared with what is there.
fn kept(plan: &Application, seed: u64, around: &ClusterContext) -> Result<Option<KeptData>, ClusterError> {
    let Some(root) = &plan.kept_data else { return Ok(None) };
    let of_service = plan.tiers.get(&Tier::Database).map_or("", |tier| tier.service.source());
    let made_by = digest(around.data_sources.iter().copied().chain([of_service]));
    let server = match plan.tiers.get(&Tier::Database) {
        Some(tier) if tier.on == On::Native => {
            let version = Kind::of(&plan.database).map(Kind::version).transpose();
            let version = version.map_err(DataError::from)?.unwrap_or_default();
            format!("{} ({version})", program(tier.service)?.display())
        }
        Some(tier) => format!("{} on {}", tier.service.kind(), tier.on),
        None => plan.database.clone(),
    };
    let content = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("server", server),
        ("schema and generator", made_by),
        ("max_users", plan.max_users.to_string()),
        ("seed", seed.to_string()),
        ("history", format!("{:.3}", plan.history)),
        ("argon2", plan.argon2.clone()),
        ("images", plan.images.clone()),
    ];
    let content = Content(content.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
    let name = format!("{}-{}", plan.name, plan.database);
    Ok(Some(KeptData::open(root, &name, content, &around.interrupt)?))
}

/// Some requests, so that caches, connections and code are there before users are.
fn warm(address: SocketAddr) {
    for _ in 0..WARMING {
        let Ok(mut stream) = std::net::TcpStream::connect_timeout(&address, Duration::from_secs(2)) else { return };
        drop(stream.set_read_timeout(Some(Duration::from_secs(2))));
        drop(stream.write_all(b"GET / HTTP/1.1\r\nHost: warm\r\nConnection: close\r\n\r\n"));
        drop(stream.read_to_end(&mut Vec::new()));
    }
}
