//! The executor: a team of ranks, each on its own vCPU of one virtual machine that shares this process's memory.

use crate::error::Error;
use crate::exception;
use crate::guest::{self, Order};
use crate::image;
use crate::machine::{Machine, Shape};
use crate::mmu::{MmuMode, mmu_virtualization};
use crate::rank::{Ending, Rank, Report, Starting};
use crate::space::Refusal;
use crate::touch::Touch;
use crate::vcpu::Stop;
use baremark_model::arm::GuestTables;
use baremark_model::page_size::PageSize;
use baremark_model::seam::{Audit, Body, Executor, ExecutorFacts, Fault, RankTime, RunRecord, Work};
use baremark_model::team::{Rest, Team};
use baremark_sys::affinity::Seat;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Between two kicks of a rank that does not come back.
const KICK_EVERY: Duration = Duration::from_millis(1);
/// A pre-touch goes through the watchdog in pieces of this size, since a first touch can cost microseconds a page.
const TOUCH_BYTES: usize = 64 << 20;

/// What a microVM is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where each rank's thread may run.
    pub seats: Vec<Seat>,
    /// The page size of the guest's own page tables.
    pub guest_page: PageSize,
    /// How the guest's leaf tables lie in its memory.
    pub guest_tables: GuestTables,
    /// The longest that one run may take.
    pub watchdog: Duration,
    /// Decides the order of scattered tables.
    pub seed: u64,
}

impl Config {
    /// One rank for each of these CPUs, pinned to it. Large guest pages, contiguous tables, a minute.
    #[must_use]
    pub fn new(cpus: Vec<usize>) -> Self {
        Config {
            seats: cpus.into_iter().map(Seat::Cpu).collect(),
            guest_page: PageSize::Large,
            guest_tables: GuestTables::Contiguous,
            watchdog: Duration::from_secs(60),
            seed: 1,
        }
    }
}

/// An executor on virtual processors.
pub struct Microvm {
    // Ranks first: their vCPUs go before the machine does.
    ranks: Vec<Rank>,
    machine: Arc<Machine>,
    facts: ExecutorFacts,
    config: Config,
    runs: u64,
    /// Something happened that no reset of a vCPU is sure to undo: the next run makes the machine anew.
    spoilt: bool,
    // At one place for all runs, so that the guest's first touch of it is not part of a timed one.
    team: Box<Team>,
}

/// A region in which nothing happens.
struct Nothing;

impl Body for Nothing {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, _rank: usize, _team: &Team, _reps: u64) {}
}

impl Microvm {
    /// Makes the machine and its ranks, and runs an empty region once.
    ///
    /// # Errors
    /// What is missing, with the remedy.
    pub fn start(config: &Config) -> Result<Self, Error> {
        let started = Instant::now();
        if config.seats.is_empty() {
            return Err(Error::Config { what: "no CPU for any rank".into(), remedy: "name at least one".into() });
        }
        let machine = Arc::new(Machine::new(Shape {
            ranks: config.seats.len(),
            page: config.guest_page,
            tables: config.guest_tables,
            seed: config.seed,
        })?);
        let ranks = start_ranks(&machine, &config.seats)?;
        let facts = facts(config, &machine, &ranks);
        let mut microvm = Microvm {
            ranks,
            machine,
            facts,
            config: config.clone(),
            runs: 0,
            spoilt: false,
            team: Box::new(Team::new(1)),
        };
        microvm.populate_image().map_err(|refusal| crate::machine::refused("program image", refusal))?;
        microvm.run(&Nothing, 1).map_err(Error::FirstRun)?;
        microvm.note("first_run_us", started.elapsed().as_micros().to_string());
        microvm.note("tsc_bracketed", "yes".into());
        Ok(microvm)
    }

    /// Reads one byte of every page of the program that this process has used from inside the machine, all ranks sharing the work, so that the first call
    /// of a function that is rarely called is no page fault in a run that is timed. What an earlier call has read takes no time worth mention.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn touch_program(&mut self) -> Result<RunRecord, Fault> {
        self.restore()?;
        let read = image::Read::new();
        self.populate(read.pages())?;
        self.run(&read, 1)
    }

    /// Reads and writes one word of every page of `memory` from inside the machine, all ranks sharing the work, so that
    /// tables on both levels are there before a run is timed. What the words hold stays as it is.
    ///
    /// # Errors
    /// As [`Executor::run`]. The audit of all pieces is summed up, the times are those of the last.
    pub fn touch(&mut self, memory: &mut [u64]) -> Result<RunRecord, Fault> {
        self.restore()?;
        let mut sum: Option<RunRecord> = None;
        for piece in memory.chunks_mut(TOUCH_BYTES / size_of::<u64>()) {
            self.populate(piece)?;
            let record = self.run(&Touch::new(piece), 1)?;
            sum = Some(match sum {
                None => record,
                Some(before) => RunRecord { times: record.times, audit: add(before.audit, record.audit) },
            });
        }
        Ok(sum.unwrap_or_else(|| RunRecord { times: Vec::new(), audit: Audit::default() }))
    }

    /// Sets the longest that each later run may take, instead of [`Config::watchdog`].
    pub fn set_watchdog(&mut self, limit: Duration) {
        self.config.watchdog = limit;
    }

    /// Fills the guest's tables over `memory` from outside, so that the guest need not ask.
    fn populate<T: ?Sized>(&self, memory: &T) -> Result<(), Fault> {
        let start = std::ptr::from_ref(memory).addr() as u64;
        self.machine.space.populate(start, size_of_val(memory) as u64).map_err(no_memory)
    }

    /// Fills the guest's tables over the program's code and static data.
    fn populate_image(&self) -> Result<(), Refusal> {
        let space = &self.machine.space;
        image::segments().into_iter().try_for_each(|segment| space.populate(segment.start, segment.end - segment.start))
    }

    /// Where the last run has spoilt the machine: a new one with the same configuration, in which nothing has been touched.
    fn restore(&mut self) -> Result<(), Fault> {
        if !self.spoilt {
            return Ok(());
        }
        let rebuilt = self.facts.notes.get("rebuilt").and_then(|count| count.parse().ok()).unwrap_or(0u64) + 1;
        *self = Microvm::start(&self.config)
            .map_err(|error| Fault::Executor { what: "making the microVM anew".into(), why: error.to_string() })?;
        self.note("rebuilt", rebuilt.to_string());
        Ok(())
    }

    fn note(&mut self, name: &str, value: String) {
        self.facts.notes.insert(name.to_owned(), value);
    }

    /// Orders every rank to its work and waits until every rank has reported.
    fn run_team(&self, body: &'static dyn Body, team: &'static Team, reps: u64) -> Vec<Report> {
        let deadline = Instant::now().checked_add(self.config.watchdog);
        for (rank, seat) in self.ranks.iter().enumerate() {
            seat.order(Order { body, team, rank, reps, token: token(self.runs, rank) });
        }
        let mut deadline = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        let mut reports = Vec::with_capacity(self.ranks.len());
        while let Some(seat) = self.ranks.get(reports.len()) {
            if let Some(report) = seat.report_by(deadline) {
                reports.push(report);
                continue;
            }
            team.break_up();
            self.ranks[reports.len()..].iter().for_each(Rank::kick);
            deadline = Instant::now() + KICK_EVERY;
        }
        reports
    }

    fn audit(&self, reports: &[Report]) -> Audit {
        let mut counters = BTreeMap::new();
        for meter in self.ranks.iter().flat_map(|rank| &rank.meters) {
            meter.lock().unwrap_or_else(PoisonError::into_inner).add_growth(&mut counters);
        }
        let counts = || reports.iter().map(|report| report.counts);
        let forwarded_syscalls = counts().map(|counts| counts.syscalls).sum();
        let guest_page_faults = counts().map(|counts| counts.page_faults).sum();
        Audit {
            ranks_inside: counts().filter(|counts| counts.inside).count(),
            forwarded_syscalls,
            guest_page_faults,
            extra_exits: forwarded_syscalls + guest_page_faults + counts().map(|counts| counts.others).sum::<u64>(),
            counters,
            queued_ns: reports.iter().map(|report| report.queued_ns).sum(),
            rests: self.team.rests(),
        }
    }
}

impl Executor for Microvm {
    fn facts(&self) -> &ExecutorFacts {
        &self.facts
    }

    fn run(&mut self, body: &dyn Body, reps: u64) -> Result<RunRecord, Fault> {
        self.restore()?;
        self.runs += 1;
        *self.team = Team::resting(self.ranks.len(), self.rest());
        self.populate(body)?;
        self.populate(self.team.as_ref())?;
        // SAFETY: `run_team` returns only after every rank has reported, and a rank forgets its order when it reports;
        // so nobody uses the two references after this call, during which both are borrowed. It does not panic before.
        let (body, lent) = unsafe {
            (
                std::mem::transmute::<&dyn Body, &'static dyn Body>(body),
                std::mem::transmute::<&Team, &'static Team>(self.team.as_ref()),
            )
        };
        let reports = self.run_team(body, lent, reps);
        match worst(&reports) {
            Some((rank, ending)) => {
                self.spoilt = reports.iter().any(Report::spoils);
                Err(self.fault(rank, ending))
            }
            None => Ok(RunRecord { times: times(&reports), audit: self.audit(&reports) }),
        }
    }

    fn warmed(&mut self) -> Result<(), Fault> {
        self.touch_program().map(drop)
    }

    fn rest(&self) -> Option<Rest> {
        Some(guest::REST)
    }

    fn counters(&mut self) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::new();
        let sources = self.ranks.iter().filter_map(|rank| rank.stats.as_ref()).chain(&self.machine.stats);
        for source in sources {
            // A counter that cannot be read is absent.
            drop(source.add_now(&mut counters));
        }
        counters
    }
}

impl Microvm {
    fn fault(&self, rank: usize, ending: Ending) -> Fault {
        let what = format!("rank {rank} in the microVM");
        let exception = |vector, detail: &str, rip, address| Fault::Exception {
            rank,
            vector,
            name: format!("{}{detail}", exception::name(vector)),
            rip,
            address,
        };
        match ending {
            Ending::Panicked => Fault::Panicked { rank },
            Ending::Stopped(Stop::Kicked) => {
                Fault::TimedOut { rank, limit_ms: u64::try_from(self.config.watchdog.as_millis()).unwrap_or(u64::MAX) }
            }
            Ending::Stopped(Stop::Exception { vector, rip, address }) => exception(vector, "", rip, address),
            Ending::Stopped(Stop::HostRefused { rip, address }) => {
                exception(exception::PAGE_FAULT, ", refused by the host's memory map", rip, address)
            }
            Ending::Stopped(Stop::NoMemory(refusal)) => no_memory(refusal),
            Ending::Stopped(Stop::Failed(errno)) => Fault::Executor {
                what,
                why: format!("KVM_RUN failed: {}; see dmesg", std::io::Error::from_raw_os_error(errno)),
            },
            Ending::Stopped(Stop::Unexpected { reason, suberror, rip }) => Fault::Executor {
                what,
                why: format!("KVM left the guest for reason {reason}, suberror {suberror}, at {rip:#x}; see dmesg"),
            },
            Ending::Stopped(Stop::Broken(why)) => Fault::Executor { what, why: why.into() },
        }
    }
}

fn no_memory(refusal: Refusal) -> Fault {
    Fault::Executor { what: "giving memory to the microVM".into(), why: refusal.explain() }
}

/// The ending that explains the others: a rank that was kicked, or a panic, may be the consequence of another's fault.
fn worst(reports: &[Report]) -> Option<(usize, Ending)> {
    let endings = reports.iter().enumerate().filter_map(|(rank, report)| Some((rank, report.result.err()?)));
    endings.min_by_key(|(rank, ending)| match ending {
        Ending::Stopped(Stop::Kicked) => (2, *rank),
        Ending::Panicked => (1, *rank),
        Ending::Stopped(_) => (0, *rank),
    })
}

fn times(reports: &[Report]) -> Vec<RankTime> {
    reports.iter().filter_map(|report| report.result.ok()).collect()
}

/// Not guessable from another rank's or another run's.
fn token(run: u64, rank: usize) -> u64 {
    (run << 20 | rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn add(mut sum: Audit, more: Audit) -> Audit {
    sum.ranks_inside = sum.ranks_inside.min(more.ranks_inside);
    sum.forwarded_syscalls += more.forwarded_syscalls;
    sum.guest_page_faults += more.guest_page_faults;
    sum.extra_exits += more.extra_exits;
    sum.queued_ns = sum.queued_ns.zip(more.queued_ns).map(|(sum, more)| sum + more);
    sum.rests += more.rests;
    for (name, growth) in more.counters {
        *sum.counters.entry(name).or_default() += growth;
    }
    sum
}

/// All threads first, then all answers: vCPUs are made side by side. Every thread that was started is heard, so that none
/// stays behind when another could not start.
fn start_ranks(machine: &Arc<Machine>, seats: &[Seat]) -> Result<Vec<Rank>, Error> {
    let starting: Vec<_> =
        seats.iter().enumerate().map(|(number, seat)| Starting::spawn(machine.clone(), number, seat.clone())).collect();
    let ranks: Vec<_> = starting.into_iter().map(|starting| starting.and_then(Starting::ready)).collect();
    ranks.into_iter().collect()
}

fn facts(config: &Config, machine: &Machine, ranks: &[Rank]) -> ExecutorFacts {
    let offsets: Vec<_> = ranks.iter().map(|rank| rank.tsc_offset).collect();
    let offset = match offsets.iter().copied().collect::<Option<Vec<u64>>>() {
        Some(offsets) if offsets.iter().all(|offset| *offset == 0) => "0".into(),
        Some(offsets) => format!("{offsets:?}"),
        None => "approximate: KVM has no KVM_VCPU_TSC_OFFSET (Linux 5.16)".into(),
    };
    let statistics =
        if machine.stats.is_some() { "present" } else { "absent: KVM has no statistics file (Linux 5.14)" };
    let mmu = mmu_virtualization();
    let walked = match mmu.mode {
        MmuMode::Nested(_) => "yes, by the processor",
        MmuMode::Shadow(_) => "no: the processor walks shadow tables, and the guest's layout plays no part",
        MmuMode::Unknown => "unknown",
    };
    let notes = [
        ("guest_page", config.guest_page.to_string()),
        ("guest_tables", config.guest_tables.to_string()),
        ("guest_tables_backing", "4k".into()),
        ("guest_tables_walked", walked.into()),
        ("tsc_offset", offset),
        ("kvm_statistics", statistics.into()),
        ("mmu_detail", mmu.detail.clone()),
        ("stands_for", "CPU and MMU virtualization only: no tick, no devices, no guest kernel".into()),
    ];
    ExecutorFacts {
        name: "microvm".into(),
        ranks: ranks.len(),
        cpus: config.seats.iter().filter_map(Seat::cpu).collect(),
        runs_body: true,
        virtual_machine: true,
        mmu: Some(mmu.to_string()),
        translation: Some(mmu.mode.translation()),
        notes: notes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}
