//! A topology: which tiers of how many instances run where, with which settings, under which load.
//!
//! What a file says lies over the shipped defaults, what a level of a factor says over both. A [`Topology`] that was
//! resolved holds together: known keys, possible counts, tiers that fit each other.

mod defaults;
mod elastic;
mod load;
mod plan;

pub use self::defaults::DEFAULTS;
use self::defaults::DEFAULTS_FILE;
use self::elastic::elastic;
use self::load::{cpus, demand};
pub use self::plan::{Application, Environments, External, Networking, On, TierPlan, Topology};
pub use crate::demand::{Ceiling, Demand};
use crate::elastic::{Elastic, Fault, Wrong};
use baremark_model::config::{Layer, Reader, Section};
use baremark_model::environments::ALL;
use baremark_model::image;
use baremark_model::problem::{Problem, Problems, nearest};
use baremark_services::card::Tier;
use baremark_services::service::Service;
use baremark_services::settings::Settings;
use baremark_sys::confine::Limits;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Named sizes, each a text of settings between a topology's own and the defaults.
pub const CONFIGURATIONS: &[(&str, &str)] = &[
    ("micro", include_str!("../../../studies/auction/configurations/micro.toml")),
    ("small", include_str!("../../../studies/auction/configurations/small.toml")),
    ("medium", include_str!("../../../studies/auction/configurations/medium.toml")),
    ("large", include_str!("../../../studies/auction/configurations/large.toml")),
];
/// What `--quick` changes.
pub const QUICK: &str = include_str!("../../../studies/auction/quick.toml");

/// Environments whose settings a topology may give.
const ENVIRONMENTS: &[&str] = &["container", "qemu", "ssh"];
/// What of a container's settings is not its tier's own.
const OF_CONTAINERS: &[&str] = &["engine", "network"];

const ROOT: &[&str] = &[
    "topology",
    "balancer",
    "web",
    "app",
    "database",
    "bus",
    "load",
    "limits",
    "elastic",
    "faults",
    "services",
    "instances",
    "study",
    "environments",
    "variants",
];

/// Resolves a file over the defaults. `levels` are texts such as `app.on = "qemu"`, each a layer above the file.
///
/// # Errors
/// Every mistake, with its line and what would be right.
pub fn resolve(file: &str, text: &str, levels: &[String]) -> Result<Topology, Problems> {
    let (topology, reader) = resolved(file, text, levels)?;
    reader.finish()?;
    topology.ok_or_else(|| Problems { file: file.to_owned(), list: Vec::new() })
}

/// The same for a caller that knows where each level comes from.
///
/// # Errors
/// Every mistake of every layer, with `file` or the text of its level.
pub fn resolve_levels(file: &str, text: &str, levels: &[String]) -> Result<Topology, Vec<(String, Problem)>> {
    let named =
        |Problems { file, list }| list.into_iter().map(|problem| (String::clone(&file), problem)).collect::<Vec<_>>();
    let (topology, reader) = resolved(file, text, levels).map_err(named)?;
    let problems = reader.into_problems();
    topology.filter(|_| problems.is_empty()).ok_or(problems)
}

fn resolved(file: &str, text: &str, levels: &[String]) -> Result<(Option<Topology>, Reader), Problems> {
    let defaults = Layer::parse(DEFAULTS_FILE, DEFAULTS)?;
    let own = Layer::parse(file, text)?;
    let levels: Vec<Layer<'_>> = levels.iter().map(|level| Layer::level(level)).collect::<Result<_, _>>()?;
    let mut layers: Vec<&Layer<'_>> = levels.iter().collect();
    layers.push(&own);
    let chosen = configuration(&Section::root(&layers))?;
    layers.extend(&chosen);
    layers.push(&defaults);
    let mut reader = Reader::default();
    let topology = read(&mut reader, &Section::root(&layers));
    Ok((topology, reader))
}

/// The named size that a topology chooses; one that is not known is refused where the topology is read.
fn configuration(root: &Section<'_>) -> Result<Option<Layer<'static>>, Problems> {
    let mut reader = Reader::default();
    let own = reader.section(root, "topology");
    let name = reader.text(&root.clone().over(&own), "configuration");
    let found = CONFIGURATIONS.iter().find(|(known, _)| Some(*known) == name);
    found.map(|(name, text)| Layer::parse(&format!("the configuration {name}"), text)).transpose()
}

/// Keys of the application as a whole: at the top of a study's `[topology]`, in a section of that name of a topology file.
const HEAD: &[&str] = &[
    "title",
    "configuration",
    "seed",
    "keep",
    "folder",
    "variant",
    "data",
    "max_users",
    "history",
    "argon2",
    "images",
    "tls",
    "network",
];

fn head<'l>(reader: &mut Reader, root: &Section<'l>) -> Section<'l> {
    let own = reader.section(root, "topology");
    reader.known(&own, HEAD);
    root.clone().over(&own)
}

/// Whether `key` can be a key of a study's `[topology]`, such as `app.on`.
#[must_use]
pub fn has_key(key: &str) -> bool {
    let top = key.split('.').next().unwrap_or_default();
    let section = ROOT.contains(&top) && !["study", "variants"].contains(&top);
    (section && key.contains('.')) || HEAD.contains(&key)
}

/// Every mistake in the `[topology]` of a study.
#[must_use]
pub fn check_study(file: &str, text: &str) -> Vec<Problem> {
    let check = || -> Result<(), Problems> {
        let (defaults, own) = (Layer::parse(DEFAULTS_FILE, DEFAULTS)?, Layer::parse(file, text)?);
        let mut reader = Reader::default();
        let section = reader.section(&Section::root(&[&own]), "topology");
        let defaults = Section::root(&[&defaults]);
        let chosen = configuration(&section)?;
        let whole = section.clone().over(&Section::root(&chosen.iter().collect::<Vec<_>>())).over(&defaults);
        read(&mut reader, &whole);
        let variants = reader.section(&section, "variants");
        for name in variants.keys() {
            let variant = reader.section(&variants, &name).over(&section);
            let chosen = configuration(&variant)?;
            read(&mut reader, &variant.over(&Section::root(&chosen.iter().collect::<Vec<_>>())).over(&defaults));
        }
        reader.finish()
    };
    check().map_or_else(|problems| problems.list, |()| Vec::new())
}

fn read(reader: &mut Reader, root: &Section<'_>) -> Option<Topology> {
    reader.known(root, &[ROOT, HEAD].concat());
    let head = head(reader, root);
    let title = reader.text(&head, "title").unwrap_or_default().to_owned();
    if let Some(name) = reader.text(&head, "configuration").filter(|name| !name.is_empty()) {
        let known: Vec<&str> = CONFIGURATIONS.iter().map(|(known, _)| *known).collect();
        if !known.contains(&name) {
            reader.wrong(&head, "configuration", format!("unknown configuration '{name}'"), nearest(name, &known));
        }
    }
    let seed = reader.count(&head, "seed", (0, u64::MAX >> 1)).unwrap_or(1);
    let folder = reader.text(&head, "folder").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let keep = reader.text(&head, "keep").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    chosen_variant(reader, root, &head);
    let load = demand(reader, root);
    let environments = environments(reader, root);
    let instances = reader.section(root, "instances");
    let mut applications = Vec::new();
    if instances.keys().is_empty() {
        applications.extend(application(reader, "main", root));
    }
    for name in instances.keys() {
        let own = reader.section(&instances, &name);
        reader.known(
            &own,
            &[
                "topology", "balancer", "web", "app", "database", "bus", "elastic", "services", "load", "limits",
                "faults",
            ],
        );
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            reader.wrong(&instances, &name, format!("invalid instance name '{name}'"), "use letters and digits");
        }
        applications.extend(application(reader, &name, &own.over(root)));
    }
    settings_of_unused(reader, root, &applications);
    if applications.windows(2).any(|two| two[0].load.users.is_none() != two[1].load.users.is_none()) {
        let what = "some instances have users and for others the most are searched";
        reader.wrong(&instances, "load", what, "let all have load.users, or none");
    }
    Some(Topology { title, seed, folder, keep, applications, load: load?, environments })
}

/// Whether the variant that is chosen is described.
fn chosen_variant(reader: &mut Reader, root: &Section<'_>, head: &Section<'_>) {
    let variants = reader.section(root, "variants");
    let Some(name) = reader.text(head, "variant").filter(|name| !name.is_empty()) else { return };
    let known = variants.keys();
    if !known.contains(name) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let what = format!("this topology has no variant '{name}'");
        reader.wrong(head, "variant", what, nearest(name, &known));
    }
}

fn environments(reader: &mut Reader, root: &Section<'_>) -> Environments {
    let section = reader.section(root, "environments");
    reader.known(&section, ENVIRONMENTS);
    let places = ALL.iter().filter(|place| ENVIRONMENTS.contains(&place.name));
    places
        .map(|place| {
            let own = reader.section(&section, place.name);
            let container = place.name == "container";
            let knobs: Vec<_> =
                place.knobs().into_iter().filter(|knob| !container || OF_CONTAINERS.contains(&knob.key)).collect();
            reader.known(&own, &knobs.iter().map(|knob| knob.key).collect::<Vec<_>>());
            let values = reader.values(&knobs, &own);
            if container && values.get("network").is_some_and(|network| network.to_string() != "host") {
                let what = format!(
                    "containers on the network {}: tiers reach each other on that of this machine",
                    values["network"]
                );
                reader.wrong(&own, "network", what, "write network = \"host\"");
            }
            (place.name.to_owned(), values)
        })
        .collect()
}

/// Reads the settings of services that no tier uses, so that a mistake in them is told all the same.
fn settings_of_unused(reader: &mut Reader, root: &Section<'_>, applications: &[Application]) {
    let services = reader.section(root, "services");
    let kinds: Vec<&str> = baremark_services::all().iter().map(|service| service.kind()).collect();
    reader.known(&services, &kinds);
    let used =
        |kind: &str| applications.iter().flat_map(|of| of.tiers.values()).any(|plan| plan.service.kind() == kind);
    for service in baremark_services::all().iter().filter(|service| !used(service.kind())) {
        let section = reader.section(&services, service.kind());
        Settings::read(reader, service.kind(), service.knobs(), &[&section]);
    }
}

fn application(reader: &mut Reader, name: &str, root: &Section<'_>) -> Option<Application> {
    let head = head(reader, root);
    let elastic = elastic(reader, root);
    let mut tiers = BTreeMap::new();
    let mut words: BTreeMap<Tier, &str> = BTreeMap::new();
    for tier in Tier::ALL {
        let section = reader.section(root, tier.label());
        reader.known_by(&section, DEFAULTS_FILE, &["settings"]);
        let mut word = reader.text(&section, "service").unwrap_or_default();
        if tier == Tier::Bus {
            // What is before it says which one does.
            word = bus(word, words[&Tier::Database], most_apps(&tiers, &elastic));
        }
        words.insert(tier, word);
        if let Some(plan) = tier_plan(reader, tier, word, &section, root) {
            tiers.insert(tier, plan);
        }
    }
    let faults = reader.sections(root, "faults");
    let faults = faults.iter().filter_map(|entry| fault(reader, entry, &tiers)).collect();
    check_far(reader, root, &tiers, &elastic);
    let (database, bus) = (words[&Tier::Database], words[&Tier::Bus]);
    check_fit(reader, root, &tiers, (database, bus), &elastic);
    let max_users = reader.count(&head, "max_users", (75, 10_000_000));
    let database_folder = database_folder(reader, root, &tiers);
    let external = external(reader, root, &mut tiers, database);
    let kept_data = kept_data(reader, &head, &tiers);
    let mut load = demand(reader, root)?;
    load.utilization = utilization(reader, root, &tiers);
    Some(Application {
        name: name.to_owned(),
        max_users: max_users?,
        history: reader.share(&head, "history"),
        argon2: argon2(reader, &head)?.to_owned(),
        images: images(reader, &head).to_owned(),
        tls: tls(reader, &head, &tiers),
        network: network(reader, &head, &tiers),
        tiers,
        database_folder,
        kept_data,
        external,
        database: database.to_owned(),
        bus: bus.to_owned(),
        elastic,
        faults,
        load,
    })
}

/// Where the database keeps its files: on this machine, and for SQLite where the app server can reach them.
fn database_folder(reader: &mut Reader, root: &Section<'_>, tiers: &BTreeMap<Tier, TierPlan>) -> Option<PathBuf> {
    let section = reader.section(root, Tier::Database.label());
    let folder = reader.text(&section, "folder").filter(|folder| !folder.is_empty())?;
    let user = tiers.get(&Tier::Database).or_else(|| tiers.get(&Tier::App))?;
    let fits = match (&user.on, tiers.contains_key(&Tier::Database)) {
        (On::Native, _) | (On::Container(_), true) => true,
        (On::Container(_), false) | (On::Qemu | On::Ssh(_) | On::External(_), _) => false,
    };
    if !fits {
        let what = format!("folder = \"{folder}\" of a database whose files are used on {}", user.on);
        reader.wrong(&section, "folder", what, "leave folder out, or let it run natively");
    }
    if !PathBuf::from(folder).is_dir() {
        reader.wrong(&section, "folder", format!("'{folder}' is not a folder of this machine"), "create it first");
    }
    Some(PathBuf::from(folder))
}

/// The folder in which loaded data are kept: those of this machine's files.
fn kept_data(reader: &mut Reader, head: &Section<'_>, tiers: &BTreeMap<Tier, TierPlan>) -> Option<PathBuf> {
    let data = reader.text(head, "data").filter(|data| !data.is_empty())?;
    let Some(folder) = data.strip_prefix("keep:").filter(|folder| !folder.is_empty()) else {
        reader.wrong(
            head,
            "data",
            format!("'{data}' does not say what becomes of data"),
            "write data = \"keep:FOLDER\"",
        );
        return None;
    };
    if let Some(plan) = tiers.get(&Tier::Database).filter(|plan| !matches!(plan.on, On::Native | On::Container(_))) {
        let what = format!("data that are kept of a database on {}", plan.on);
        reader.wrong(head, "data", what, "let the database run natively or in a container");
    }
    if reader.text(head, "images") == Some("files") {
        let what = "data that are kept, and images in files";
        reader.wrong(head, "data", what, "write images = \"memory\" or \"database\"");
    }
    Some(PathBuf::from(folder))
}

/// Keys of the database that mean nothing on a server that is there already.
const OF_OUR_OWN: &[&str] = &["image", "port", "cpus", "memory", "open_files", "folder", "settings"];

/// The database on a server that is there already; its settings are not ours, and none are reported.
fn external(
    reader: &mut Reader,
    root: &Section<'_>,
    tiers: &mut BTreeMap<Tier, TierPlan>,
    database: &str,
) -> Option<External> {
    let section = reader.section(root, Tier::Database.label());
    let on = reader.text(&section, "on").unwrap_or_default();
    let text = |reader: &mut Reader, key: &str| reader.text(&section, key).unwrap_or_default();
    let (name, credentials) = (text(reader, "name"), text(reader, "credentials"));
    let Some(server) = on.strip_prefix("external:") else {
        for (key, typed) in [("name", name), ("credentials", credentials)] {
            if !typed.is_empty() {
                let what = format!("{key} of a database that is started here");
                reader.wrong(&section, key, what, "write on = \"external:HOST:PORT\", or leave it out");
            }
        }
        return None;
    };
    if database == "sqlite" {
        reader.wrong(&section, "on", "a SQLite file on a server", "write service = \"postgres\" or \"mariadb\"");
    }
    for key in OF_OUR_OWN.iter().filter(|key| section.has_over(DEFAULTS_FILE, key)) {
        let what = format!("{key} of a database that is not started here");
        reader.wrong(&section, key, what, "leave it out, or let the database run natively");
    }
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.len() > 48 || !name.bytes().all(plain) || name.starts_with("baremark_auction_") {
        let remedy = "use at most 48 of a to z, 0 to 9 and _, and not baremark_auction_ at its begin";
        reader.wrong(&section, "name", format!("'{name}' cannot be the name of the database"), remedy);
    }
    let plan = tiers.get_mut(&Tier::Database)?;
    plan.settings = Settings::default();
    Some(External {
        service: plan.service.kind(),
        server: server.to_owned(),
        name: name.to_owned(),
        credentials: Some(credentials).filter(|file| !file.is_empty()).map(PathBuf::from),
    })
}

/// The limits on the CPU time of tiers.
fn utilization(reader: &mut Reader, root: &Section<'_>, tiers: &BTreeMap<Tier, TierPlan>) -> BTreeMap<Tier, Ceiling> {
    let limits = reader.section(root, "limits");
    let section = reader.section(&limits, "utilization");
    let here = baremark_sys::affinity::allowed_cpus().map_or(1, |cpus| cpus.len());
    let mut ceilings = BTreeMap::new();
    for key in section.keys() {
        let Some((tier, plan)) = tiers.iter().find(|(tier, _)| tier.label() == key) else {
            let known: Vec<&str> = tiers.keys().map(|tier| tier.label()).collect();
            reader.wrong(&section, &key, format!("this topology has no tier '{key}'"), nearest(&key, &known));
            continue;
        };
        // Instances on this machine share the CPUs that are named; guests and other machines have them each.
        let times = if plan.on.is_far() { usize::try_from(plan.count).unwrap_or(1) } else { 1 };
        let own = plan.limits.cpus.len() * times;
        if matches!(plan.on, On::External(_)) {
            let what = format!("a limit on the CPUs of the {key} tier on {}", plan.on);
            reader.wrong(&section, &key, what, "leave it out: the CPU time of that server is not known");
        } else if own == 0 && plan.on.is_far() {
            let what = format!("a limit on the CPUs of the {key} tier on {}, which has none of its own", plan.on);
            reader.wrong(&section, &key, what, "give the tier cpus");
        }
        let cpus = if own > 0 { own } else { here };
        ceilings.insert(*tier, Ceiling { most: reader.share(&section, &key), cpus });
    }
    ceilings
}

fn fault(reader: &mut Reader, entry: &Section<'_>, tiers: &BTreeMap<Tier, TierPlan>) -> Option<Fault> {
    reader.known(entry, &["at", "tier", "index", "what", "down"]);
    let word = reader.text(entry, "tier").unwrap_or_default();
    let Some(tier) = Tier::ALL.into_iter().find(|tier| tier.label() == word && tiers.contains_key(tier)) else {
        let there: Vec<&str> = tiers.keys().map(|tier| tier.label()).collect();
        reader.wrong(entry, "tier", format!("this topology has no tier '{word}'"), nearest(word, &there));
        return None;
    };
    let down = entry.has("down").then(|| reader.seconds(entry, "down"));
    let what = match reader.text(entry, "what").unwrap_or_default() {
        "kill" => Wrong::Killed(down),
        "reload" => Wrong::Reloaded,
        other => {
            reader.wrong(entry, "what", format!("unknown fault '{other}'"), "write kill or reload");
            return None;
        }
    };
    if tier == Tier::Database && tiers[&tier].on.is_far() && matches!(what, Wrong::Killed(_)) {
        let what = format!("killing the database on {} would lose its data", tiers[&tier].on);
        reader.wrong(entry, "tier", what, "choose native or container for the database, or another tier");
    }
    if matches!(tiers[&tier].on, On::External(_)) {
        let what = format!("a fault of the database on {}", tiers[&tier].on);
        reader.wrong(entry, "tier", what, "choose another tier, or let the database run natively");
    }
    let index = reader.count(entry, "index", (0, 63)).unwrap_or(0);
    Some(Fault { at_s: reader.seconds(entry, "at"), tier, index: usize::try_from(index).unwrap_or(0), what })
}

fn tls(reader: &mut Reader, head: &Section<'_>, tiers: &BTreeMap<Tier, TierPlan>) -> bool {
    let tls = reader.switch(head, "tls").unwrap_or(false);
    if tls && ![Tier::Balancer, Tier::Web].iter().any(|tier| tiers.contains_key(tier)) {
        reader.wrong(
            head,
            "tls",
            "no server to terminate TLS",
            "add a balancer or a web server: --set web.service=nginx",
        );
    }
    tls
}

fn network(reader: &mut Reader, head: &Section<'_>, tiers: &BTreeMap<Tier, TierPlan>) -> Networking {
    let lab = reader.choice(head, "network", &["host", "lab"]) == Some(1);
    let far = tiers.iter().find(|(_, plan)| plan.on.is_far() && plan.on != On::Qemu).filter(|_| lab);
    if let Some((tier, plan)) = far {
        let what = format!("network = \"lab\" and the tier {} on {}", tier.label(), plan.on);
        reader.wrong(head, "network", what, "let all tiers be native, container or qemu, or write network = \"host\"");
    }
    if lab { Networking::Lab } else { Networking::Host }
}

/// The most memory of Argon2id in KiB (RFC 9106 recommends up to that), and the most that its passes may go over in all.
const ARGON2_KIB: u64 = 2 << 20;
const ARGON2_KIB_IN_ALL: u64 = 8 << 20;

/// What checking a password costs: KiB and passes.
fn argon2<'l>(reader: &mut Reader, head: &Section<'l>) -> Option<&'l str> {
    let text = reader.text(head, "argon2")?;
    let cost = || {
        let (memory, passes) = text.split_once(',')?;
        Some((memory.trim().parse::<u64>().ok()?, passes.trim().parse::<u64>().ok()?))
    };
    let possible = cost().is_some_and(|(memory, passes)| {
        (8..=ARGON2_KIB).contains(&memory) && passes > 0 && passes <= ARGON2_KIB_IN_ALL / memory
    });
    if !possible {
        let remedy = format!(
            "write KiB of memory and passes, such as 19456,2: 8 to {ARGON2_KIB} KiB, times passes at most {ARGON2_KIB_IN_ALL}"
        );
        reader.wrong(head, "argon2", format!("argon2: '{text}' is not a possible cost"), remedy);
    }
    Some(text)
}

fn images(reader: &mut Reader, head: &Section<'_>) -> &'static str {
    const WORDS: [&str; 3] = ["memory", "database", "files"];
    reader.choice(head, "images", &WORDS).map_or("", |at| WORDS[at])
}

fn most_apps(tiers: &BTreeMap<Tier, TierPlan>, elastic: &Elastic) -> u64 {
    tiers.get(&Tier::App).map_or(0, |plan| plan.count).max(elastic.most(Tier::App))
}

/// `auto` is the least that does: nothing for one server, the database's own where it has one, else Redis.
fn bus<'l>(word: &'l str, database: &str, apps: u64) -> &'l str {
    match word {
        "auto" if apps <= 1 => "process",
        "auto" if database == "postgres" => "postgres",
        "auto" => "redis",
        other => other,
    }
}

/// Words that name no service with an instance.
const WITHOUT: &[(Tier, &[&str])] = &[
    (Tier::Balancer, &["none"]),
    (Tier::Web, &["none"]),
    (Tier::App, &[]),
    (Tier::Database, &["sqlite"]),
    (Tier::Bus, &["auto", "process", "postgres"]),
];

fn tier_plan(
    reader: &mut Reader,
    tier: Tier,
    word: &str,
    section: &Section<'_>,
    root: &Section<'_>,
) -> Option<TierPlan> {
    let without = WITHOUT.iter().find(|(of, _)| *of == tier).map_or(&[][..], |(_, words)| words);
    let count = reader.count(section, "count", (0, 64)).unwrap_or(1);
    if without.contains(&word) || (count == 0 && tier != Tier::App) {
        return None;
    }
    let services: Vec<&'static dyn Service> =
        baremark_services::all().iter().copied().filter(|service| service.tiers().contains(&tier)).collect();
    let Some(service) = services.iter().copied().find(|service| service.kind() == word) else {
        let mut valid: Vec<&str> = services.iter().map(|service| service.kind()).collect();
        valid.extend(without);
        reader.wrong(
            section,
            "service",
            format!("the {} tier has no service '{word}'", tier.label()),
            nearest(word, &valid),
        );
        return None;
    };
    if matches!(tier, Tier::Database | Tier::Bus) && count > 1 {
        let what = format!("{count} instances of the tier {}", tier.label());
        reader.wrong(section, "count", what, "this tier has one instance; several applications have one each");
    }
    if tier == Tier::App && count == 0 {
        reader.wrong(section, "count", "an application without app servers", "write count = 1 or more");
    }
    let common = {
        let services = reader.section(root, "services");
        reader.section(&services, service.kind())
    };
    let own = reader.section(section, "settings");
    let settings = Settings::read(reader, service.kind(), service.knobs(), &[&common, &own]);
    Some(TierPlan {
        service,
        count,
        on: on(reader, section, tier),
        port: reader.count(section, "port", (0, 65_535)).and_then(|port| u16::try_from(port).ok()).unwrap_or(0),
        limits: Limits {
            cpus: cpus(reader, section),
            memory_bytes: reader.bytes(section, "memory").filter(|bytes| *bytes > 0),
            open_files: reader.count(section, "open_files", (0, 1 << 30)).filter(|files| *files > 0),
        },
        settings,
    })
}

fn on(reader: &mut Reader, section: &Section<'_>, tier: Tier) -> On {
    let word = reader.text(section, "on").unwrap_or_default();
    let image = reader.text(section, "image").filter(|image| !image.is_empty());
    if let Some(Err(why)) = image.map(image::check) {
        reader.wrong(section, "image", why.what, why.remedy);
    }
    match word {
        "native" => On::Native,
        "container" => On::Container(image.map(str::to_owned)),
        "qemu" => On::Qemu,
        other if other.starts_with("external:") => {
            let server = other.trim_start_matches("external:");
            let port = server.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
            if port.and_then(|port| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
                reader.wrong(section, "on", format!("'{other}' names no server"), "write external:HOST:PORT");
            }
            if tier != Tier::Database {
                let what = format!("the tier {} on a server that is there already", tier.label());
                reader.wrong(section, "on", what, "only the database can be external");
            }
            On::External(server.to_owned())
        }
        other => match other.strip_prefix("ssh:").filter(|host| !host.is_empty()) {
            Some(host) => On::Ssh(host.to_owned()),
            None => {
                let remedy = nearest(other, &["native", "container", "qemu", "ssh:HOST", "external:HOST:PORT"]);
                reader.wrong(section, "on", format!("unknown environment '{other}'"), remedy);
                On::Native
            }
        },
    }
}

/// Whether the tiers can work together.
fn check_fit(
    reader: &mut Reader,
    root: &Section<'_>,
    tiers: &BTreeMap<Tier, TierPlan>,
    (database, bus): (&str, &str),
    elastic: &Elastic,
) {
    let apps = most_apps(tiers, elastic);
    let app = reader.section(root, "app");
    let buses = reader.section(root, "bus");
    if database == "sqlite" && apps > 1 {
        reader.wrong(
            &app,
            "count",
            format!("{apps} app servers on one SQLite file"),
            "choose postgres or mariadb as the database: --set database.service=postgres",
        );
    }
    if bus == "process" && apps > 1 {
        reader.wrong(
            &buses,
            "service",
            format!("the bus 'process' for {apps} app servers"),
            "choose postgres, redis or auto: --set bus.service=auto",
        );
    }
    if bus == "postgres" && database != "postgres" {
        reader.wrong(
            &buses,
            "service",
            format!("the bus 'postgres' with the database {database}"),
            "choose redis: --set bus.service=redis",
        );
    }
    let front = tiers.contains_key(&Tier::Balancer);
    let webs = tiers.get(&Tier::Web).map_or(0, |plan| plan.count).max(elastic.most(Tier::Web));
    if apps > 1 && webs == 0 && !front {
        reader.wrong(
            &app,
            "count",
            format!("{apps} app servers without a load balancer"),
            "add a web server or a balancer: --set web.service=nginx, or balancer.service = \"haproxy\" in the file",
        );
    }
    if webs > 1 && !front {
        let web = reader.section(root, "web");
        reader.wrong(
            &web,
            "count",
            format!("{webs} web servers without a load balancer"),
            "add a balancer: --set balancer.service=haproxy",
        );
    }
}

/// Whether tiers in guests and on other machines can do what is asked of them.
fn check_far(reader: &mut Reader, root: &Section<'_>, tiers: &BTreeMap<Tier, TierPlan>, elastic: &Elastic) {
    let far = |tier: Tier| tiers.get(&tier).filter(|plan| plan.on.is_far());
    let head = head(reader, root);
    if let Some(plan) = far(Tier::App) {
        if !tiers.contains_key(&Tier::Database) {
            let what = format!("app servers on {} and a database that is a file of this machine", plan.on);
            let app = reader.section(root, "app");
            reader.wrong(
                &app,
                "on",
                what,
                "choose postgres or mariadb as the database: --set database.service=postgres",
            );
        }
        if reader.text(&head, "images") == Some("files") {
            let what = format!("images in files of this machine and app servers on {}", plan.on);
            reader.wrong(&head, "images", what, "choose memory or database");
        }
    }
    // Ports lead to another machine from the start of the instance that needs them.
    let behind_balancer = if tiers.contains_key(&Tier::Web) { Tier::Web } else { Tier::App };
    for (tier, behind) in [(Tier::Balancer, behind_balancer), (Tier::Web, Tier::App)] {
        let Some(plan) = far(tier).filter(|plan| matches!(plan.on, On::Ssh(_))) else { continue };
        if elastic.most(behind) > 0 {
            let what = format!("servers that come and go behind the tier {} on {}", tier.label(), plan.on);
            let own = reader.section(root, tier.label());
            reader.wrong(&own, "on", what, "choose native, container or qemu for it, or a fixed number of servers");
        }
    }
}
