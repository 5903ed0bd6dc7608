//! Records to store, and children to kill.

use baremark_model::codes::Decision;
use baremark_model::document::LookRow;
use baremark_model::event::TrialStatus;
use baremark_model::machine::{Isa, MachineFacts};
use baremark_model::plan::{Cell, Mode, Plan};
use baremark_model::seam::{Audit, ExecutorFacts, RankTime, Sample, TickRate, Verification};
use baremark_model::study::Design;
use baremark_model::units::{Nanos, Share, UnixTime};
use baremark_model::wire::{ArmRecord, ArmSpec, BodyRun, LostTime, PagesSeen, Series, TrialResult, TrialSpec};
use baremark_store::{RunId, RunRecord, Store, StoreError, TrialEntry};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

pub const STARTED: UnixTime = UnixTime(1_763_696_157_000_000_000);

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// A small generator, so that what is drawn can be had again.
pub struct Moments(pub u64);

impl Moments {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Says that `test` could not run here. Not by a macro: those are captured, and a skip must be seen.
pub fn skip(test: &str, why: &str) {
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let line = format!("skipped: {why} ({count} so far: {test})\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

pub fn plan() -> Plan {
    Plan {
        title: "Does it keep what it is given?".to_owned(),
        published: None,
        workload: "random-access".to_owned(),
        metric: "gups".to_owned(),
        workloads: Vec::new(),
        also: BTreeMap::new(),
        factors: vec![("environment".to_owned(), vec!["native".to_owned(), "microvm".to_owned()])],
        rows: None,
        columns: "environment".to_owned(),
        against: None,
        arms: Vec::new(),
        pairs: Vec::new(),
        cells: vec![Cell::Single(0), Cell::Single(1)],
        absent: Vec::new(),
        design: Design {
            precision: Share(0.01),
            delta: Share(0.02),
            budget: Nanos(180_000_000_000),
            phase: Nanos(100_000_000),
            quads: 2,
            least_blocks: 10,
            most_blocks: 200,
            seed: u64::MAX,
        },
        quads_by_variance: false,
        apart: Vec::new(),
        duet: None,
        mode: Mode::default(),
        extensions: Vec::new(),
        search: None,
        load: None,
        injected: None,
        cpus: vec![0, 1],
        environments: std::collections::BTreeMap::new(),
        observe: Default::default(),
    }
}

pub fn run(id: Option<&str>) -> RunRecord {
    RunRecord {
        id: id.map(|id| id.parse().unwrap()),
        study_file: "studies/a.toml".to_owned(),
        study_text: "[study]\ntitle = \"é\"\n".to_owned(),
        plan: plan(),
        machine: MachineFacts { hostname: Some("a machine".to_owned()), ..MachineFacts::default() },
        version: "0.1.0".to_owned(),
        started: STARTED,
    }
}

pub fn spec(seed: u64) -> TrialSpec {
    TrialSpec {
        schedule: vec![0, 0],
        phase_ns: 100_000_000,
        watchdog_ns: 10_000_000_000,
        cpus: vec![0, 1],
        seed,
        ..TrialSpec::new("random-access", [ArmSpec { members: Vec::new() }])
    }
}

/// A result with `phases` phases whose numbers come from `seed`.
pub fn result(seed: u64, phases: usize) -> TrialResult {
    #[expect(clippy::cast_precision_loss, reason = "any number will do")]
    let value = 0.1 + seed as f64 / 3.0;
    let sample = Sample::new("gups", value);
    let half = BodyRun {
        times: vec![RankTime { rank: 0, start_ticks: seed, end_ticks: seed + 1000 }],
        audit: Audit::default(),
        samples: vec![sample.clone()],
    };
    let phase = |phase| Series {
        phase,
        begin_ns: 0,
        end_ns: 1000,
        arm: 0,
        reps: 7,
        runs: vec![half.clone(), half.clone()],
        samples: vec![sample.clone()],
        members: Vec::new(),
        points: Vec::new(),
        detail: None,
    };
    TrialResult {
        arms: vec![ArmRecord {
            executor: ExecutorFacts {
                name: "direct".to_owned(),
                ranks: 1,
                cpus: vec![0],
                runs_body: true,
                virtual_machine: false,
                mmu: None,
                translation: None,
                notes: BTreeMap::new(),
            },
            pages_before: PagesSeen::default(),
            pages_after: PagesSeen { resident_bytes: 1 << 30, huge_bytes: 1 << 30, contiguous_bytes: Some(1 << 30) },
            counters: BTreeMap::from([("mmu_flooded".to_owned(), 3)]),
            grown: BTreeMap::new(),
            placed: Default::default(),
            verification: Verification::Passed { detail: "all words".to_owned() },
            verified: None,
            empty_run_ns: 812.5,
        }],
        series: (0..phases).map(phase).collect(),
        void: Vec::new(),
        flags: vec!["a flag".to_owned()],
        tick_rate_per_s: TickRate(2.1e9),
        instruction_set: Isa::Avx2,
        lost_before: LostTime::default(),
        lost_after: LostTime { looked_ns: 1, gaps: 2, share: 0.25, longest_ns: 3 },
        elapsed_ns: 1,
        spent_ns: BTreeMap::new(),
        disturbance: None,
        discarded: Vec::new(),
        observations: Vec::new(),
    }
}

/// Stores trial `seq`, whose content follows from its number.
pub fn add(store: &Store, run: &RunId, seq: u64, phases: usize) -> Result<(), StoreError> {
    let (spec, result) = (spec(seq), result(seq, phases));
    store.add_trial(
        run,
        &TrialEntry {
            block: seq / 2,
            cell: usize::try_from(seq % 2).unwrap(),
            seq,
            spec: &spec,
            status: &TrialStatus::Ok,
            result: Some(&result),
            started: UnixTime(STARTED.0 + seq),
            elapsed: Nanos(5),
            blocks_complete: seq.div_ceil(2),
        },
    )
}

pub fn look(blocks: u64, half_width: Option<f64>) -> LookRow {
    LookRow {
        blocks,
        half_width,
        correlated: false,
        decision: "continue to 9 blocks".to_owned(),
        step: Some(Decision::Continue),
    }
}

/// Of a file that could not grow, all is there that was acknowledged before the writer said that it is full.
pub fn assert_full_and_intact(path: &Path, said: &[String]) {
    let (error, acknowledged) = said.split_last().expect("it says something");
    assert!(error.starts_with("error: ") && error.contains("cannot grow"), "{error}");
    assert!(error.contains("what was stored before is intact") && error.contains(path.to_str().unwrap()), "{error}");
    assert!(acknowledged.len() >= 3, "{acknowledged:?}");
    let store = Store::open_read_only(path).unwrap();
    let stored = store.load(&store.latest().unwrap().unwrap().id).unwrap();
    assert_eq!((stored.trials.len(), stored.torn), (acknowledged.len(), Vec::new()));
    for (seq, trial) in (0..).zip(&stored.trials) {
        assert_eq!(trial.result, Some(result(seq, 100)));
    }
}

/// What SQLite itself thinks of the whole file.
pub fn integrity(path: &Path) -> String {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap()
}

/// This test program as another process, in a role of [`role`].
pub fn child(role: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    as_child(&mut command, role, path);
    command
}

/// Makes `command`, which runs this test program, take a role.
pub fn as_child(command: &mut Command, role: &str, path: &Path) {
    command.args(["--exact", "support::role", "--nocapture"]);
    command.env("STORE_ROLE", role).env("STORE_PATH", path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
}

/// A child and the lines that it says.
pub struct Talker {
    pub child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Talker {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Talker { child, lines }
    }

    /// What it says next after `say:`, the test harness's own lines left out; `None` when it is gone.
    pub fn hear(&mut self) -> Option<String> {
        self.lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, said) = line.split_once("say:")?;
            Some(said.to_owned())
        })
    }

    /// Everything that it still says.
    pub fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.hear()).collect()
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says a line at once, past the harness's buffers, so that what was said before a SIGKILL has been said.
fn say(what: &str) {
    let mut out = std::io::stdout();
    out.write_all(format!("say:{what}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// No test: what a child does. As a test of the suite it does nothing.
#[test]
fn role() {
    let Ok(role) = std::env::var("STORE_ROLE") else { return };
    let path = PathBuf::from(std::env::var_os("STORE_PATH").unwrap());
    match role.as_str() {
        "write" => write_until_killed(&path),
        "fill" => say(&format!("error: {}", fill(&path))),
        "hold" => hold(&path),
        "open" => say(&Store::open(&path).map_or_else(|why| why.to_string(), |_| "opened".to_owned())),
        "history" => {
            let runs = Store::open_read_only(&path).and_then(|store| store.runs());
            say(&runs.map_or_else(|why| why.to_string(), |runs| format!("{} runs", runs.len())));
        }
        other => panic!("no such role: {other}"),
    }
}

/// The point at which a child says so and waits to be killed.
pub const STOP_AT: &str = "STORE_STOP_AT";

fn stop_at(point: &str) {
    if std::env::var(STOP_AT).is_ok_and(|at| at == point) {
        say(point);
        loop {
            std::thread::park();
        }
    }
}

/// Sizes from a few pages to some hundred, so that kills fall before, into and after checkpoints of the log.
pub fn phases_of(seq: u64) -> usize {
    usize::try_from(seq % 7 * 60).unwrap()
}

fn begin(store: &Store) -> RunId {
    let id = "20251121-0335-aaaa".parse::<RunId>().unwrap();
    match store.create_run(&run(Some(id.as_str()))) {
        Ok(_) | Err(StoreError::Duplicate(_)) => id,
        Err(why) => panic!("{why}"),
    }
}

fn write_until_killed(path: &Path) {
    let store = Store::open(path).unwrap();
    let id = begin(&store);
    let _held = store.lock(&id).unwrap();
    for seq in store.load(&id).unwrap().next_seq().. {
        stop_at(&format!("adding {seq}"));
        add(&store, &id, seq, phases_of(seq)).unwrap();
        stop_at(&format!("added {seq}"));
        say(&seq.to_string());
    }
}

fn fill(path: &Path) -> StoreError {
    let store = Store::open(path).unwrap();
    let id = begin(&store);
    for seq in store.load(&id).unwrap().next_seq().. {
        if let Err(why) = add(&store, &id, seq, 100) {
            return why;
        }
        say(&seq.to_string());
    }
    unreachable!("no disk is endless")
}

fn hold(path: &Path) {
    let store = Store::open(path).unwrap();
    let _held = store.lock(&begin(&store)).unwrap();
    say("held");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}
