//! The places of a study, made from its settings: the one list of environments that this program can start.

use crate::exit::{Exit, Refusal};
use baremark_environments::container::{
    Container, Layer, Network, Root, Runtime, Seccomp, Settings as ContainerSettings,
};
use baremark_environments::kubernetes::{Kubernetes, Settings as KubernetesSettings};
use baremark_environments::lab::Connect;
use baremark_environments::mpi::{Mpi, Settings as MpiSettings};
use baremark_environments::native::Native;
use baremark_environments::qemu::{
    Accel, Backing, Disks, Mmu, Net, Qemu, Root as QemuRoot, Settings as QemuSettings, Topology,
};
use baremark_environments::sandbox::{Sandbox, Settings as SandboxSettings};
use baremark_environments::slurm::{Launcher, Settings as SlurmSettings, Slurm};
use baremark_environments::ssh::{Settings as SshSettings, Ssh};
use baremark_model::arm::ExecutorKind;
use baremark_model::command;
use baremark_model::descriptor::{self, Value};
use baremark_model::environments;
use baremark_model::image;
use baremark_model::instead;
use baremark_model::peer;
use baremark_model::plan::{Limits, Plan, PlannedArm, parameter_at, program_at};
use baremark_model::scale;
use baremark_model::site::Environment;
use baremark_model::study::Study;
use baremark_programs::command as programs;
use baremark_programs::{executable, workshop};
use baremark_services::service::{Service, program_below};
use baremark_sys::sandbox as layers;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Settings of one environment.
pub type Settings = BTreeMap<String, Value>;

/// This program's own file: every place runs it as its agent.
pub fn program() -> Result<PathBuf, Refusal> {
    std::env::current_exe().map_err(|why| Refusal::failure(format!("asking for this program's file: {why}")))
}

/// How a place is made: the name that it has in the study, its settings, this program.
type Make = fn(&str, &Settings, PathBuf) -> Result<Box<dyn Environment>, Refusal>;

/// A row of the list of places: its name in studies, and how it is made.
type Row = (&'static str, Make);

/// Every place but those that `native` serves. A new one is a line here, and its row in `model::environments::ALL`.
const PLACES: &[Row] = &[
    ("sandbox", |name, settings, program| Ok(Box::new(sandbox(name, settings, program)?))),
    ("container", |name, settings, program| Ok(Box::new(container(name, settings, program)?))),
    ("qemu", |name, settings, program| Ok(Box::new(qemu(name, settings, program)?))),
    ("ssh", |_, settings, program| Ok(Box::new(ssh(settings, program)))),
    ("slurm", |_, settings, program| Ok(Box::new(slurm(settings, program)))),
    ("mpi", |_, settings, program| Ok(Box::new(mpi(settings, program)))),
    ("kubernetes", |name, settings, program| Ok(Box::new(kubernetes(name, settings, program)?))),
];

/// The environment of that name with these settings, which may say that it is like another; `None` where `native` serves it,
/// or none is known by it.
pub fn place(name: &str, settings: &Settings, program: PathBuf) -> Result<Option<Box<dyn Environment>>, Refusal> {
    place_of(PLACES, name, settings, program)
}

fn place_of(
    list: &[Row],
    name: &str,
    settings: &Settings,
    program: PathBuf,
) -> Result<Option<Box<dyn Environment>>, Refusal> {
    let row = list.iter().find(|(known, _)| *known == kind(name, settings));
    row.map(|(_, make)| make(name, settings, program)).transpose()
}

/// Which place it is.
fn kind<'s>(name: &'s str, settings: &'s Settings) -> &'s str {
    environments::like(settings).unwrap_or(name)
}

/// All environments in which the cells of a plan run, by name. The agents of this machine get the injected costs of the run's
/// blinded arms, if it has any.
pub fn of_plan(
    plan: &Plan,
    injected: Option<impl ToString>,
) -> Result<BTreeMap<String, Box<dyn Environment>>, Refusal> {
    let native = match injected {
        Some(injected) => Native::new(program()?).with(scale::VARIABLE, injected.to_string()),
        None => Native::new(program()?),
    };
    let native: Box<dyn Environment> = Box::new(native);
    let mut places = BTreeMap::from([(environments::NATIVE.to_owned(), native)]);
    brought_files_are_there(plan)?;
    let peers = plan.arms.iter().filter_map(|arm| peer::of_arm(&arm.arm));
    for name in plan.cells.iter().map(|&cell| plan.environment_of(cell)).chain(peers).collect::<BTreeSet<_>>() {
        let none = Settings::new();
        if let Some(place) = place(name, plan.environments.get(name).unwrap_or(&none), program()?)? {
            places.insert(name.to_owned(), place);
        }
    }
    Ok(places)
}

/// Files of this machine that programs need elsewhere are looked for before anything runs.
pub fn brought_files_are_there(plan: &Plan) -> Result<(), Refusal> {
    for program in plan.arms.iter().filter_map(|arm| command::of_arm(&arm.arm)) {
        let carried = program.carry.keys().map(|file| ("[command] carry".to_owned(), file));
        let brought = program.bring.iter().map(|(name, file)| (format!("[command.bring] {name}"), file));
        for (key, file) in brought.chain(carried) {
            std::fs::File::open(file).map_err(|why| {
                Refusal::bad_input(format!("{key}: {file} cannot be read: {why}; give a file of this machine"))
            })?;
        }
    }
    Ok(())
}

/// A place as it is named on a command line: `native`, `container` or `ssh:HOST[:PORT]`, that with the configuration of ssh
/// that is given, if any.
pub fn of_site(text: &str, ssh_config: Option<&Path>) -> Result<Box<dyn Environment>, Refusal> {
    let (name, target) = text.split_once(':').unwrap_or((text, ""));
    let refused = || Refusal::bad_input(format!("'{text}' is not a site; write native, container or ssh:HOST[:PORT]"));
    let mut settings = Settings::new();
    match (name, target) {
        ("native", "") => return Ok(Box::new(Native::new(program()?))),
        ("container", "") => {
            settings.insert("network".to_owned(), Value::Text("host".to_owned()));
        }
        ("ssh", target) if !target.is_empty() => {
            let (host, port) = match target.rsplit_once(':') {
                Some((host, port)) => (host, Some(port.parse::<u16>().ok().ok_or_else(refused)?)),
                None => (target, None),
            };
            settings.insert("host".to_owned(), Value::Text(host.to_owned()));
            settings.extend(ssh_config.map(|file| ("config".to_owned(), Value::Text(file.display().to_string()))));
            settings.extend(port.map(|port| ("port".to_owned(), Value::Count(u64::from(port)))));
        }
        _ => return Err(refused()),
    }
    place(name, &settings, program()?)?.ok_or_else(refused)
}

/// What planning must know of a study's places: which cannot be used here, and which are emulated. A place that needs a
/// setting which the study does not give is left to planning, which says so with its line.
pub fn limit(study: &Study, limits: &mut Limits, interrupt: &AtomicBool) -> Result<(), Refusal> {
    let varied =
        study.factors.iter().flat_map(|factor| factor.levels.iter().map(move |level| (factor.key.as_str(), level)));
    let levels = |wanted: &'static str| varied.clone().filter(move |(key, _)| *key == wanted).map(|(_, level)| level);
    let fixed = study.workloads.iter().filter_map(|chosen| chosen.parameters.get(peer::KEY));
    let peers = levels(peer::KEY).chain(fixed).map(ToString::to_string);
    let peers = peers.filter_map(|text| peer::environment(&text).map(str::to_owned));
    let taken = instead::taken(study, &limits.absent);
    let named = levels("environment").map(ToString::to_string).filter(|name| taken.contains(name));
    for name in named.chain(peers).collect::<BTreeSet<_>>() {
        let settings = study.environments.get(&name).cloned().unwrap_or_default();
        if needs_a_setting(kind(&name, &settings), &settings) {
            continue;
        }
        let Some(place) = place(&name, &settings, program()?)? else { continue };
        if let Err(why) = place.probe() {
            limits.absent.insert(name, why.to_string());
        } else {
            if place.emulated(interrupt) {
                limits.emulated.insert(name.clone());
            }
            limits.found.insert(name, place.found());
        }
        if interrupt.load(Ordering::Relaxed) {
            return Err(Refusal { exit: Exit::Interrupted, message: "interrupted before anything ran".to_owned() });
        }
    }
    Ok(())
}

/// What planning must know of programs that are to run with this machine's files: which of them are not here, and which the microVM cannot run,
/// by what their files say. Whether there is any.
pub fn limit_programs(plan: &Plan, limits: &mut Limits) -> bool {
    let mut limited = false;
    let sees_files = |arm: &&PlannedArm| environments::can(arm.place()).host_files;
    for arm in plan.arms.iter().filter(sees_files) {
        let Some(program) = command::of_arm(&arm.arm) else { continue };
        if let Err(why) = can_start(program, arm.arm.executor) {
            limits.absent.insert(program_at(&arm.environment, program), why);
            limited = true;
        }
    }
    limited
}

/// Whether a program is here, and the executor can run it, as far as that can be said before its preparation has run.
fn can_start(program: &command::Program, executor: ExecutorKind) -> Result<(), String> {
    programs::needs(program).map_err(|why| why.to_string())?;
    // A name that holds a placeholder is known at the site alone.
    let Some(name) = program.argv.first().and_then(|name| command::fill(name, |_| None).ok()) else { return Ok(()) };
    let directory = command::fill(&program.directory, |_| None).unwrap_or_default();
    let path = program.environment.get("PATH").cloned().unwrap_or_else(workshop::search_path);
    let file = match executable::located(&name, Path::new(&directory), &path) {
        Ok(file) => file,
        // It may be one of those that are brought, written or made first, or be next to this program.
        Err(_) if name.contains('/') || programs::missing(&name, "", &path).is_ok() => return Ok(()),
        Err(why) => return Err(why),
    };
    let inherited = || std::env::var("ASAN_OPTIONS").ok();
    let options = program.environment.get("ASAN_OPTIONS").cloned().or_else(inherited).unwrap_or_default();
    let unfit = if executor == ExecutorKind::Microvm { executable::unfit_for_microvm(&file, &options) } else { None };
    unfit.map_or(Ok(()), Err)
}

/// What planning must know of database servers that are to be started: in which places their programs are not installed. Whether there is any
/// such place.
pub fn limit_servers(plan: &Plan, limits: &mut Limits) -> bool {
    let (mut limited, none) = (false, Settings::new());
    for (index, arm) in plan.arms.iter().enumerate() {
        let workload = plan.workload_of(index);
        let is_database = baremark_databases::ALL.iter().any(|job| job.descriptor().kind == workload);
        let Some(server) = baremark_databases::server_of(&arm.arm).filter(|_| is_database) else { continue };
        let settings = plan.environments.get(&arm.environment).unwrap_or(&none);
        if let Some(why) = lacks(server, &arm.environment, settings) {
            limits.absent.insert(parameter_at(&arm.environment, workload, "database", server.kind()), why);
            limited = true;
        }
    }
    limited
}

/// Why a server cannot be started in a place; `None` where it is installed, or where only an agent there can see that.
fn lacks(server: &dyn Service, name: &str, settings: &Settings) -> Option<String> {
    let (rootfs, image) = (word(settings, "rootfs"), word(settings, "image"));
    let sees_files = environments::can(kind(name, settings)).host_files;
    let root = match (kind(name, settings), rootfs) {
        _ if sees_files => Path::new("/"),
        ("qemu" | "container", Some(HOST)) => Path::new("/"),
        ("container", _) if image.is_some() || settings.contains_key("volumes") => return None,
        ("container", Some(folder)) => Path::new(folder),
        (place @ ("container" | "qemu"), _) => {
            let (server, package) = (server.kind(), server.install().package);
            let remedy = match place {
                "container" => {
                    format!("give it an image or a rootfs with {package} (rootfs = \"host\" is this machine's)")
                }
                _ => format!("write rootfs = \"host\" with {package} installed here"),
            };
            return Some(format!(
                "{server} is not installed in {name}, which has no files but this program; {remedy}, or write database = \"sqlite\""
            ));
        }
        _ => return None,
    };
    program_below(server, root).err().map(|why| why.to_string())
}

/// What a place with its defaults has and lacks on this machine, or why it cannot be used.
pub fn found(name: &str) -> Result<Result<BTreeMap<String, Vec<String>>, String>, Refusal> {
    let place = place(name, &Settings::new(), program()?)?;
    Ok(match place.map(|place| place.probe().map(|()| place.found())) {
        Some(found) => found.map_err(|why| why.to_string()),
        None => Ok(BTreeMap::new()),
    })
}

/// Whether a place can be used with its defaults: `None` where that cannot be said without settings.
pub fn probe(name: &str) -> Result<Option<Result<(), String>>, Refusal> {
    let none = Settings::new();
    let found = if needs_a_setting(name, &none) { None } else { place(name, &none, program()?)? };
    Ok(found.map(|place| place.probe().map_err(|why| why.to_string())))
}

/// Whether a place cannot be made without a setting that is not given.
fn needs_a_setting(place: &str, settings: &Settings) -> bool {
    let settable = environments::find(place).map_or(&[][..], |kind| kind.settings);
    settable.iter().any(|knob| knob.default == descriptor::Default::Required && !settings.contains_key(knob.key))
}

fn word<'s>(settings: &'s Settings, key: &str) -> Option<&'s str> {
    match settings.get(key) {
        Some(Value::Choice(word) | Value::Text(word)) => Some(word),
        _ => None,
    }
}

fn count(settings: &Settings, key: &str) -> Option<usize> {
    match settings.get(key) {
        Some(Value::Count(count)) => Some(usize::try_from(*count).unwrap_or(usize::MAX)),
        _ => None,
    }
}

fn words(settings: &Settings, key: &str) -> Vec<String> {
    match settings.get(key) {
        Some(Value::Words(words)) => words.clone(),
        _ => Vec::new(),
    }
}

fn time(settings: &Settings, key: &str) -> Option<Duration> {
    match settings.get(key) {
        Some(Value::TimeNs(time)) => Some(Duration::from_nanos(time.0)),
        _ => None,
    }
}

fn own_cpus() -> usize {
    baremark_sys::affinity::allowed_cpus().map_or(1, |cpus| cpus.len())
}

fn slurm(settings: &Settings, program: PathBuf) -> Slurm {
    let usual = SlurmSettings::default();
    let made = SlurmSettings {
        launcher: if word(settings, "launcher") == Some("sbatch") { Launcher::Sbatch } else { Launcher::Srun },
        config: word(settings, "config").map(PathBuf::from),
        partition: word(settings, "partition").map(str::to_owned),
        nodes: count(settings, "nodes").unwrap_or(usual.nodes),
        ntasks: count(settings, "ntasks").unwrap_or(usual.ntasks),
        cpus: Some(count(settings, "cpus").unwrap_or_else(own_cpus)),
        time: time(settings, "time"),
        arguments: words(settings, "arguments"),
        folder: word(settings, "folder").map(PathBuf::from),
        pending_limit: time(settings, "pending_limit").unwrap_or(usual.pending_limit),
        start_limit: time(settings, "start_limit").unwrap_or(usual.start_limit),
        ..usual
    };
    Slurm::new(program, made)
}

fn mpi(settings: &Settings, program: PathBuf) -> Mpi {
    let usual = MpiSettings::default();
    let made = MpiSettings {
        ranks: count(settings, "np").unwrap_or(usual.ranks),
        hosts: word(settings, "hostfile").map(PathBuf::from),
        arguments: words(settings, "arguments"),
        start_limit: time(settings, "start_limit").unwrap_or(usual.start_limit),
    };
    Mpi::new(program, made)
}

fn kubernetes(name: &str, settings: &Settings, program: PathBuf) -> Result<Kubernetes, Refusal> {
    let usual = KubernetesSettings::default();
    let pair = |text: &String| {
        let what = || format!("[environments.{name}] node: '{text}' has no equals sign; write \"KEY=VALUE\"");
        let (key, value) = text.split_once('=').ok_or_else(|| Refusal::bad_input(what()))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    let text = |key| word(settings, key).map(str::to_owned);
    let made = KubernetesSettings {
        context: text("context"),
        namespace: text("namespace"),
        image: text("image").unwrap_or_default(),
        runtime_class: text("runtime_class"),
        node: words(settings, "node").iter().map(pair).collect::<Result<_, Refusal>>()?,
        cpus: count(settings, "cpus"),
        memory_bytes: match settings.get("memory") {
            Some(Value::SizeBytes(size)) => Some(size.0),
            _ => None,
        },
        time: time(settings, "time").unwrap_or(usual.time),
        start_limit: time(settings, "start_limit").unwrap_or(usual.start_limit),
    };
    Ok(Kubernetes::new(program, made))
}

fn sandbox(name: &str, settings: &Settings, program: PathBuf) -> Result<Sandbox, Refusal> {
    let layer = |text: &String| {
        let names = || layers::Layer::ALL.map(layers::Layer::name).join(", ");
        let what = || format!("[environments.{name}] layers: '{text}' is not a layer; write some of {}", names());
        layers::Layer::of_name(text).ok_or_else(|| Refusal::bad_input(what()))
    };
    let layers = words(settings, "layers").iter().map(layer).collect::<Result<Vec<_>, _>>()?;
    let paths = |key| words(settings, key).into_iter().map(PathBuf::from).collect::<Vec<_>>();
    let own = || std::env::current_dir().ok().filter(|folder| folder.parent().is_some());
    let cpus = numbers(settings, name, "cpus")?;
    let made = SandboxSettings {
        layers: settings.contains_key("layers").then_some(layers),
        write: if settings.contains_key("write") { paths("write") } else { own().into_iter().collect() },
        read: paths("read"),
        memory_bytes: match settings.get("memory") {
            Some(Value::SizeBytes(size)) => Some(size.0),
            _ => None,
        },
        cpus: (!cpus.is_empty()).then_some(cpus),
    };
    Ok(Sandbox::new(program, made))
}

/// The `rootfs` of a place that has this machine's own files.
const HOST: &str = "host";

fn container(name: &str, settings: &Settings, program: PathBuf) -> Result<Container, Refusal> {
    let memory_bytes = match settings.get("memory") {
        Some(Value::SizeBytes(size)) => Some(size.0),
        _ => None,
    };
    let network = match word(settings, "network") {
        Some("lab") => Network::Lab(Connect(crate::lab_network::namespace)),
        Some("host") => Network::Host,
        Some("bridge") => Network::Bridge,
        _ => Network::None,
    };
    let root = match (word(settings, "image"), word(settings, "rootfs")) {
        (Some(_), Some(_)) => {
            let what = format!("[environments.{name}] has an image and a rootfs; keep one of the two");
            return Err(Refusal::bad_input(what));
        }
        (Some(name_of), None) => {
            image::check(name_of).map_err(|why| Refusal::bad_input(format!("[environments.{name}] image: {why}")))?;
            Root::Image(name_of.to_owned())
        }
        (None, Some(HOST)) => Root::Folder(PathBuf::from("/")),
        (None, Some(folder)) if Path::new(folder).parent().is_none() => {
            let what = format!(
                "[environments.{name}] rootfs: '{folder}' would let the container change this machine's own files; write \"host\""
            );
            return Err(Refusal::bad_input(what));
        }
        (None, Some(folder)) => Root::Folder(PathBuf::from(folder)),
        (None, None) => Root::Program,
    };
    let cpus = numbers(settings, name, "cpus")?;
    let cpus = (!cpus.is_empty()).then_some(cpus);
    let engine = word(settings, "engine").unwrap_or("podman");
    let seccomp = if word(settings, "seccomp") == Some("off") { Seccomp::Off } else { Seccomp::On };
    let platform = word(settings, "platform");
    let runtime = word(settings, "runtime")
        .map(|name| Runtime { name: name.to_owned(), platform: platform.unwrap_or("ptrace").to_owned() });
    if platform.is_some() && runtime.as_ref().is_none_or(|runtime| runtime.name != "runsc") {
        let what = format!("[environments.{name}] has a platform and no gVisor; write runtime = \"runsc\"");
        return Err(Refusal::bad_input(what));
    }
    let over = word(settings, "layer") == Some("overlay") || word(settings, "rootfs") == Some(HOST);
    let layer = if over { Layer::Overlay } else { Layer::Folder };
    let pair = |text: &String| {
        let what = || format!("[environments.{name}] volumes: '{text}' has no colon; write \"HERE:INSIDE\"");
        let (here, inside) = text.split_once(':').ok_or_else(|| Refusal::bad_input(what()))?;
        Ok((PathBuf::from(here), PathBuf::from(inside)))
    };
    let volumes = words(settings, "volumes").iter().map(pair).collect::<Result<_, Refusal>>()?;
    let made = ContainerSettings { root, cpus, memory_bytes, network, seccomp, runtime, layer, volumes };
    Ok(Container::new(program, made).with_engine(engine))
}

fn ssh(settings: &Settings, program: PathBuf) -> Ssh {
    let port = match settings.get("port") {
        Some(Value::Count(port)) => u16::try_from(*port).ok(),
        _ => None,
    };
    let destination = word(settings, "host").unwrap_or_default().to_owned();
    let path = |key| word(settings, key).map(PathBuf::from);
    let made =
        SshSettings { destination, port, identity: path("identity"), config: path("config"), ..Default::default() };
    Ssh::new(program, made)
}

/// `kernel` may name a folder that `baremark setup guest-kernel` has filled, and where it is not given that folder is taken if
/// it is filled: then its modules give the guest a fast port.
fn qemu(name: &str, settings: &Settings, program: PathBuf) -> Result<Qemu, Refusal> {
    let mut made = QemuSettings::of_kernel(word(settings, "kernel").map(PathBuf::from));
    made.vcpus = count(settings, "vcpus").unwrap_or_else(own_cpus);
    made.vcpus_as_ranks = count(settings, "vcpus").is_none();
    if let Some(Value::SizeBytes(size)) = settings.get("memory") {
        made.memory_bytes = size.0;
    }
    made.topology = Topology {
        sockets: count(settings, "sockets"),
        cores: count(settings, "cores"),
        threads: count(settings, "threads"),
    };
    made.cpu_model = word(settings, "cpu_model").map(str::to_owned);
    made.guest_numa = word(settings, "guest_numa") == Some("exposed");
    made.guest_nodes = count(settings, "guest_nodes");
    if made.guest_nodes.is_some() && !made.guest_numa {
        let what = format!("[environments.{name}] has guest_nodes and hides them; add guest_numa = \"exposed\"");
        return Err(Refusal::bad_input(what));
    }
    made.backing = match word(settings, "backing") {
        Some("4k") => Backing::Small,
        Some("2m") => Backing::Huge,
        Some("hugetlb") => Backing::Reserved,
        _ => Backing::AsIs,
    };
    made.root = if word(settings, "rootfs") == Some(HOST) { QemuRoot::Host } else { QemuRoot::Program };
    made.mmu = match word(settings, "mmu") {
        Some("nested") => Mmu::Nested,
        Some("shadow") => Mmu::Shadow,
        _ => Mmu::AsIs,
    };
    if let Some(pages) = word(settings, "guest_pages") {
        made.kernel_options.push(format!("transparent_hugepage={pages}"));
    }
    made.kernel_options.extend(words(settings, "kernel_options"));
    made.module_names = words(settings, "modules");
    made.offloads = !switched(settings, "offloads", false);
    made.disks = Disks {
        paths: words(settings, "disks").into_iter().map(PathBuf::from).collect(),
        cache: word(settings, "disk_cache").unwrap_or_default().to_owned(),
        aio: word(settings, "disk_aio").unwrap_or_default().to_owned(),
        iothread: switched(settings, "disk_iothread", true),
        queues: count(settings, "disk_queues"),
        block_devices: switched(settings, "block_devices", true),
    };
    made.address = word(settings, "address").map(str::to_owned);
    made.accel = match word(settings, "accel") {
        Some("kvm") => Accel::Kvm,
        Some("tcg") => Accel::Tcg,
        _ => Accel::Auto,
    };
    made.boot_limit = time(settings, "start_limit").unwrap_or(made.boot_limit);
    made.pin = numbers(settings, name, "pin")?;
    made.net = match word(settings, "net") {
        Some("lab") => Net::Lab(Connect(crate::lab_network::guest)),
        Some("user") => Net::User(forwards(name, settings)?),
        Some("tap") => Net::Tap {
            device: word(settings, "tap").unwrap_or_default().to_owned(),
            vhost: switched(settings, "vhost", true),
        },
        _ => Net::None,
    };
    if matches!(made.net, Net::User(_)) && made.address.is_none() {
        made.address = Some("10.0.2.15/24".to_owned());
    }
    Ok(Qemu::new(program, made))
}

/// Whether a switch is there and stands so.
fn switched(settings: &Settings, key: &str, so: bool) -> bool {
    matches!(settings.get(key), Some(Value::Switch(on)) if *on == so)
}

/// A list of numbers.
fn numbers(settings: &Settings, place: &str, key: &str) -> Result<Vec<usize>, Refusal> {
    let number = |text: String| {
        let wrong =
            |why| Refusal::bad_input(format!("{key} in [environments.{place}]: '{text}' must be a number: {why}"));
        text.parse().map_err(wrong)
    };
    words(settings, key).into_iter().map(number).collect()
}

/// Ports that lead into a guest, as HOST:GUEST.
fn forwards(name: &str, settings: &Settings) -> Result<Vec<(u16, u16)>, Refusal> {
    let pair = |text: String| {
        let ports = text.split_once(':').and_then(|(host, guest)| Some((host.parse().ok()?, guest.parse().ok()?)));
        let right = "write ports as \"HOST:GUEST\", such as \"8080:80\"";
        ports.ok_or_else(|| {
            Refusal::bad_input(format!("forwards in [environments.{name}]: '{text}' is no such pair; {right}"))
        })
    };
    words(settings, "forwards").into_iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::site::{Missing, Site, SiteError};

    /// A place that is nowhere.
    struct Toy {
        wheels: usize,
    }

    impl Environment for Toy {
        fn name(&self) -> &'static str {
            "toy"
        }

        fn probe(&self) -> Result<(), Missing> {
            let what = format!("{} wheels are no car", self.wheels);
            Err(Missing { what, remedy: "write wheels = 4".to_owned() })
        }

        fn start(&self, _: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
            Err(SiteError::Missing(Missing { what: "a toy has no agent".to_owned(), remedy: "play".to_owned() }))
        }
    }

    #[test]
    fn a_place_is_made_by_its_line_of_the_list_under_any_name_that_is_like_it() {
        let toys: &[Row] = &[("toy", |_, settings, _| {
            Ok(Box::new(Toy { wheels: count(settings, "wheels").unwrap_or(0) }) as Box<dyn Environment>)
        })];
        let settings =
            Settings::from([("like".to_owned(), Value::Choice("toy".into())), ("wheels".to_owned(), Value::Count(3))]);
        let made = |name: &str, settings: &Settings| {
            place_of(toys, name, settings, PathBuf::new())
                .ok()
                .flatten()
                .map(|place| place.probe().expect_err("it is nowhere").to_string())
        };
        assert!(made("mine", &settings).is_some_and(|why| why.starts_with("3 wheels are no car")));
        assert!(made("toy", &Settings::new()).is_some_and(|why| why.starts_with("0 wheels are no car")));
        assert_eq!(made("container", &Settings::new()), None, "it is not in this list");
    }

    #[test]
    fn a_server_that_a_place_lacks_is_known_before_anything_runs() {
        let server = &baremark_services::mariadb::Mariadb;
        let given = |settings: &[(&str, &str)]| -> Settings {
            settings.iter().map(|(key, text)| ((*key).to_owned(), Value::Choice((*text).to_owned()))).collect()
        };
        let folder = tempfile::tempdir().expect("a folder");
        let rootfs = given(&[("rootfs", &folder.path().display().to_string())]);
        let why = lacks(server, "container", &Settings::new()).unwrap_or_default();
        assert!(
            why.starts_with("mariadb is not installed in container, which has no files but this program; "),
            "{why}"
        );
        let why = lacks(server, "mine", &given(&[("like", "qemu")])).unwrap_or_default();
        assert!(
            why.contains("mariadb is not installed in mine") && why.contains("write rootfs = \"host\" with mariadb"),
            "{why}"
        );
        let why = lacks(server, "container", &rootfs).unwrap_or_default();
        let program = folder.path().join("usr/sbin/mariadbd");
        assert!(
            why.contains(&program.display().to_string()) && why.contains("apt-get install mariadb-server"),
            "{why}"
        );
        std::fs::create_dir_all(folder.path().join("usr/sbin")).expect("a folder in it");
        std::fs::write(&program, "").expect("a program");
        assert_eq!(lacks(server, "container", &rootfs), None);
        for (name, key) in [("container", "image"), ("container", "volumes"), ("ssh", "host")] {
            assert_eq!(lacks(server, name, &given(&[(key, "x")])), None, "{key}: only an agent sees what is there");
        }
    }

    #[test]
    fn every_place_of_a_study_can_be_made() {
        let own = PLACES.iter().map(|(name, _)| *name);
        let made: BTreeSet<&str> = own.chain(["native", "microvm", "null"]).collect();
        let known: BTreeSet<&str> = environments::NAMES.iter().copied().collect();
        assert_eq!(made, known);
        let listed: BTreeSet<&str> = environments::ALL.iter().map(|place| place.name).collect();
        assert!(listed.is_subset(&known), "{listed:?}");
    }
}
