//! Durability under a loss of power: the data is on a disk that loses what was not synced, and the disk is killed under load, then the
//! server. After recovery every acknowledged order is there and all conditions hold. A control that does not sync must lose orders.
//!
//! Disks are mounted where only the test's own thread and what it starts see them, so that none is left whatever is killed. One round of each
//! database is part of every run; `BAREMARK_POWER_LOSSES=100 cargo test --release -p baremark-databases --test kernel power_loss` has more.

use crate::bench::{LIMIT, QUIET, closed, setup, start};
use crate::shop::{SMALL, opened, shoppers, violated};
use baremark_databases::database::{Database, Failure, Rows};
use baremark_databases::dataset_cache::Kept;
use baremark_databases::dvd_store::orders::{Acknowledged, NAMES, unaccounted};
use baremark_databases::engine;
use baremark_databases::kind::Kind;
use baremark_databases::server::{Server, Setup};
use baremark_databases::sqlite::{Sqlite, Synchronous};
use baremark_sys::mounts;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the processes that a test starts read of it.
const DISK: &str = "BAREMARK_TEST_VOLATILE_DISK";
const LOAD: &str = "BAREMARK_TEST_SQLITE_LOAD";
/// Orders that are acknowledged before the power is lost.
const ORDERS: usize = 60;

/// Whether a volatile disk can be mounted; the reason is printed where not.
fn can_mount() -> bool {
    let device = File::options().read(true).write(true).open("/dev/fuse").map(drop);
    match device.and_then(|()| mounts::own_mounts()) {
        Ok(()) => true,
        Err(why) => {
            eprintln!("skipped: no disk can be mounted ({why}); it takes /dev/fuse and the superuser");
            false
        }
    }
}

/// Starts this program again as another process of the test.
fn again(role: &str, variable: &str, value: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", role, "--ignored", "--nocapture"]).env(variable, value);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
#[ignore = "a process of the other tests: the disk"]
fn disk_process() {
    let folders = std::env::var(DISK).unwrap();
    let (stored, at) = folders.split_once('\n').unwrap();
    let _mounted = baremark_volatile_disk::mount(Path::new(stored), Path::new(at)).unwrap();
    writeln!(std::io::stdout(), "mounted").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A volatile disk in a process of its own.
struct Disk {
    stored: PathBuf,
    at: PathBuf,
    process: Option<Child>,
}

impl Disk {
    fn mount(stored: &Path, at: &Path) -> Disk {
        let mut disk = Disk { stored: stored.to_owned(), at: at.to_owned(), process: None };
        disk.start();
        disk
    }

    fn start(&mut self) {
        let folders = format!("{}\n{}", self.stored.display(), self.at.display());
        let mut process = again("power_loss::disk_process", DISK, &folders);
        let said = BufReader::new(process.stdout.take().unwrap());
        self.process = Some(process);
        assert!(said.lines().map_while(Result::ok).any(|line| line.ends_with("mounted")), "the disk is not mounted");
    }

    /// The power is gone: whatever was not synced is lost, and nothing answers any more.
    fn lose_power(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Takes the dead disk away and mounts what it has stored.
    fn restore(&mut self) {
        let status = self.unmount().unwrap();
        assert!(status.success(), "{status}");
        self.start();
    }

    fn unmount(&self) -> std::io::Result<ExitStatus> {
        Command::new("umount").arg("--lazy").arg(&self.at).status()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.lose_power();
        drop(self.unmount());
    }
}

fn rounds() -> usize {
    std::env::var("BAREMARK_POWER_LOSSES").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

fn acknowledged() -> Arc<Acknowledged> {
    Arc::new(Acknowledged { numbers: Some(Mutex::default()), ..Acknowledged::default() })
}

fn numbers(acknowledged: &Acknowledged) -> Vec<i64> {
    acknowledged.numbers.as_ref().unwrap().lock().unwrap().clone()
}

/// Those of the orders that the database does not have.
fn lost(database: &dyn Database, known: &[i64]) -> Vec<i64> {
    missing(database, known).unwrap_or_else(|why| panic!("{why}"))
}

/// The same of a database that may not be readable any more.
fn missing(database: &dyn Database, known: &[i64]) -> Result<Vec<i64>, Failure> {
    let mut rows = Rows::default();
    let mut connection = database.connect()?;
    connection.query("select orderid from orders where orderid > (select orders from opening)", &mut rows)?;
    let there: HashSet<i64> = (0..rows.len()).map(|row| rows.int(row, 0).unwrap()).collect();
    Ok(known.iter().copied().filter(|order| !there.contains(order)).collect())
}

/// A server with a loaded shop, whose data is on a volatile disk. It does not run.
fn shop(setup: &Setup, root: &Path) -> Option<(Server, Disk)> {
    let mut server = start(setup, root)?;
    drop(opened(&server, SMALL));
    server.stop();
    let (data, stored) = (server.data(), root.join("stored"));
    fs::rename(&data, &stored).unwrap();
    fs::create_dir(&data).unwrap();
    let disk = Disk::mount(&stored, &data);
    Some((server, disk))
}

/// Runs the clients until enough orders are acknowledged, and cuts the power in the midst of it.
fn load_until_power_is_lost(
    server: &mut Server,
    disk: &mut Disk,
    clients: &mut [Box<dyn engine::Client>],
    acknowledged: &Acknowledged,
) {
    let (over, load, database) = (AtomicBool::new(false), closed(600.0), server.database());
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| engine::run(&*database, clients, &NAMES, &load, &mut || 0, &over));
        let (until, deadline) = (numbers(acknowledged).len() + ORDERS, Instant::now() + LIMIT);
        while numbers(acknowledged).len() < until && !thread.is_finished() {
            if Instant::now() >= deadline {
                over.store(true, Ordering::Release);
                panic!("orders are not acknowledged");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        disk.lose_power();
        over.store(true, Ordering::Release);
        server.kill();
        // What the clients saw of it is theirs: connections that broke, errors of a server without a disk.
        drop(thread.join().unwrap());
    });
    disk.restore();
}

fn keeps_what_it_acknowledged(kind: Kind) {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let Some((mut server, mut disk)) = shop(&setup(kind), root.path()) else { return };
    let (acknowledged, database) = (acknowledged(), server.database());
    let mut clients = shoppers(&*database, SMALL, &acknowledged);
    for round in 0..rounds() {
        server.restart(&QUIET).unwrap_or_else(|why| panic!("round {round}: {why}"));
        load_until_power_is_lost(&mut server, &mut disk, &mut clients, &acknowledged);
        server.restart(&QUIET).unwrap_or_else(|why| panic!("round {round}: {why}"));
        let mut connection = database.connect().unwrap();
        assert_eq!(violated(&mut *connection), [0; 0], "round {round}");
        assert_eq!(unaccounted(&mut *connection, &acknowledged).unwrap(), None, "round {round}");
        drop(connection);
        let known = numbers(&acknowledged);
        assert!(known.len() >= ORDERS * (round + 1), "{}", known.len());
        assert_eq!(lost(&*database, &known), [0_i64; 0], "round {round}");
        server.stop();
    }
}

/// Starts a server on what a loss of power left of data that was not synced. Returns the repairs that it took, by which its orders can be
/// counted; an error where nothing helped.
fn restarted_or_repaired(server: &mut Server) -> Result<Vec<String>, String> {
    let mut repairs = Vec::new();
    let Err(mut why) = server.restart(&QUIET) else { return Ok(repairs) };
    let pid = server.data().join("postmaster.pid");
    if fs::metadata(&pid).is_ok_and(|found| found.len() == 0) {
        fs::remove_file(&pid).unwrap();
        repairs.push("its empty postmaster.pid was removed".to_owned());
        match server.restart(&QUIET) {
            Ok(()) => return Ok(repairs),
            Err(again) => why = again,
        }
    }
    server.kill();
    let repaired = pg_resetwal(&server.data()).map_err(|wrong| format!("{why}; pg_resetwal: {wrong}"))?;
    repairs.push(format!("its log was reset, for {}", last_line(&why.to_string())));
    assert!(repaired.success(), "{why}; pg_resetwal: {repaired}");
    server.restart(&QUIET).map(|()| repairs).map_err(|again| format!("{why}; after pg_resetwal: {again}"))
}

fn last_line(text: &str) -> String {
    let fatal = text.lines().find(|line| line.contains("PANIC") || line.contains("FATAL"));
    fatal.or(text.lines().last()).unwrap_or_default().trim().to_owned()
}

/// Of the newest PostgreSQL here, as the owner of the data.
fn pg_resetwal(data: &Path) -> std::io::Result<ExitStatus> {
    let mut programs: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")?.flatten().map(|entry| entry.path()).collect();
    programs.sort();
    let program = programs.pop().ok_or(std::io::ErrorKind::NotFound)?.join("bin/pg_resetwal");
    let owner = fs::metadata(data)?;
    let mut command = Command::new(program);
    command.arg("-f").arg(data).uid(owner.uid()).gid(owner.gid()).stdout(Stdio::null()).status()
}

/// A server that does not sync loses orders: otherwise the test above shows nothing. What it takes to count them is printed.
fn loses_orders(setup: &Setup) {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let Some((mut server, mut disk)) = shop(setup, root.path()) else { return };
    let (acknowledged, database) = (acknowledged(), server.database());
    let mut clients = shoppers(&*database, SMALL, &acknowledged);
    server.restart(&QUIET).unwrap_or_else(|why| panic!("{why}"));
    load_until_power_is_lost(&mut server, &mut disk, &mut clients, &acknowledged);
    let (known, kind) = (numbers(&acknowledged), setup.kind.word());
    let repairs = match restarted_or_repaired(&mut server) {
        Ok(repairs) => repairs,
        Err(why) => {
            eprintln!(
                "{kind}: all {} acknowledged orders are lost with the database, which does not start: {why}",
                known.len()
            );
            return;
        }
    };
    let repairs = if repairs.is_empty() { String::new() } else { format!("; {}", repairs.join("; ")) };
    match missing(&*database, &known) {
        Ok(lost) => {
            eprintln!("{kind}: {} of {} acknowledged orders are lost{repairs}", lost.len(), known.len());
            assert!(!lost.is_empty(), "{} orders were acknowledged and none is lost", known.len());
        }
        Err(why) => eprintln!("{kind}: the table of orders cannot be read ({why}), {} are lost{repairs}", known.len()),
    }
}

#[test]
fn postgres_keeps_what_it_acknowledged_when_power_is_lost() {
    keeps_what_it_acknowledged(Kind::Postgres);
}

#[test]
fn mariadb_keeps_what_it_acknowledged_when_power_is_lost() {
    keeps_what_it_acknowledged(Kind::Mariadb);
}

#[test]
fn postgres_without_fsync_loses_orders_when_power_is_lost() {
    loses_orders(&Setup { fsync: false, ..setup(Kind::Postgres) });
}

#[test]
fn mariadb_without_flushed_commits_loses_orders_when_power_is_lost() {
    loses_orders(&Setup { synchronous_commit: false, ..setup(Kind::Mariadb) });
}

/// `SQLite` is embedded: the process that has it open prints the orders that were acknowledged, and is killed after the disk.
#[test]
#[ignore = "a process of the other tests: the clients of SQLite"]
fn sqlite_process() {
    let told = std::env::var(LOAD).unwrap();
    let (synchronous, path) = told.split_once('\n').unwrap();
    let database = sqlite(Path::new(path), if synchronous == "off" { Synchronous::Off } else { Synchronous::Full });
    let acknowledged = acknowledged();
    let mut clients = shoppers(&database, SMALL, &acknowledged);
    // It ends by itself, should the test be killed.
    let load = closed(120.0);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| engine::run(&database, &mut clients, &NAMES, &load, &mut || 0, &QUIET));
        let mut printed = 0;
        while !thread.is_finished() {
            for number in numbers(&acknowledged).drain(printed..) {
                writeln!(std::io::stdout(), "order {number}").unwrap();
                printed += 1;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

fn sqlite(path: &Path, synchronous: Synchronous) -> Sqlite {
    Sqlite::new(path.to_owned(), synchronous, 16 << 20)
}

/// The orders that `SQLite` acknowledged until the power was lost.
fn sqlite_until_power_is_lost(disk: &mut Disk, path: &Path, synchronous: &str) -> Vec<i64> {
    let mut process = again("power_loss::sqlite_process", LOAD, &format!("{synchronous}\n{}", path.display()));
    let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut orders = lines.filter_map(|line| line.rsplit_once("order ")?.1.parse().ok());
    let mut known: Vec<i64> = orders.by_ref().take(ORDERS).collect();
    disk.lose_power();
    process.kill().unwrap();
    process.wait().unwrap();
    known.extend(orders);
    disk.restore();
    known
}

/// A loaded shop as it is kept, and a folder for it on a volatile disk.
fn sqlite_shop(root: &Path) -> (Kept, PathBuf) {
    let mut server = start(&setup(Kind::Sqlite), root).unwrap();
    drop(opened(&server, SMALL));
    server.stop();
    let kept = Kept::open(root, "kept").unwrap();
    kept.put(&server.data()).unwrap();
    let at = root.join("at");
    fs::create_dir(&at).unwrap();
    (kept, at)
}

#[test]
fn sqlite_keeps_what_it_acknowledged_when_power_is_lost() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let (kept, at) = sqlite_shop(root.path());
    for round in 0..rounds() {
        let stored = root.path().join("stored");
        kept.take(&stored, None).unwrap();
        let mut disk = Disk::mount(&stored, &at);
        let path = at.join("database");
        let known = sqlite_until_power_is_lost(&mut disk, &path, "full");
        assert!(known.len() >= ORDERS, "{}", known.len());
        let database = sqlite(&path, Synchronous::Full);
        let mut connection = database.connect().unwrap();
        assert_eq!(violated(&mut *connection), [0; 0], "round {round}");
        drop(connection);
        assert_eq!(lost(&database, &known), [0_i64; 0], "round {round}");
    }
}

#[test]
fn sqlite_without_syncs_loses_orders_when_power_is_lost() {
    if !can_mount() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let (kept, at) = sqlite_shop(root.path());
    let stored = root.path().join("stored");
    kept.take(&stored, None).unwrap();
    let mut disk = Disk::mount(&stored, &at);
    let path = at.join("database");
    let known = sqlite_until_power_is_lost(&mut disk, &path, "off");
    let lost = lost(&sqlite(&path, Synchronous::Off), &known);
    eprintln!("sqlite: {} of {} acknowledged orders are lost", lost.len(), known.len());
    assert!(!lost.is_empty(), "{} orders were acknowledged and none is lost", known.len());
}
