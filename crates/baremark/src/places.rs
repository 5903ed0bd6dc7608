//! The places of a study, made from its settings: the one list of environments that this program can start.

use crate::exit::{Exit, Refusal};
use crate::lab_network;
use baremark_environments::ADAPTERS;
use baremark_environments::adapter::{Adapter, Files, MakeArguments};
use baremark_environments::lab::Connect;
use baremark_environments::native::Native;
pub use baremark_environments::values::Settings;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::command;
use baremark_model::environments;
use baremark_model::instead;
use baremark_model::job::ServerProgram;
use baremark_model::knob::Default;
use baremark_model::peer;
use baremark_model::plan::{Limits, Plan, PlannedArm, parameter_at, program_at};
use baremark_model::scale;
use baremark_model::site::Environment;
use baremark_model::study::Study;
use baremark_model::value::{Program, Value};
use baremark_programs::command as programs;
use baremark_programs::{executable, workshop};
use baremark_services::service::program_below;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// This program's own file: every place runs it as its agent.
pub fn program() -> Result<PathBuf, Refusal> {
    std::env::current_exe().map_err(|why| Refusal::failure(format!("asking for this program's file: {why}")))
}

/// The environment of that name with these settings, which may say that it is like another; `None` where `native` serves it,
/// or none is known by it.
pub fn place(name: &str, settings: &Settings, program: PathBuf) -> Result<Option<Box<dyn Environment>>, Refusal> {
    place_of(ADAPTERS, name, settings, program)
}

fn place_of(
    list: &[Adapter],
    name: &str,
    settings: &Settings,
    program: PathBuf,
) -> Result<Option<Box<dyn Environment>>, Refusal> {
    let adapter = list.iter().find(|adapter| adapter.name == kind(name, settings));
    let (namespace, guest) = (Connect(lab_network::namespace), Connect(lab_network::guest));
    let request = MakeArguments { name, settings, program, namespace, guest };
    adapter.map(|adapter| (adapter.make)(request)).transpose().map_err(Refusal::bad_input)
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
    for name in plan.cells.iter().flat_map(|&cell| plan.environments_of(cell)).chain(peers).collect::<BTreeSet<_>>() {
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
    let named: Vec<String> = levels("environment").map(ToString::to_string).collect();
    let mut wanted: BTreeSet<String> = peers.collect();
    let mut looked_at = BTreeSet::new();
    // One that replaces another is looked at once that one is known to be missing.
    loop {
        let taken = instead::taken(study, &limits.absent);
        wanted.extend(named.iter().filter(|name| taken.contains(name)).cloned());
        let Some(name) = wanted.iter().find(|name| !looked_at.contains(*name)).cloned() else { break };
        looked_at.insert(name.clone());
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
fn can_start(program: &Program, executor: ExecutorKind) -> Result<(), String> {
    programs::needs(program).map_err(|why| why.to_string())?;
    // What runs before it may install it.
    if !program.setup.is_empty() || !program.prepare.is_empty() {
        return Ok(());
    }
    // A name that holds a placeholder is known at the site alone.
    let Some(name) = program.argv.first().and_then(|name| command::fill(name, |_| None).ok()) else { return Ok(()) };
    let directory = command::fill(&program.directory, |_| None).unwrap_or_default();
    let Ok(path) = program
        .environment
        .get("PATH")
        .map_or_else(|| Ok(workshop::search_path()), |path| command::fill(path, |_| None))
    else {
        return Ok(());
    };
    let file = match executable::located(&name, Path::new(&directory), &path) {
        Ok(file) => file,
        // It may be one of those that are brought, written or made first, or be next to this program.
        Err(_) if name.contains('/') || programs::missing(&name, "", &path).is_ok() => return Ok(()),
        Err(why) => return Err(why.to_string()),
    };
    let inherited = || std::env::var("ASAN_OPTIONS").ok();
    let options = program.environment.get("ASAN_OPTIONS").cloned().or_else(inherited).unwrap_or_default();
    let unfit = if executor == ExecutorKind::Microvm { executable::unfit_for_microvm(&file, &options) } else { None };
    unfit.map_or(Ok(()), Err)
}

/// What planning must know of servers that jobs are to start: in which places their programs are not installed. Whether there is any
/// such place. `server_of` is asked by workload.
pub fn limit_servers(
    plan: &Plan,
    limits: &mut Limits,
    server_of: fn(&str, &ResolvedArm) -> Option<ServerProgram>,
) -> bool {
    let (mut limited, none) = (false, Settings::new());
    for (index, arm) in plan.arms.iter().enumerate() {
        let workload = plan.workload_of(index);
        let Some(server) = server_of(workload, &arm.arm) else { continue };
        let settings = plan.environments.get(&arm.environment).unwrap_or(&none);
        if let Some(why) = lacks(&server, &arm.environment, settings) {
            limits.absent.insert(parameter_at(&arm.environment, workload, server.parameter, server.name), why);
            limited = true;
        }
    }
    limited
}

/// Why a server cannot be started in a place; `None` where it is installed, or where only an agent there can see that.
fn lacks(server: &ServerProgram, name: &str, settings: &Settings) -> Option<String> {
    let adapter = ADAPTERS.iter().find(|adapter| adapter.name == kind(name, settings));
    let root = match adapter.map_or(Files::OfThisMachine, |adapter| (adapter.files)(settings)) {
        Files::OfThisMachine => PathBuf::from("/"),
        Files::Below(root) => root,
        Files::Unknown => return None,
        Files::None(remedy) => {
            let instead = server.instead.map(|instead| format!(", or write {instead}")).unwrap_or_default();
            return Some(format!(
                "{} is not installed in {name}, which has no files but this program; {}{instead}",
                server.name,
                remedy(server.package)
            ));
        }
    };
    program_below(server, &root).err().map(|why| why.to_string())
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
    settable.iter().any(|knob| knob.default == Default::Required && !settings.contains_key(knob.key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::knob::InvalidValue;
    use baremark_model::site::{Missing, Site, SiteError};
    use baremark_services::service::sought;

    /// A place that is nowhere.
    struct Toy {
        wheels: u64,
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

    fn toy(request: MakeArguments<'_>) -> Result<Box<dyn Environment>, InvalidValue> {
        let wheels = match request.settings.get("wheels") {
            Some(Value::Count(wheels)) => *wheels,
            _ => 0,
        };
        Ok(Box::new(Toy { wheels }))
    }

    #[test]
    fn a_place_is_made_by_its_line_of_the_list_under_any_name_that_is_like_it() {
        let toys = [Adapter { name: "toy", make: toy, files: |_| Files::Unknown }];
        let settings =
            Settings::from([("like".to_owned(), Value::Choice("toy".into())), ("wheels".to_owned(), Value::Count(3))]);
        let made = |name: &str, settings: &Settings| {
            place_of(&toys, name, settings, PathBuf::new())
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
        let mariadb = &baremark_services::mariadb::Mariadb;
        let server = &sought(mariadb, "database", Some("database = \"sqlite\""));
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
        assert!(why.ends_with("or write database = \"sqlite\""), "{why}");
        let alone = sought(mariadb, "database", None);
        let why = lacks(&alone, "container", &Settings::new()).unwrap_or_default();
        assert!(why.contains("mariadb") && !why.contains("or write database"), "{why}");
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
        let own = ADAPTERS.iter().map(|adapter| adapter.name);
        let made: BTreeSet<&str> = own.chain(environments::names(|can| can.interleaves)).collect();
        assert_eq!(made, environments::NAMES.iter().copied().collect(), "the others are served by native");
    }
}
