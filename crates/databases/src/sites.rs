//! A second copy of the database at another site: what acknowledges a commit, and how far away it is.
//!
//! Three mechanisms: a standby server of PostgreSQL's physical replication, a disk of two copies by FUSE ([`baremark_volatile_disk`]), and one by the
//! kernel's mirror over NBD ([`baremark_disks::layout::Mirror`]). The way between the sites is a proxy that delays both directions. Everything runs
//! on this machine: the sites share its CPUs and its disk.

use crate::database::{Access, Answers, Batch, Cell, Connection, Database, Dialect, Failure, Param, Rows};
use crate::dataset_cache::{Kept, KeptError};
use crate::error::ServerError;
use crate::mirrored::Mirrored;
use crate::way::Way;
use baremark_delay::{Overhead, Wait};
use baremark_disks::layout::{DiskCounts, Mirror};
use baremark_model::arm::ResolvedArm;
use baremark_model::knob::{Default as Unsaid, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::plan::level_of;
use baremark_model::seam::Sample;
use baremark_model::units::{Bytes, Nanos};
use baremark_services::order::Order;
use baremark_services::place::Native;
use baremark_services::service::{Instance, Service};
use baremark_sys::confine::Limits;
use baremark_sys::private_folder::directory::Directory;
use baremark_sys::{clock, mounts};
use baremark_volatile_disk::{Replicated, SecondSite, Seen, mount_replicated};
use std::cell::Cell as Once;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// One-way messages by which the proxy's own share is measured.
const CALIBRATION: usize = 60;
/// How long servers may take to follow each other.
const LIMIT: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(10);
/// The standby's name among those that the first server knows.
const STANDBY: &str = "second";
/// What ALTER SYSTEM writes, read after the configuration proper.
const SYSTEM: &str = "data/postgresql.auto.conf";
const WORDS: &[&str] = &["none", "remote_write", "on", "remote_apply", "disk", "nbd"];

/// The mechanism.
pub(crate) const REPLICATION: Knob = Knob::new("replication", Kind::Choice(WORDS), Unsaid::Typed("none")).help(
    "postgres: what acknowledges a commit in addition: a standby that has written, flushed (on) or \
     applied it, or both copies of a disk: by FUSE (disk), or by a mirror of a disk here and one by NBD \
     (nbd)",
);
/// Where the second copy is.
pub(crate) const SECOND_SITE: Knob = Knob::new("second_site", Kind::Text, Unsaid::Typed("0 ms"))
    .help("round trip to the site of the second copy, such as \"1 ms\"; none for replication's first copy alone");

/// How a second copy is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A standby server; a commit waits for it as this word of `synchronous_commit` says.
    Standby(&'static str),
    /// A disk of two copies by FUSE: what is synced waits for both.
    Disk,
    /// A disk of two copies by the kernel, a mirror over NBD: every write waits for both.
    Nbd,
}

/// A database at two sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sites {
    /// How the second copy is kept.
    pub mechanism: Mechanism,
    /// The round trip to it; `None` for the first copy alone.
    pub round_trip: Option<Duration>,
}

impl Sites {
    /// What an arm requests; `None` where it requests no replication.
    ///
    /// # Errors
    /// A round trip that cannot be read.
    pub(crate) fn of(arm: &ResolvedArm) -> Result<Option<Sites>, InvalidValue> {
        let (word, distance) = (REPLICATION.get::<String>(arm)?, SECOND_SITE.get::<String>(arm)?);
        let round_trip = match distance.as_str() {
            "none" => None,
            text => Some(text.parse::<Nanos>().map_err(|why| {
                InvalidValue::new(
                    format!("second_site = \"{text}\": {why}"),
                    "write a round trip such as \"1 ms\", or \"none\"",
                )
            })?),
        };
        let round_trip = round_trip.map(|Nanos(nanos)| Duration::from_nanos(nanos));
        if round_trip.is_some_and(|round_trip| round_trip > Duration::from_secs(2)) {
            return Err(InvalidValue::new(format!("second_site = \"{distance}\" is too far"), "write at most \"2 s\""));
        }
        let mechanism = match WORDS.iter().find(|known| **known == word) {
            Some(&"disk") => Mechanism::Disk,
            Some(&"nbd") => Mechanism::Nbd,
            Some(&commit @ ("remote_write" | "on" | "remote_apply")) => Mechanism::Standby(commit),
            _ => return Ok(None),
        };
        Ok(Some(Sites { mechanism, round_trip }))
    }
}

/// A disk with its copies, mounted at a server's data.
pub(crate) struct TwoCopies {
    // The disk is unmounted before its second copy and the way to it are gone.
    disk: Option<Replicated>,
    site: Option<(SecondSite, Way)>,
    at: PathBuf,
    first: PathBuf,
    second: Option<PathBuf>,
}

/// A disk of two copies.
enum Copies {
    Fuse(TwoCopies),
    Mirror(Mirrored),
}

impl TwoCopies {
    /// Puts kept data into one or two folders in `root`, and mounts them as one disk at `data`.
    ///
    /// # Errors
    /// As [`Kept::take`]; why the disk cannot be mounted.
    pub(crate) fn mount(
        kept: &Kept,
        root: &Path,
        (data, owner): (&Path, Option<(u32, u32)>),
        round_trip: Option<Duration>,
        overhead: Overhead,
    ) -> Result<TwoCopies, KeptError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| KeptError::Io { path, source }
        };
        let (first, second) = (root.join("first"), round_trip.map(|_| root.join("second")));
        for copy in [Some(&first), second.as_ref()].into_iter().flatten() {
            kept.take(copy, owner)?;
        }
        match Directory::make_new(data) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return Err(at(data)(why)),
            _ => {}
        }
        let site = match (&second, round_trip) {
            (Some(second), Some(round_trip)) => {
                let site = SecondSite::serve(second).map_err(at(second))?;
                let way = Way::to(site.address(), round_trip, overhead).map_err(at(second))?;
                Some((site, way))
            }
            _ => None,
        };
        let reached = site.as_ref().map(|(site, way)| (site, way.address()));
        let disk = Some(mount_replicated(&first, reached, data).map_err(at(data))?);
        Ok(TwoCopies { disk, site, at: data.to_owned(), first, second })
    }

    pub(crate) fn way(&self) -> Option<&Way> {
        self.site.as_ref().map(|(_, way)| way)
    }

    pub(crate) fn seen(&self) -> Seen {
        self.disk.as_ref().map(Replicated::seen).unwrap_or_default()
    }

    /// Unmounts the disk, which nobody may use any more, and compares its copies: how many files are equal, or the first that differs.
    /// `None` without a second copy.
    ///
    /// # Errors
    /// A copy that cannot be read.
    pub(crate) fn compare(mut self) -> io::Result<Option<Result<usize, PathBuf>>> {
        // Everything that was sent has arrived once this is acknowledged.
        fs::File::open(&self.at)?.sync_all()?;
        self.disk = None;
        let Some(second) = &self.second else { return Ok(None) };
        let mut equal = 0;
        Ok(Some(differing(&self.first, second, Path::new(""), &mut equal)?.map_or(Ok(equal), Err)))
    }
}

/// A free port of the loopback.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// What keeps the second copy of a server's data.
pub(crate) struct Replica {
    sites: Sites,
    overhead: Overhead,
    root: PathBuf,
    standby: Option<Instance>,
    way: Option<Way>,
    copies: Option<Copies>,
}

impl Replica {
    /// For a server that was ordered so, in a folder of its run; nothing runs yet.
    ///
    /// # Errors
    /// What sockets give, or a full disk.
    pub(crate) fn new(
        sites: Sites,
        service: &'static dyn Service,
        primary: &Order,
        root: &Path,
    ) -> Result<Replica, ServerError> {
        let at = |source| ServerError::Io { path: PathBuf::from("127.0.0.1"), source };
        let (mut standby, mut overhead) = (None, Overhead::default());
        if sites.round_trip.is_some() {
            overhead = Overhead::measure_with(Wait::Sleeping, CALIBRATION).map_err(at)?;
            if let Mechanism::Standby(_) = sites.mechanism {
                let address = free_address().map_err(at)?;
                let (name, folder) = (format!("{}-standby", primary.name), root.join("standby"));
                let order = Order { name, folder, address, ..primary.clone() };
                standby = Some(Instance::prepared(service, order, &Limits::default(), Box::new(Native))?);
            }
        }
        Ok(Replica { sites, overhead, root: root.to_owned(), standby, way: None, copies: None })
    }

    /// The standby server.
    pub(crate) fn standby(&self) -> Option<&Instance> {
        self.standby.as_ref()
    }

    /// Puts kept data at `data` and at the second site; no server runs.
    ///
    /// # Errors
    /// As [`Kept::take`]; why a disk cannot be mounted.
    pub(crate) fn put(&mut self, kept: &Kept, data: &Path, owner: Option<(u32, u32)>) -> Result<(), ServerError> {
        // Unmounted before another one is.
        self.copies = None;
        let (root, at, round_trip) = (&self.root, (data, owner), self.sites.round_trip);
        self.copies = match self.sites.mechanism {
            Mechanism::Standby(_) => {
                kept.take(data, owner)?;
                return Ok(self.standby.as_ref().map_or(Ok(()), |it| kept.take(&it.folder().join("data"), owner))?);
            }
            Mechanism::Disk => {
                own_mounts().map_err(|source| ServerError::Io { path: data.to_owned(), source })?;
                Some(Copies::Fuse(TwoCopies::mount(kept, root, at, round_trip, self.overhead)?))
            }
            Mechanism::Nbd => {
                own_mounts().map_err(|source| ServerError::Io { path: data.to_owned(), source })?;
                Some(Copies::Mirror(Mirrored::mount(kept, root, at, round_trip, self.overhead)?))
            }
        };
        Ok(())
    }

    /// Lets commits of the first server wait for the standby, from its next start on. This is what ALTER SYSTEM writes.
    ///
    /// # Errors
    /// A full disk.
    pub(crate) fn configure(&self, primary: &Instance) -> Result<(), ServerError> {
        let (Mechanism::Standby(commit), Some(_)) = (self.sites.mechanism, &self.standby) else { return Ok(()) };
        let text = format!("synchronous_standby_names = '{STANDBY}'\nsynchronous_commit = {commit}\n");
        Ok(primary.write(SYSTEM, &text)?)
    }

    /// Starts the standby on the way to the first server, which runs, and waits until commits wait for it.
    ///
    /// # Errors
    /// What sockets give or the servers say.
    pub(crate) fn follow(
        &mut self,
        primary: Option<SocketAddr>,
        database: &dyn Database,
        interrupt: &AtomicBool,
    ) -> Result<(), ServerError> {
        let (Some(standby), Some(primary)) = (&mut self.standby, primary) else { return Ok(()) };
        let round_trip = self.sites.round_trip.unwrap_or_default();
        let way = Way::to(primary, round_trip, self.overhead);
        let way = way.map_err(|source| ServerError::Io { path: PathBuf::from(primary.to_string()), source })?;
        let (address, secret) = (way.address(), &standby.order().secret);
        let text = format!(
            "primary_conninfo = 'host={} port={} user={} password={secret} application_name={STANDBY}'\n",
            address.ip(),
            address.port(),
            baremark_services::postgres::NAME
        );
        standby.write(SYSTEM, &text)?;
        standby.write("data/standby.signal", "")?;
        self.way = Some(way);
        standby.restart()?;
        standby.wait_ready(interrupt)?;
        let follows = "select count(*) from pg_stat_replication where state = 'streaming' and sync_state = 'sync'";
        until(interrupt, "no commit waits for the standby yet", || {
            let (mut connection, mut rows) = (database.connect()?, Rows::default());
            connection.query(follows, &mut rows)?;
            Ok(rows.int(0, 0)? == 1)
        })
    }

    /// Waits until the standby has applied all that the first server has committed.
    ///
    /// # Errors
    /// What the databases say.
    pub(crate) fn catch_up(
        &self,
        primary: &dyn Database,
        standby: &dyn Database,
        interrupt: &AtomicBool,
    ) -> Result<(), ServerError> {
        let (mut connection, mut rows) = (primary.connect()?, Rows::default());
        connection.query("select pg_current_wal_lsn()::text", &mut rows)?;
        let behind = format!("select (pg_last_wal_replay_lsn() >= '{}'::pg_lsn)::int", rows.text(0, 0));
        let mut connection = standby.connect()?;
        until(interrupt, "the standby has not applied what was committed", || {
            connection.query(&behind, &mut rows)?;
            Ok(rows.int(0, 0)? == 1)
        })
    }

    /// Stops the standby.
    pub(crate) fn stop(&mut self, limit: Duration) {
        if let Some(standby) = &mut self.standby {
            standby.stop(limit);
        }
    }

    /// The way to the second site, where there is one.
    pub(crate) fn way(&self) -> Option<&Way> {
        self.way.as_ref().or_else(|| match self.copies.as_ref()? {
            Copies::Fuse(copies) => copies.way(),
            Copies::Mirror(copies) => copies.way(),
        })
    }

    /// What the users of a disk of two copies have seen; nothing of a standby.
    pub(crate) fn seen(&self) -> Seen {
        match &self.copies {
            None => Seen::default(),
            Some(Copies::Fuse(copies)) => copies.seen(),
            Some(Copies::Mirror(copies)) => {
                let DiskCounts { reads, read_ns, writes, write_ns } = copies.counted();
                Seen { reads, read_ns, writes, write_ns }
            }
        }
    }

    /// Unmounts a disk whose server has stopped and compares its copies: how much is equal, or where they differ first, in words. `None` without a
    /// second copy.
    ///
    /// # Errors
    /// A copy that cannot be read.
    pub(crate) fn compare(&mut self) -> io::Result<Option<Result<String, String>>> {
        Ok(match self.copies.take() {
            None => None,
            Some(Copies::Fuse(copies)) => copies.compare()?.map(|compared| match compared {
                Ok(files) => Ok(format!("{files} files")),
                Err(path) => Err(path.display().to_string()),
            }),
            Some(Copies::Mirror(copies)) => {
                copies.compare()?.map(|compared| compared.map(|bytes| Bytes(bytes).to_string()))
            }
        })
    }
}

/// Asks again and again, within a minute.
fn until(
    interrupt: &AtomicBool,
    what: &str,
    mut holds: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), ServerError> {
    let deadline = Instant::now() + LIMIT;
    while !holds()? {
        if Instant::now() > deadline || interrupt.load(Ordering::Acquire) {
            return Err(Failure::other(format!("{what} after {} s", LIMIT.as_secs())).into());
        }
        thread::sleep(GLANCE);
    }
    Ok(())
}

/// What this machine lacks of a mechanism, and the remedy.
pub(crate) fn missing(mechanism: Mechanism) -> Option<(String, String)> {
    match mechanism {
        Mechanism::Standby(_) => None,
        Mechanism::Disk => can_mount().err().map(|why| {
            (
                format!("a disk of two copies cannot be mounted here ({why})"),
                "run as the superuser where /dev/fuse is, or use replication = \"on\"".to_owned(),
            )
        }),
        Mechanism::Nbd => Mirror::missing().map(|why| {
            let (what, remedy) = why.split_once("; ").unwrap_or((&why, "use replication = \"on\""));
            (format!("replication = \"nbd\": {what}"), remedy.to_owned())
        }),
    }
}

/// Levels that this machine itself cannot have, as [`Limits::absent`](baremark_model::plan::Limits::absent) has them, each with the reason.
pub(crate) fn absent(kind: &str) -> Option<(String, String)> {
    Some((level_of(kind, REPLICATION.key, "nbd"), Mirror::missing()?))
}

/// Whether a disk can be mounted here by FUSE at all.
fn can_mount() -> io::Result<()> {
    fs::File::options().read(true).write(true).open("/dev/fuse")?;
    own_mounts()
}

/// The first path at which two folders differ.
fn differing(first: &Path, second: &Path, below: &Path, equal: &mut usize) -> io::Result<Option<PathBuf>> {
    let names = |root: &Path| -> io::Result<Vec<_>> {
        let mut names: Vec<_> =
            fs::read_dir(root.join(below))?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    };
    let (ours, theirs) = (names(first)?, names(second)?);
    if ours != theirs {
        let odd =
            ours.iter().find(|name| !theirs.contains(name)).or_else(|| theirs.iter().find(|name| !ours.contains(name)));
        return Ok(odd.map(|name| below.join(name)));
    }
    for name in ours {
        let path = below.join(name);
        let (one, other) = (first.join(&path), second.join(&path));
        if fs::symlink_metadata(&one)?.is_dir() {
            if let Some(odd) = differing(first, second, &path, equal)? {
                return Ok(Some(odd));
            }
        } else if fs::read(&one)? == fs::read(&other)? {
            *equal += 1;
        } else {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

thread_local! {
    static APART: Once<bool> = const { Once::new(false) };
}

/// Gives this thread mounts of its own, once: a disk that is mounted here is gone with this process, whatever ends it.
fn own_mounts() -> io::Result<()> {
    if !APART.get() {
        mounts::own_mounts()?;
        APART.set(true);
    }
    Ok(())
}

/// Commits of transactions that write, and how long they took.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    count: AtomicU64,
    nanos: AtomicU64,
}

/// What is counted of the sites at both ends of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    commits: u64,
    commit_ns: u64,
    seen: Seen,
}

impl Mark {
    pub(crate) fn now(commits: &Commits, replica: Option<&Replica>) -> Mark {
        Mark {
            commits: commits.count.load(Ordering::Relaxed),
            commit_ns: commits.nanos.load(Ordering::Relaxed),
            seen: replica.map(Replica::seen).unwrap_or_default(),
        }
    }
}

/// Metrics of what grew between two marks while so many operations ended, with the way to the second site.
pub(crate) fn samples(marks: (Mark, Mark), ended: u64, way: Option<&Way>) -> Vec<Sample> {
    let (first, last) = marks;
    let per = |sum: u64, of: u64| (of > 0).then(|| sum as f64 / of as f64);
    let grown = |of: fn(&Mark) -> u64| of(&last).saturating_sub(of(&first));
    let ms = |round_trip: Duration| 1e3 * round_trip.as_secs_f64();
    let commits = grown(|mark| mark.commits);
    let (round_trip, each) = (way.map(|way| ms(way.round_trip())), per(commits, ended));
    let ns_to_ms = |ns: Option<f64>| ns.map(|ns| ns / 1e6);
    let all = [
        ("commit_ms", ns_to_ms(per(grown(|mark| mark.commit_ns), commits))),
        ("commits_per_order", each),
        ("round_trip_ms", round_trip),
        ("round_trip_loaded_ms", way.and_then(Way::under_load).map(ms)),
        ("distance_ms_per_order", each.zip(round_trip).map(|(commits, round_trip)| commits * round_trip)),
        ("copies_read_ms", ns_to_ms(per(grown(|mark| mark.seen.read_ns), grown(|mark| mark.seen.reads)))),
        ("copies_write_ms", ns_to_ms(per(grown(|mark| mark.seen.write_ns), grown(|mark| mark.seen.writes)))),
    ];
    all.into_iter().filter_map(|(metric, value)| Some(Sample::new(metric, value?))).collect()
}

/// Metrics of [`samples`].
pub(crate) const METRICS: [Metric; 7] = [
    Metric::lower("commit_ms", "ms", Aggregate::Mean)
        .help("mean time of a commit that writes; with replication alone, as those below"),
    Metric::lower("commits_per_order", "commits", Aggregate::Mean)
        .help("commits of writing transactions per order, each of which waits for the second copy"),
    Metric::lower("round_trip_ms", "ms", Aggregate::Mean)
        .help("median round trip to the second site, measured before the load"),
    Metric::lower("round_trip_loaded_ms", "ms", Aggregate::Mean)
        .help("twice the median time that data spent on the way to it under load"),
    Metric::lower("distance_ms_per_order", "ms", Aggregate::Mean)
        .help("commits per order x round trip: the latency that distance adds to an order by prediction"),
    Metric::lower("copies_read_ms", "ms", Aggregate::Mean)
        .help("mean latency of reads of the disk of two copies that its page cache did not answer"),
    Metric::lower("copies_write_ms", "ms", Aggregate::Mean).help(
        "mean latency of its acknowledged writes: syncs and writes past the page cache; with nbd all writes \
         of the block device",
    ),
];

/// A database whose commits are counted.
pub(crate) struct Counted<'d> {
    pub(crate) database: &'d dyn Database,
    pub(crate) commits: Arc<Commits>,
}

impl Database for Counted<'_> {
    fn dialect(&self) -> Dialect {
        self.database.dialect()
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let (inner, commits) = (self.database.connect()?, Arc::clone(&self.commits));
        Ok(Box::new(CountedConnection { inner, commits, writes: false }))
    }
}

struct CountedConnection {
    inner: Box<dyn Connection>,
    commits: Arc<Commits>,
    /// Whether the transaction that was begun last may write.
    writes: bool,
}

impl Connection for CountedConnection {
    fn prepare(&mut self, statements: &[String]) -> Result<(), Failure> {
        self.inner.prepare(statements)
    }

    fn execute(&mut self, statement: usize, params: &[Param<'_>], rows: &mut Rows) -> Result<u64, Failure> {
        self.inner.execute(statement, params, rows)
    }

    fn batch(&mut self, batch: &Batch<'_>, answers: &mut Answers) -> Result<(), Failure> {
        self.inner.batch(batch, answers)
    }

    fn pipeline(&mut self) -> Result<(), Failure> {
        self.inner.pipeline()
    }

    fn begin(&mut self, access: Access) -> Result<(), Failure> {
        self.writes = access == Access::Write;
        self.inner.begin(access)
    }

    fn commit(&mut self) -> Result<(), Failure> {
        let began = clock::monotonic_ns();
        let committed = self.inner.commit();
        if self.writes && committed.is_ok() {
            self.commits.count.fetch_add(1, Ordering::Relaxed);
            self.commits.nanos.fetch_add(clock::monotonic_ns() - began, Ordering::Relaxed);
        }
        committed
    }

    fn rollback(&mut self) -> Result<(), Failure> {
        self.inner.rollback()
    }

    fn script(&mut self, sql: &str) -> Result<(), Failure> {
        self.inner.script(sql)
    }

    fn query(&mut self, sql: &str, rows: &mut Rows) -> Result<(), Failure> {
        self.inner.query(sql, rows)
    }

    fn insert(&mut self, table: &str, width: usize, cells: &[Cell]) -> Result<(), Failure> {
        self.inner.insert(table, width, cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grew_between_two_marks_is_divided_by_what_ended() {
        let seen = Seen { reads: 1, read_ns: 10, writes: 2, write_ns: 4_000_000 };
        let first = Mark { commits: 10, commit_ns: 1_000_000, seen };
        let seen = Seen { writes: 4, write_ns: 10_000_000, ..seen };
        let last = Mark { commits: 30, commit_ns: 41_000_000, seen };
        let found: Vec<_> = samples((first, last), 10, None).into_iter().map(|one| (one.metric, one.value)).collect();
        let expected = [("commit_ms", 2.0), ("commits_per_order", 2.0), ("copies_write_ms", 3.0)];
        assert_eq!(found, expected.map(|(metric, value)| (metric.to_owned(), value)));
    }

    #[test]
    fn what_a_disk_over_nbd_lacks_here_is_said_by_the_plan_and_by_a_run_with_its_remedy() {
        let why = Mirror::missing();
        let planned = absent("dvd-store");
        assert_eq!(planned.as_ref().map(|(_, why)| why), why.as_ref());
        assert!(planned.is_none_or(|(level, _)| level.contains("replication") && level.contains("nbd")));
        let said = missing(Mechanism::Nbd).map(|(what, remedy)| format!("{what}; {remedy}"));
        assert_eq!(said, why.map(|why| format!("replication = \"nbd\": {why}")));
        assert_eq!(missing(Mechanism::Standby("on")), None);
    }

    #[test]
    fn a_copy_that_differs_is_found() {
        let root = tempfile::tempdir().expect("a folder");
        let (first, second) = (root.path().join("first"), root.path().join("second"));
        for copy in [&first, &second] {
            fs::create_dir_all(copy.join("a/b")).expect("a folder");
            fs::write(copy.join("a/b/file"), "content").expect("a file");
        }
        let found = |equal: &mut usize| differing(&first, &second, Path::new(""), equal).expect("they can be read");
        let mut equal = 0;
        assert_eq!((found(&mut equal), equal), (None, 1));
        fs::write(second.join("a/b/file"), "c0ntent").expect("a file");
        assert_eq!(found(&mut 0), Some(PathBuf::from("a/b/file")));
        fs::write(second.join("a/b/file"), "content").expect("a file");
        fs::write(first.join("a/more"), "").expect("a file");
        assert_eq!(found(&mut 0), Some(PathBuf::from("a/more")));
    }
}
