//! Where studies come from: a file that the user names, or one of those that are built into the program.

use crate::exit::Refusal;
use crate::watch::say;
use baremark_model::codes::Origin;
use baremark_model::problem::near;
use baremark_model::published;
use baremark_model::study::LONGEST_STUDY;
use baremark_model::units::Bytes;
use baremark_sys::machine::Recorded;
use baremark_workloads::stream;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A study that ships with the program.
pub struct Shipped {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// All of them; the first is what `baremark` alone runs.
pub const SHIPPED: &[Shipped] = &[
    Shipped { name: "standard", text: include_str!("../../../studies/standard.toml") },
    Shipped { name: "stream", text: include_str!("../../../studies/stream.toml") },
    Shipped { name: "star-random-access", text: include_str!("../../../studies/star-random-access.toml") },
    Shipped { name: "hpl", text: include_str!("../../../studies/hpl.toml") },
    Shipped { name: "hpc-memory-2010", text: include_str!("../../../studies/hpc-memory-2010.toml") },
    Shipped { name: "mmu-micro", text: include_str!("../../../studies/mmu-micro.toml") },
    Shipped { name: "page-walks", text: include_str!("../../../studies/page-walks.toml") },
    Shipped { name: "calibrate", text: include_str!("../../../studies/calibrate.toml") },
    Shipped { name: "places", text: include_str!("../../../studies/places.toml") },
    Shipped { name: "consolidation", text: include_str!("../../../studies/consolidation.toml") },
    Shipped { name: "consolidation-guests", text: include_str!("../../../studies/consolidation-guests.toml") },
    Shipped { name: "hpcc", text: include_str!("../../../studies/hpcc.toml") },
    Shipped { name: "lammps-melt", text: include_str!("../../../studies/lammps-melt.toml") },
    Shipped { name: "gromacs-mpi", text: include_str!("../../../studies/gromacs-mpi.toml") },
    Shipped { name: "gromacs-water", text: include_str!("../../../studies/gromacs-water.toml") },
    Shipped { name: "sysbench-cpu", text: include_str!("../../../studies/sysbench-cpu.toml") },
    Shipped { name: "sysbench-memory", text: include_str!("../../../studies/sysbench-memory.toml") },
    Shipped { name: "sysbench-threads", text: include_str!("../../../studies/sysbench-threads.toml") },
    Shipped { name: "stress-ng", text: include_str!("../../../studies/stress-ng.toml") },
    Shipped { name: "fio", text: include_str!("../../../studies/fio.toml") },
    Shipped { name: "block", text: include_str!("../../../studies/block.toml") },
    Shipped { name: "provision", text: include_str!("../../../studies/provision.toml") },
    Shipped { name: "provision-layers", text: include_str!("../../../studies/provision-layers.toml") },
    Shipped { name: "iperf3", text: include_str!("../../../studies/iperf3.toml") },
    Shipped { name: "order-entry", text: include_str!("../../../studies/order-entry.toml") },
    Shipped { name: "order-entry-cpus", text: include_str!("../../../studies/order-entry-cpus.toml") },
    Shipped { name: "dvd-store", text: include_str!("../../../studies/dvd-store.toml") },
    Shipped { name: "management-db", text: include_str!("../../../studies/management-db.toml") },
    Shipped { name: "oltp-hammer", text: include_str!("../../../studies/oltp-hammer.toml") },
    Shipped { name: "redis", text: include_str!("../../../studies/redis.toml") },
    Shipped { name: "ping-pong", text: include_str!("../../../studies/ping-pong.toml") },
    Shipped { name: "offloads", text: include_str!("../../../studies/offloads.toml") },
    Shipped { name: "mtu", text: include_str!("../../../studies/mtu.toml") },
    Shipped { name: "mpi-latency", text: include_str!("../../../studies/mpi-latency.toml") },
    Shipped { name: "compile-apache", text: include_str!("../../../studies/compile-apache.toml") },
    Shipped { name: "jvm-warehouse", text: include_str!("../../../studies/jvm-warehouse.toml") },
    Shipped { name: "mmu-assist-2009", text: include_str!("../../../studies/mmu-assist-2009.toml") },
    Shipped { name: "mmu-guests", text: include_str!("../../../studies/mmu-guests.toml") },
    Shipped { name: "wakeup", text: include_str!("../../../studies/wakeup.toml") },
    Shipped { name: "start-up", text: include_str!("../../../studies/start-up.toml") },
    Shipped { name: "density", text: include_str!("../../../studies/density.toml") },
    Shipped { name: "mitigations", text: include_str!("../../../studies/mitigations.toml") },
    Shipped { name: "runtimes", text: include_str!("../../../studies/runtimes.toml") },
    Shipped { name: "seccomp", text: include_str!("../../../studies/seccomp.toml") },
    Shipped { name: "sessions", text: include_str!("../../../studies/sessions.toml") },
    Shipped { name: "auction", text: include_str!("../../../studies/auction.toml") },
    Shipped { name: "auction-bursts", text: include_str!("../../../studies/auction-bursts.toml") },
    Shipped { name: "auction-databases", text: include_str!("../../../studies/auction-databases.toml") },
    Shipped { name: "auction-elastic", text: include_str!("../../../studies/auction-elastic.toml") },
    Shipped { name: "auction-network", text: include_str!("../../../studies/auction-network.toml") },
    Shipped { name: "auction-places", text: include_str!("../../../studies/auction-places.toml") },
    Shipped { name: "auction-tiers", text: include_str!("../../../studies/auction-tiers.toml") },
    Shipped { name: "load", text: include_str!("../../../studies/load.toml") },
    Shipped { name: "web-farm-dense", text: include_str!("../../../studies/web-farm-dense.toml") },
    Shipped { name: "web-farm-dense-controls", text: include_str!("../../../studies/web-farm-dense-controls.toml") },
    Shipped { name: "stretched", text: include_str!("../../../studies/stretched.toml") },
    Shipped { name: "stretched-mechanisms", text: include_str!("../../../studies/stretched-mechanisms.toml") },
    Shipped { name: "stretched-nbd", text: include_str!("../../../studies/stretched-nbd.toml") },
    Shipped { name: "protection", text: include_str!("../../../studies/protection.toml") },
    Shipped { name: "protection-microvm", text: include_str!("../../../studies/protection-microvm.toml") },
    Shipped { name: "tile", text: include_str!("../../../studies/tile.toml") },
    Shipped { name: "web-farm", text: include_str!("../../../studies/web-farm.toml") },
    Shipped { name: "gpu", text: include_str!("../../../studies/gpu.toml") },
    Shipped { name: "monster-vms", text: include_str!("../../../studies/monster-vms.toml") },
    Shipped { name: "mmu-modes", text: include_str!("../../../studies/mmu-modes.toml") },
    Shipped { name: "monster-guests", text: include_str!("../../../studies/monster-guests.toml") },
    Shipped { name: "hpl-40000", text: include_str!("../../../studies/hpl-40000.toml") },
    Shipped { name: "numa-threads", text: include_str!("../../../studies/numa-threads.toml") },
    Shipped { name: "numa", text: include_str!("../../../studies/numa.toml") },
];

/// A complete study of one's own programs, which `baremark init` prints.
pub const EXAMPLE: &str = include_str!("../../../docs/example-command.toml");

/// A study's text, and the name by which messages call it.
pub struct Source {
    /// The file as the user named it, or the shipped study's name.
    pub name: String,
    /// Its bytes; whether they are text is the parser's business.
    pub bytes: Vec<u8>,
    /// How far the command line has changed it.
    pub changed: Changed,
    /// The options that gave a value in it, as they were typed: each with the place of its key, from the outermost section.
    pub given: Vec<(Vec<String>, String)>,
}

/// How far a study was changed from the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Changed {
    /// It is as it was written.
    #[default]
    No,
    /// For how long and how precisely it measures.
    Design,
    /// What it measures.
    Work,
}

impl Source {
    /// A study as it was written.
    pub fn new(name: String, bytes: Vec<u8>) -> Self {
        Source { name, bytes, changed: Changed::No, given: Vec::new() }
    }

    /// The name by which its run is stored. What was changed is in the study's text.
    pub fn stored_name(&self) -> String {
        if self.changed == Changed::No { self.name.clone() } else { format!("{}{}", self.name, Origin::CHANGED) }
    }

    /// Whether it came with the program: under the name of a shipped study, and nobody's file.
    pub fn is_shipped(&self) -> bool {
        self.changed != Changed::Work
            && SHIPPED.iter().any(|study| study.name == self.name)
            && (Path::new(&self.name).is_dir() || !Path::new(&self.name).exists())
    }
}

/// The study that the user named: a file if there is one by that name, else a shipped study. A folder is neither: who has fetched fio or redis has one
/// by the name of a shipped study.
pub fn find(named: &str) -> Result<Source, Refusal> {
    let path = Path::new(named);
    if path.is_dir() {
        if !SHIPPED.iter().any(|study| study.name == named) {
            return Err(Refusal::bad_input(format!("{named} is a folder; name a study file in it")));
        }
    } else if path.exists() {
        let bytes = read(path).map_err(|why| Refusal::bad_input(format!("reading {named}: {why}")))?;
        if bytes.len() > LONGEST_STUDY {
            let most = Bytes(LONGEST_STUDY as u64);
            return Err(Refusal::bad_input(format!("{named} has more than {most}; a study is a short TOML file")));
        }
        return Ok(Source::new(named.to_owned(), bytes));
    }
    shipped_by_name(named)
}

/// The study of that name that ships with the program, or that measures the published table of that name, sized for this machine.
pub fn shipped_by_name(named: &str) -> Result<Source, Refusal> {
    let of_that_name = |name: &str| SHIPPED.iter().find(|study| study.name == name);
    let study =
        of_that_name(named).or_else(|| of_that_name(published::study_of(named)?)).ok_or_else(|| no_study(named))?;
    let (text, scaled) = sized(study.text, &Here::now()?);
    scaled.iter().for_each(|what| say(format_args!("{}: {what}", study.name)));
    Ok(Source::new(study.name.to_owned(), text.into_bytes()))
}

/// Has the recorded machine at `path` planned for in place of this one, as long as the result lives.
pub fn machine(path: &Path) -> Result<Recorded, Refusal> {
    let wrong = |why| format!("--machine {}: {why}; scripts/record-machine makes one", path.display());
    Recorded::choose(path).map_err(|why| Refusal::bad_input(wrong(why)))
}

fn no_study(named: &str) -> Refusal {
    if let Some(publication) = published::of(named) {
        let why = publication.blank.as_deref().unwrap_or("no shipped study measures it");
        return Refusal::missing(format!("{named} cannot be run: {why}; `baremark list published` names the others"));
    }
    let names: Vec<&str> = SHIPPED.iter().map(|study| study.name).collect();
    let hint = match near(named, &names) {
        Some(name) => format!("did you mean '{name}'?"),
        None => "`baremark list studies` says what each shipped one answers".to_owned(),
    };
    Refusal::bad_input(format!("there is no file and no shipped study '{named}'; {hint}"))
}

/// What the sizes of a shipped study depend on.
struct Here {
    memory: Bytes,
    cpus: usize,
    /// All last-level caches together; `None` where the machine does not tell.
    caches: Option<Bytes>,
}

impl Here {
    fn now() -> Result<Here, Refusal> {
        let memory = baremark_sys::process::available_memory_bytes()
            .map_err(|why| Refusal::failure(format!("asking how much memory is available: {why}")))?;
        let cpus = baremark_sys::topology::usable_cpus()
            .map_err(|why| Refusal::failure(format!("asking which CPUs may be used: {why}")))?;
        Ok(Here { memory: Bytes(memory), cpus: cpus.len(), caches: stream::caches().map(Bytes) })
    }

    /// Whether `memory >= 8 GiB`, `cpus >= 4`, `cpus <= 256` and `caches <= 190 MiB` hold, as many as `and` joins; `None` where one is
    /// none of them.
    fn holds(&self, condition: &str) -> Option<bool> {
        condition.split(" and ").map(|one| self.holds_alone(one)).try_fold(true, |all, one| Some(all & one?))
    }

    fn holds_alone(&self, condition: &str) -> Option<bool> {
        let mut words = condition.splitn(3, ' ');
        match (words.next()?, words.next()?, words.next()?) {
            ("memory", ">=", least) => Some(self.memory >= least.parse::<Bytes>().ok()?),
            ("cpus", ">=", least) => Some(self.cpus >= least.parse().ok()?),
            ("cpus", "<=", most) => Some(self.cpus <= most.parse().ok()?),
            // Of unknown caches a workload says itself that it cannot follow them.
            ("caches", "<=", most) => {
                let most = most.parse::<Bytes>().ok()?;
                Some(self.caches.is_none_or(|caches| caches <= most))
            }
            _ => None,
        }
    }

    /// A size in place of a published one: `cpus` for their number, `4 caches` for four times all last-level caches together, else as it
    /// is written. `None` where the caches are unknown.
    fn scaled(&self, smaller: &str) -> Option<String> {
        match smaller {
            "cpus" => Some(self.cpus.to_string()),
            "4 caches" => self.caches.map(|caches| format!("\"{}\"", Bytes(4 * caches.0))),
            size => Some(size.to_owned()),
        }
    }
}

/// The text of a shipped study with the sizes that this machine can have, and what was scaled. A published size that does not fit every
/// machine is written `key = PUBLISHED # scaled = OTHER unless CONDITION`; for conditions and other sizes see [`Here`].
fn sized(text: &str, here: &Here) -> (String, Vec<String>) {
    let mut scaled = Vec::new();
    let lines: Vec<String> = text.lines().map(|line| sized_line(line, here, &mut scaled)).collect();
    (lines.join("\n") + "\n", scaled)
}

fn sized_line(line: &str, here: &Here, scaled: &mut Vec<String>) -> String {
    let parts = || {
        let (setting, rule) = line.split_once("# scaled = ")?;
        let (smaller, condition) = rule.split_once(" unless ")?;
        let (key, published) = setting.split_once(" = ")?;
        if here.holds(condition)? {
            return None;
        }
        Some((key, published.trim(), here.scaled(smaller)?, condition))
    };
    let Some((key, published, smaller, condition)) = parts() else { return line.to_owned() };
    scaled.push(format!("{key} = {smaller} in place of the published {published}, which takes {condition}"));
    format!("{key} = {smaller}")
}

/// What is in a file, up to one byte more than a study may have: a device or a pipe has no end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST_STUDY as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A shipped study as a source.
pub fn shipped(study: &Shipped) -> Source {
    Source::new(study.name.to_owned(), study.text.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{descriptors, descriptors_of};
    use baremark_lab::analysis::{self, Run};
    use baremark_model::descriptor::Descriptor;
    use baremark_model::document::{EstimateRow, Outcome, RatioRow, Size};
    use baremark_model::machine::MachineFacts;
    use baremark_model::plan::{Limits, Mode, Plan, resolve};
    use baremark_model::study;
    use baremark_model::units::UnixTime;
    use baremark_report::{Style, summary};
    use std::collections::{BTreeMap, BTreeSet};

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    /// The expected text of a small machine, and of one that has all.
    #[test]
    fn published_sizes_are_kept_where_the_machine_has_them() {
        const TEXT: &str = "table = \"8 GiB\"   # scaled = \"256 MiB\" unless memory >= 24 GiB\nranks = 4 # scaled = cpus unless cpus >= 4\nn = 3\n";
        let small = Here { memory: Bytes(24 * GIB - 1), cpus: 2, caches: None };
        let (text, scaled) = sized(TEXT, &small);
        assert_eq!(text, "table = \"256 MiB\"\nranks = 2\nn = 3\n");
        assert_eq!(scaled[0], "table = \"256 MiB\" in place of the published \"8 GiB\", which takes memory >= 24 GiB");
        assert_eq!(scaled.len(), 2);
        let large = Here { memory: Bytes(24 * GIB), cpus: 4, caches: None };
        assert_eq!(sized(TEXT, &large), (TEXT.to_owned(), Vec::new()));
    }

    #[test]
    fn an_array_follows_the_last_level_caches_where_the_published_one_is_too_small() {
        const TEXT: &str = "array = \"800000000 B\" # scaled = 4 caches unless memory >= 8 GiB and caches <= 190 MiB\n";
        let array = |memory, caches: Option<u64>| {
            sized(TEXT, &Here { memory: Bytes(memory), cpus: 2, caches: caches.map(Bytes) }).0
        };
        assert_eq!(array(8 * GIB, Some(190 * MIB)), TEXT);
        assert_eq!(array(8 * GIB, Some(191 * MIB)), "array = \"764 MiB\"\n");
        assert_eq!(array(64 * GIB, Some(1152 * MIB)), "array = \"4608 MiB\"\n");
        assert_eq!(array(GIB, Some(16 * MIB)), "array = \"64 MiB\"\n");
        assert_eq!(array(GIB, Some(1000)), "array = \"4000 B\"\n");
        assert_eq!(array(GIB, None), TEXT, "no size follows what is not known");
    }

    /// A rule that is not understood would leave the published size on a machine that has not the memory for it.
    #[test]
    fn every_rule_of_a_shipped_study_is_understood() {
        let nothing = Here { memory: Bytes(0), cpus: 1, caches: Some(Bytes(1 << 40)) };
        let everything = Here { memory: Bytes(0), cpus: 1 << 20, caches: Some(Bytes(1 << 40)) };
        for study in SHIPPED {
            let (text, scaled) = sized(study.text, &nothing);
            let (more, also) = sized(&text, &everything);
            assert_eq!(scaled.len() + also.len(), study.text.matches("# scaled = ").count(), "{}", study.name);
            assert!(!more.contains("# scaled = "), "{}", study.name);
        }
    }

    /// What is wrong with a study on a machine of so many CPUs and so much memory, with and without a virtual machine; nothing where it
    /// can be planned.
    fn problems(study: &Shipped, cpus: usize, memory: u64) -> Vec<String> {
        // STREAM looks at the caches of the machine that this runs on.
        let here = Here { memory: Bytes(memory), cpus, caches: stream::caches().map(Bytes) };
        let (text, _) = sized(study.text, &here);
        let parsed = study::parse(study.name, text.as_bytes(), &descriptors()).expect(study.name);
        let all = Limits { cpus: (0..cpus).collect(), memory_available: here.memory, ..Limits::default() };
        let absent = BTreeMap::from([("microvm".to_owned(), "there is no /dev/kvm".to_owned())]);
        let without = Limits { absent, ..all.clone() };
        let of = |limits: &Limits| resolve(study.name, &parsed, limits, Mode::default()).err();
        let found = [of(&all), of(&without)].into_iter().flatten();
        found
            .flat_map(|problems| problems.list)
            .map(|problem| format!("{}; {}", problem.what, problem.remedy))
            .collect()
    }

    /// What a machine may lack, in the words of a refusal.
    const LACKS: &[&str] = &[
        " of memory in one trial, and ",
        " of memory, and ",
        " ranks need a CPU each, and this process may use ",
        "cache sizes are unknown on this machine",
        "there is no /dev/kvm",
    ];

    #[test]
    fn every_shipped_study_is_planned_on_any_number_of_cpus_or_says_what_is_lacking() {
        let mut odd = Vec::new();
        for cpus in [1, 3, 6, 12, 48, 96, 256, 960] {
            for memory in [GIB, 4096 * GIB] {
                for study in SHIPPED {
                    let found = problems(study, cpus, memory).into_iter();
                    let found = found.filter(|problem| !LACKS.iter().any(|lacks| problem.contains(lacks)));
                    odd.extend(found.map(|problem| format!("{} on {cpus} CPUs: {problem}", study.name)));
                }
            }
        }
        assert!(odd.is_empty(), "{odd:#?}");
    }

    /// The arms of the standard study on a machine that lacks these environments and whose sandbox lacks these layers: environments that run, and
    /// those that do not, in order.
    fn standard(absent: &[(&str, &str)], lacks: &str) -> (Vec<String>, Vec<String>, Plan) {
        let parsed = study::parse("standard", SHIPPED[0].text.as_bytes(), &descriptors()).expect("it ships");
        let owned = |(name, why): &(&str, &str)| ((*name).to_owned(), (*why).to_owned());
        let found = BTreeMap::from([("lacks".to_owned(), vec![lacks.to_owned()])]);
        let limits = Limits {
            cpus: vec![0, 1],
            memory_available: Bytes(4096 * GIB),
            absent: absent.iter().map(owned).collect(),
            found: BTreeMap::from([("sandbox".to_owned(), found)]),
            ..Limits::default()
        };
        let plan = resolve("standard", &parsed, &limits, Mode::default()).expect("it is planned");
        let mut runs: Vec<String> = plan.arms.iter().map(|arm| arm.environment.clone()).collect();
        let mut misses: Vec<String> = plan.absent.iter().map(|of| of.treatment["environment"].clone()).collect();
        runs.dedup();
        misses.dedup();
        (runs, misses, plan)
    }

    const DENIED: &str = "/dev/kvm may not be opened: add the user to group kvm";

    #[test]
    fn the_standard_study_compares_native_with_what_the_machine_lets_it_start() {
        let kinds = |all: &[String]| all.iter().cloned().collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>();
        let of = |absent: &[(&str, &str)], lacks: &str| {
            let (runs, misses, _) = standard(absent, lacks);
            (kinds(&runs).join(" "), kinds(&misses).join(" "))
        };
        let taken = |runs: &str, misses: &str| (runs.to_owned(), misses.to_owned());
        // Root with KVM; of the microVM the kernel's page-table work alone is missing.
        assert_eq!(of(&[], ""), taken("microvm native", "microvm"));
        // Where there is a sandbox alone nothing is compared with native memory over contiguous frames. An ordinary user, and a container of an engine's default rights.
        assert_eq!(of(&[("microvm", DENIED)], ""), taken("native sandbox", "microvm native"));
        assert_eq!(
            of(&[("microvm", "/dev/kvm does not exist")], "pid (mounting /proc)"),
            taken("native sandbox", "microvm native")
        );
        // Another device by the name of /dev/kvm.
        assert_eq!(of(&[("microvm", "/dev/kvm is not a KVM device")], ""), taken("native sandbox", "microvm native"));
        // User namespaces forbidden: by the filter alone; without one nothing but native is left.
        assert_eq!(
            of(&[("microvm", DENIED)], "user (No space left on device)"),
            taken("native sandbox", "microvm native")
        );
        assert_eq!(of(&[("microvm", DENIED), ("sandbox", "refused")], ""), taken("native", "microvm sandbox"));
    }

    /// Where no engine is installed a study that needs no more than a container's isolation has a ratio all the same.
    #[test]
    fn studies_of_containers_compare_with_a_sandbox_where_there_is_no_engine() {
        let ratios = |name: &str, lacks: &[&str]| {
            let shipped = SHIPPED.iter().find(|study| study.name == name).expect(name);
            let parsed = study::parse(name, shipped.text.as_bytes(), &descriptors()).expect(name);
            let absent = lacks.iter().map(|level| ((*level).to_owned(), "no engine".to_owned())).collect();
            let limits = Limits { cpus: vec![0, 1], memory_available: Bytes(8 * GIB), absent, ..Limits::default() };
            let plan = resolve(name, &parsed, &limits, Mode::default()).expect(name);
            let pairs = plan.pairs.iter().filter(|pair| pair.asked);
            pairs.map(|pair| plan.arms[pair.numerator].environment.clone()).collect::<BTreeSet<String>>()
        };
        let databases = ["order-entry", "dvd-store", "oltp-hammer", "management-db"];
        let programs = [
            "mitigations",
            "wakeup",
            "mmu-guests",
            "consolidation-guests",
            "jvm-warehouse",
            "sessions",
            "compile-apache",
        ];
        for name in databases.into_iter().chain(programs) {
            assert!(ratios(name, &["container", "qemu"]).contains("sandbox"), "{name}");
            assert!(!ratios(name, &[]).contains("sandbox"), "{name}");
        }
        let of = |names: [&str; 2]| BTreeSet::from(names.map(str::to_owned));
        assert_eq!(ratios("seccomp", &["container", "unfiltered"]), of(["sandbox", "open"]));
        assert_eq!(ratios("seccomp", &[]), of(["container", "unfiltered"]));
        assert_eq!(ratios("block", &["container", "volume"]), BTreeSet::from(["sandbox".to_owned()]));
        assert_eq!(ratios("block", &[]), of(["container", "volume"]));
    }

    #[test]
    fn what_a_sandbox_lacks_is_in_the_plan_and_every_ratio_is_to_native() {
        let (.., plan) = standard(&[("microvm", DENIED)], "user (No space left on device)");
        assert_eq!(plan.environments["sandbox"]["lacks"].to_string(), "user (No space left on device)");
        let pairs = plan.pairs.iter().filter(|pair| pair.asked);
        let places: Vec<[&str; 2]> = pairs
            .map(|pair| [pair.numerator, pair.denominator].map(|arm| plan.arms[arm].environment.as_str()))
            .collect();
        assert_eq!(places, [["sandbox", "native"]; 6], "every workload, random access with both page sizes");
        let (.., plan) = standard(&[], "");
        assert!(
            !plan.environments.contains_key("sandbox")
                && plan.factors.iter().all(|(_, levels)| !levels.contains(&"sandbox".to_owned()))
        );
    }

    #[test]
    fn an_environment_instead_of_one_that_the_study_lacks_is_refused() {
        let text = SHIPPED[0].text.replace("instead_of = \"microvm\"", "instead_of = \"qemu\"");
        let parsed = study::parse("standard", text.as_bytes(), &descriptors()).expect("it is read");
        let limits = Limits { cpus: vec![0, 1], memory_available: Bytes(8 * GIB), ..Limits::default() };
        let why = resolve("standard", &parsed, &limits, Mode::default()).expect_err("refused").to_string();
        assert!(why.contains("instead_of = 'qemu' in [environments.sandbox] names no other environment"), "{why}");
    }

    #[test]
    fn a_publication_runs_by_its_name_or_says_why_not() {
        for (name, publication) in published::all() {
            match find(name) {
                Ok(source) => assert_eq!(Some(&source.name), publication.studies.first(), "{name}"),
                Err(why) => assert!(
                    publication.studies.is_empty()
                        && why.message.contains(publication.blank.as_deref().expect("a reason"))
                ),
            }
        }
    }

    /// The headline's value of an arm, in the unit of its metric; `None` where its workload has no such metric.
    fn measured(plan: &Plan, workloads: &[&Descriptor], arm: usize) -> Option<EstimateRow> {
        let workload = workloads.iter().find(|of| of.kind == plan.workload_of(arm))?;
        let metric = workload.metric(plan.metric_of(arm))?;
        Some(EstimateRow {
            metric: metric.key.to_owned(),
            unit: metric.unit.to_owned(),
            better: metric.better,
            treatment: plan.arms[arm].treatment.clone(),
            n: 12,
            estimate: 12_345.678,
            lo: Some(12_222.222),
            hi: Some(12_444.444),
            over: None,
            samples: None,
            median: None,
            mean: None,
            sd: None,
        })
    }

    fn slower(row: &mut RatioRow) {
        (row.blocks, row.ratio, row.lo, row.hi) = (12, Some(0.848), Some(0.840), Some(0.855));
        (row.outcome, row.size) = (Outcome::Slower, Size::Percent);
        (row.words, row.short) = ("slower by 14.5 to 16.0 %".to_owned(), "15 % slower".to_owned());
    }

    /// Whatever a shipped study finds, its numbers have units, and the screen that says so fits 80 columns.
    #[test]
    fn what_every_shipped_study_finds_has_units_and_fits() {
        let limits = Limits { cpus: (0..8).collect(), memory_available: Bytes(64 * GIB), ..Limits::default() };
        let (mut odd, mut compared, mut unresolved) = (Vec::new(), 0, Vec::new());
        for shipped in SHIPPED {
            let parsed = study::parse(shipped.name, shipped.text.as_bytes(), &descriptors()).expect(shipped.name);
            // Some need what these limits do not have, such as the sizes of caches.
            let Ok(plan) = resolve(shipped.name, &parsed, &limits, Mode::default()) else {
                unresolved.push(shipped.name);
                continue;
            };
            let run = Run {
                id: "20260101-0000-01234567".to_owned(),
                file: shipped.name.to_owned(),
                plan,
                machine: MachineFacts::default(),
                version: "0.2.0".to_owned(),
                started: UnixTime(1_767_225_600),
                ended: None,
                stop_reason: None,
                trials: Vec::new(),
                looks: Vec::new(),
                examined: None,
                imported: Vec::new(),
                notes: Vec::new(),
            };
            let workloads = descriptors_of(&run).unwrap_or_else(|why| panic!("{}: {}", shipped.name, why.message));
            let metrics = workloads.iter().flat_map(|of| of.metrics);
            let without = metrics.filter(|metric| metric.unit.trim().is_empty());
            odd.extend(without.map(|metric| format!("{}: {} has no unit", shipped.name, metric.key)));
            let mut document = analysis::document(&run, &workloads);
            document.ratios.iter_mut().for_each(slower);
            let arms = 0..run.plan.arms.len();
            document.estimates = arms.filter_map(|arm| measured(&run.plan, &workloads, arm)).collect();
            let text = summary::render(&document, &Style::default());
            let wide = text.lines().filter(|line| line.chars().count() > 80 || line.contains('…'));
            odd.extend(wide.map(|line| format!("{}: {line}", shipped.name)));
            let asked = run.plan.pairs.iter().filter(|pair| pair.asked).count();
            if asked > 0 && !text.contains("slower") {
                odd.push(format!("{}: no verdict in {text}", shipped.name));
            }
            compared += asked;
        }
        assert!(odd.is_empty(), "{odd:#?}");
        assert!(4 * unresolved.len() < SHIPPED.len(), "{unresolved:?}");
        assert!(compared > SHIPPED.len(), "{compared} comparisons");
    }
}
