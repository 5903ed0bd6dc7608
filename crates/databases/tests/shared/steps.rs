//! Steps of the wall clock under load: dates follow them, and nothing else does.
//!
//! The clients' clock steps in the process of its own that each test starts. PostgreSQL's steps with it: a library that the server loads adds
//! the step to the wall clock, and leaves the monotonic clock alone. MariaDB's clock does not step: it waits until moments of the wall clock in
//! the kernel, where such a library does not reach, so that a step would be another one there.

use crate::bench::{LIMIT, QUIET, closed, loader, rules, setup, start, terminals};
use crate::shop::{self, SMALL, shoppers};
use baremark_databases::conditions;
use baremark_databases::database::{Connection, Database, Rows};
use baremark_databases::engine::{self, Client, Drive, Load, Outcome};
use baremark_databases::kind::Kind;
use baremark_databases::loading::{Loader, now_ms, step_wall_clock};
use baremark_databases::order_entry::conditions::CONDITIONS;
use baremark_databases::{dvd_store, order_entry};
use baremark_model::loading::Loading;
use std::cell::RefCell;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const DAY_MS: i64 = 86_400_000;
/// Forward, back to a day before, and to where it was.
const STEPS: [i64; 3] = [DAY_MS, -2 * DAY_MS, DAY_MS];
/// Orders that are acknowledged before each step and after the last.
const ORDERS: u64 = 5;
/// The database whose process it is, and where the servers' step is.
const KIND: &str = "BAREMARK_TEST_CLOCK";
const SERVERS: &str = "BAREMARK_TEST_CLOCK_STEP";

/// The wall clock of a server that loads it, stepped by the seconds in a file.
const STEPPED_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long step(void) {
    static volatile long *mapped;
    if (!mapped) {
        int file = open(STEP, O_RDONLY);
        void *at = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
        if (at == MAP_FAILED) abort();
        mapped = at;
        close(file);
    }
    return *mapped;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += step();
    return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *into) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (into) *into = precise.tv_sec;
    return precise.tv_sec;
}
"#;

/// Compiled, with its step; `None`, with the reason printed, where there is no compiler.
fn servers_clock(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let (source, library, step) = (folder.join("clock.c"), folder.join("clock.so"), folder.join("step"));
    fs::write(&source, STEPPED_CLOCK).unwrap();
    fs::write(&step, [0; 8]).unwrap();
    // Servers have none of this process's own variables.
    let at = format!("-DSTEP=\"{}\"", step.display());
    let mut compiler = Command::new("cc");
    let compiled = compiler.args(["-O1", "-shared", "-fPIC", &at, "-o"]).arg(&library).arg(&source).status();
    if compiled.is_ok_and(|status| status.success()) {
        return Some((library, step));
    }
    eprintln!("skipped: steps of PostgreSQL's own clock: no cc that makes libraries");
    None
}

/// Runs the test of one database in a process of its own, whose clock steps alone.
pub fn in_a_process(kind: Kind) {
    // Servers run as users of their own, and load the library.
    let open = Permissions::from_mode(0o755);
    let folder = tempfile::Builder::new().permissions(open).tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "steps::clock_process", "--ignored", "--nocapture"]).env(KIND, kind.word());
    if kind == Kind::Postgres
        && let Some((library, step)) = servers_clock(folder.path())
    {
        command.env("LD_PRELOAD", library).env(SERVERS, step);
    }
    let output = command.output().unwrap();
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {out}{said}", kind.word());
    eprint!("{said}");
}

#[test]
#[ignore = "a process of the other tests: its wall clock steps"]
fn clock_process() {
    let kind = Kind::of(&std::env::var(KIND).unwrap()).unwrap();
    let root = tempfile::tempdir().unwrap();
    let Some(server) = start(&setup(kind), root.path()) else { return };
    let database = server.database();
    let clock =
        WallClock { servers: std::env::var_os(SERVERS).map(|path| File::options().write(true).open(path).unwrap()) };
    clock.reaches_the_server(&mut *database.connect().unwrap());
    // Order-entry has dates of the clock in its loaded rows; SQLite loads it fast.
    if kind == Kind::Sqlite {
        order_entry_under_steps(&*database, &clock)
    } else {
        shop_under_steps(&*database, &clock)
    }
}

/// The wall clock of this process, and of the server where it takes steps.
struct WallClock {
    servers: Option<File>,
}

impl WallClock {
    /// By whole seconds.
    fn step(&self, by_ms: i64) {
        step_wall_clock(by_ms);
        if let Some(file) = &self.servers {
            let mut seconds = [0; 8];
            File::open(std::env::var_os(SERVERS).unwrap()).unwrap().read_exact_at(&mut seconds, 0).unwrap();
            let stepped = i64::from_ne_bytes(seconds) + by_ms / 1000;
            file.write_all_at(&stepped.to_ne_bytes(), 0).unwrap();
        }
    }

    fn reaches_the_server(&self, connection: &mut dyn Connection) {
        if self.servers.is_none() {
            return;
        }
        for step in STEPS {
            self.step(step);
            let mut rows = Rows::default();
            connection.query("select floor(extract(epoch from clock_timestamp()) * 1000)::bigint", &mut rows).unwrap();
            let apart = rows.int(0, 0).unwrap() - now_ms();
            assert!(
                apart.abs() < DAY_MS / 4,
                "the server's clock is {apart} ms from the clients' after a step of {step} ms"
            );
        }
    }

    /// Steps again and again while this works.
    fn steps_while<T>(&self, work: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    for step in STEPS {
                        self.step(step);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            over.store(true, Ordering::Release);
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Loads while the clock steps. What is reported of it is by the monotonic clock.
fn load_under_steps(database: &dyn Database, clock: &WallClock, populate: impl Fn(&Loader<'_>)) {
    let all = RefCell::new(Vec::<Loading>::new());
    let report = |loading: Loading| all.borrow_mut().push(loading);
    let begun = Instant::now();
    clock.steps_while(|| populate(&Loader { report: &report, ..loader(database, 1) }));
    let (all, limit) = (all.into_inner(), u64::try_from(begun.elapsed().as_nanos()).unwrap());
    assert!(all.windows(2).all(|two| two[0].elapsed_ns <= two[1].elapsed_ns), "{all:?}");
    assert!(all.last().is_some_and(|last| last.is_complete() && last.elapsed_ns <= limit), "{all:?} within {limit} ns");
}

/// Runs loads, one after the other, until the clock has stepped forward and back in the midst of them, each time between orders that are
/// acknowledged. Returns what became of each.
fn run_under_steps(
    database: &dyn Database,
    clock: &WallClock,
    (clients, names): (&mut [Box<dyn Client>], &[&str]),
    load: &Load,
    acknowledged: &AtomicU64,
) -> Vec<Outcome> {
    let (begun, mut outcomes) = (Instant::now(), Vec::new());
    std::thread::scope(|scope| {
        let stepped = scope.spawn(|| {
            let some_more = || {
                let until = acknowledged.load(Ordering::Relaxed) + ORDERS;
                while acknowledged.load(Ordering::Relaxed) < until {
                    assert!(begun.elapsed() < LIMIT, "orders are not acknowledged");
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            for step in STEPS {
                some_more();
                clock.step(step);
            }
            some_more();
        });
        while !stepped.is_finished() || outcomes.is_empty() {
            let outcome = engine::run(database, clients, names, load, &mut || 0, &QUIET);
            outcomes.push(outcome.unwrap_or_else(|why| panic!("{why}")));
        }
        stepped.join().unwrap();
    });
    let limit = u64::try_from(begun.elapsed().as_nanos()).unwrap();
    outcomes.iter().for_each(|outcome| is_sound(outcome, names, load, limit));
    outcomes
}

/// What is measured is by the monotonic clock.
fn is_sound(outcome: &Outcome, names: &[&str], load: &Load, limit: u64) {
    assert_eq!(outcome.elapsed_ns, u64::try_from(load.duration.as_nanos()).unwrap());
    assert_eq!(outcome.seconds.iter().sum::<u64>(), outcome.ended_in_time, "{:?}", outcome.seconds);
    let per_s = outcome.ended_in_time as f64 / load.duration.as_secs_f64();
    assert!((outcome.per_s() - per_s).abs() < 1e-6, "{} of {per_s} transactions/s", outcome.per_s());
    for (operation, name) in outcome.operations.iter().zip(names) {
        let (count, largest) = (operation.latencies.count(), operation.latencies.largest());
        assert_eq!(count, operation.committed + operation.rolled_back, "{name}");
        assert!(
            largest.is_none_or(|largest| (1..=limit).contains(&largest)),
            "{name}: {largest:?} ns within {limit} ns"
        );
    }
    assert!(outcome.lag.largest().is_none_or(|lag| lag <= limit), "{:?} ns", outcome.lag.largest());
    assert_eq!(outcome.reconnects, 0, "{:?}", outcome.failures);
}

/// Dates of the days before and after, and of this one, among those that the load has written.
fn has_dates_of_all_days(connection: &mut dyn Connection, dates: &str) {
    let mut rows = Rows::default();
    connection.query(dates, &mut rows).unwrap_or_else(|why| panic!("{why}"));
    let (now, all) = (now_ms(), (0..rows.len()).map(|row| rows.int(row, 0).unwrap()));
    let days: Vec<i64> = all.map(|date| (date - now + DAY_MS / 2).div_euclid(DAY_MS)).collect();
    let of = |day: i64| days.iter().filter(|found| **found == day).count();
    assert!([-1, 0, 1].iter().all(|day| of(*day) > 0) && of(-1) + of(0) + of(1) == days.len(), "{days:?}");
}

fn order_entry_under_steps(database: &dyn Database, clock: &WallClock) {
    load_under_steps(database, clock, |loader| order_entry::populate::populate(loader, 1, 1).unwrap());
    let acknowledged = Arc::default();
    let mut clients = terminals(&rules(database, &acknowledged), 2);
    // A step shows in the latency from an intended start, if anywhere.
    let load = Load { drive: Drive::Open { rate: 50.0, poisson: false }, ..closed(4.0) };
    let names = &order_entry::transactions::NAMES;
    for outcome in run_under_steps(database, clock, (&mut clients, names), &load, &acknowledged.new_orders) {
        assert_eq!(outcome.ended() + outcome.unserved, 200, "of 50 arrivals/s for 4 s");
    }
    let mut connection = database.connect().unwrap();
    assert_eq!(conditions::broken(&mut *connection, &CONDITIONS).unwrap(), None);
    assert_eq!(order_entry::transactions::unaccounted(&mut *connection, &acknowledged, 1).unwrap(), None);
    has_dates_of_all_days(&mut *connection, "select o_entry_d from orders where o_id > 3000");
}

fn shop_under_steps(database: &dyn Database, clock: &WallClock) {
    load_under_steps(database, clock, |loader| dvd_store::populate::populate(loader, SMALL, 1).unwrap());
    let acknowledged = Arc::default();
    let mut clients = shoppers(database, SMALL, &acknowledged);
    let names = &dvd_store::orders::NAMES;
    run_under_steps(database, clock, (&mut clients, names), &closed(2.0), &acknowledged.orders);
    let mut connection = database.connect().unwrap();
    assert_eq!(shop::violated(&mut *connection), [0; 0]);
    assert_eq!(dvd_store::orders::unaccounted(&mut *connection, &acknowledged).unwrap(), None);
    let dates = "select orderdate from orders where orderid > (select orders from opening)";
    has_dates_of_all_days(&mut *connection, dates);
}
