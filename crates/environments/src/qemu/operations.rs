//! What an infrastructure does with guests, timed: a guest is deployed from an image, cloned from a running one, moved to another QEMU
//! while it runs, or its disk is moved while it runs.
//!
//! The guests are this program's own: their first process reports every few milliseconds that it works, and keeps numbered records on
//! its disk (`model::beat`). So every operation is verified: a guest that was moved goes on counting where it was and finds its memory as
//! it left it, and a copy of a disk is the image's, with every record that was promised. Disks are files without names, which are gone
//! with whoever has them open; guests die with this process. Nothing is left also after a kill.

use super::Qemu;
use super::qmp::Qmp;
use super::settings::{Accel, Disks, Settings};
use crate::child::{Piped, hand_over};
use crate::interruptible::unless;
use baremark_model::beat::{self, Beat, LOG_BYTES};
use baremark_model::site::{Environment, SiteError};
use baremark_stats::Rng;
use baremark_sys::confine::{self, Limits};
use baremark_sys::private_folder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ChildStdin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the state of an operation is read.
const GLANCE: Duration = Duration::from_millis(5);
/// How long a guest that runs may be silent: an emulated one on a busy machine is slow.
const SILENCE: Duration = Duration::from_secs(60);
/// How long moving a guest or copying a disk may take.
const LIMIT: Duration = Duration::from_secs(300);
/// The name of the job that copies a disk, and QEMU's name of a guest's disk.
const JOB: &str = "copy";
const DISK: &str = "disk0";
/// QEMU's name of the socket through which it gives a guest away.
const GIVEN: &str = "given";
const CHUNK: usize = 1 << 20;
/// Begins the name of a folder that the file of a disk is in for a moment, where it cannot be made without a name.
const PREFIX: &str = "baremark-disk-";

/// What is done with guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A copy of the image is booted until the guest works.
    Deploy,
    /// The disk of a running guest is copied as it was at one moment, and the copy is booted until the guest works.
    Clone,
    /// A running guest is moved to another QEMU.
    Migrate,
    /// The disk of a running guest is moved to another file.
    MigrateStorage,
}

/// What an operation did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    /// From its begin until the guest was seen to work as it should, in s.
    pub seconds: f64,
    /// How long no instruction of the guest ran, as QEMU counts it, in ms; `None` where the guest is not stopped.
    pub down_ms: Option<f64>,
    /// The time of the migration as QEMU counts it, in ms.
    pub migration_ms: Option<f64>,
    /// The longest time in which nothing was heard of the running guest, in ms; `None` where none ran before.
    pub silent_ms: Option<f64>,
    /// Bytes of disk or memory that were copied.
    pub moved_bytes: u64,
}

/// Does one kind of operation, again and again.
pub struct GuestOperations {
    qemu: Qemu,
    operation: Operation,
    limits: Limits,
    emulated: bool,
    image: Image,
    /// The guest that is cloned or moved.
    running: Option<Running>,
    /// Names of copies of its disk so far.
    copies: u64,
}

fn not_ready(what: impl Into<String>) -> SiteError {
    SiteError::NotReady { what: what.into(), log: Vec::new() }
}

impl GuestOperations {
    /// Makes the image, `image_bytes` of `seed`, and finds what guests need; none is started. QEMU's threads are held to `cpus`, unless there
    /// are none.
    ///
    /// # Errors
    /// What is missing, or what making the image gives.
    pub fn new(
        program: PathBuf,
        settings: Settings,
        operation: Operation,
        (image_bytes, seed): (u64, u64),
        cpus: &[usize],
    ) -> Result<GuestOperations, SiteError> {
        let image = Image::random(image_bytes.max(2 * LOG_BYTES as u64), seed).map_err(SiteError::io(
            "making the image of a guest: a file without a name in the folder for temporary files (TMPDIR)",
        ))?;
        let settings = Settings { beat: Some(settings.beat.unwrap_or(0)), ..settings };
        let qemu = Qemu::new(program, with_disk(&settings, &image));
        qemu.probe()?;
        let emulated = settings.accel != Accel::Kvm;
        let limits = Limits { cpus: cpus.to_vec(), ..Limits::default() };
        Ok(GuestOperations { qemu, operation, limits, emulated, image, running: None, copies: 0 })
    }

    /// Starts the guest that the operation needs, and finds out whether the processor can run it; where the accelerator is free, a guest that does
    /// not work within the test's limit is emulated.
    ///
    /// # Errors
    /// Why no guest works.
    pub fn make_ready(&mut self, interrupt: &AtomicBool) -> Result<(), SiteError> {
        if self.qemu.settings.accel == Accel::Auto {
            self.emulated = self.needs_emulation(interrupt)?;
            self.qemu.settings.accel = if self.emulated { Accel::Tcg } else { Accel::Kvm };
        }
        if self.operation != Operation::Deploy && self.running.is_none() {
            let disk = self.image.copy().map_err(SiteError::io("copying the image"))?;
            self.running = Some(self.booted(disk, self.qemu.settings.boot_limit, interrupt)?);
        }
        Ok(())
    }

    /// Whether the processor does not run this guest; tried once in a process for each kernel, while others wait.
    fn needs_emulation(&mut self, interrupt: &AtomicBool) -> Result<bool, SiteError> {
        static FOUND: Mutex<BTreeMap<PathBuf, bool>> = Mutex::new(BTreeMap::new());
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(emulated) = found.get(&self.qemu.kernel()) {
            return Ok(*emulated);
        }
        self.emulated = false;
        let disk = self.image.copy().map_err(SiteError::io("copying the image"))?;
        let device = File::options().read(true).write(true).open("/dev/kvm");
        let emulated = device.is_err() || self.booted(disk, self.qemu.settings.test_limit, interrupt).is_err();
        unless(interrupt)?;
        found.insert(self.qemu.kernel(), emulated);
        Ok(emulated)
    }

    /// Whether guests are emulated: what they take is then no statement on this machine.
    #[must_use]
    pub fn emulated(&self) -> bool {
        self.emulated
    }

    /// Does it once, and verifies what came of it.
    ///
    /// # Errors
    /// What failed; [`SiteError::Interrupted`] when `interrupt` was set.
    pub fn perform(&mut self, interrupt: &AtomicBool) -> Result<Done, SiteError> {
        match self.operation {
            Operation::Deploy => self.deploy(interrupt),
            Operation::Clone => self.with_running(interrupt, GuestOperations::clone_guest),
            Operation::Migrate => self.with_running(interrupt, GuestOperations::migrate),
            Operation::MigrateStorage => self.with_running(interrupt, GuestOperations::migrate_storage),
        }
    }

    /// The running guest is lost where an operation fails.
    fn with_running(
        &mut self,
        interrupt: &AtomicBool,
        operate: impl FnOnce(&mut GuestOperations, Running, &AtomicBool) -> Result<(Done, Running), SiteError>,
    ) -> Result<Done, SiteError> {
        self.make_ready(interrupt)?;
        let running = self.running.take().ok_or_else(|| not_ready("no guest runs"))?;
        let (done, running) = operate(self, running, interrupt)?;
        self.running = Some(running);
        Ok(done)
    }

    fn deploy(&mut self, interrupt: &AtomicBool) -> Result<Done, SiteError> {
        let begin = Instant::now();
        let disk = self.image.copy().map_err(SiteError::io("copying the image"))?;
        let guest = self.booted(disk, self.qemu.settings.boot_limit, interrupt)?;
        let seconds = begin.elapsed().as_secs_f64();
        self.is_image(&guest.disk)?;
        Ok(Done { seconds, moved_bytes: self.image.bytes, ..Done::default() })
    }

    fn clone_guest(&mut self, mut running: Running, interrupt: &AtomicBool) -> Result<(Done, Running), SiteError> {
        running.beats.begin_again();
        let promised = running.beats.last()?.record;
        let begin = Instant::now();
        let disk = self.copied(&mut running, "blockdev-backup", interrupt)?;
        // The guest that was copied has nothing more to do with the copy, and the next guest opens it alone.
        let node = self.node();
        running.execute("blockdev-del", &json!({ "node-name": node }))?;
        let clone = self.booted(disk, self.qemu.settings.boot_limit, interrupt)?;
        let seconds = begin.elapsed().as_secs_f64();
        let first = clone.beats.first()?.record;
        if first <= promised {
            let what = format!("the clone goes on after record {first} of its disk, and {promised} had been kept");
            return Err(clone.failed(what));
        }
        self.is_image(&clone.disk)?;
        let silent_ms = Some(running.beats.longest_silence_ms());
        Ok((Done { seconds, silent_ms, moved_bytes: self.image.bytes, ..Done::default() }, running))
    }

    fn migrate(&mut self, mut running: Running, interrupt: &AtomicBool) -> Result<(Done, Running), SiteError> {
        running.beats.begin_again();
        let begin = Instant::now();
        let disk = running.disk.again().map_err(SiteError::io("opening a guest's disk again"))?;
        // A port would take a guest from whoever comes first, and QEMU trusts what it receives.
        let (from, to) = UnixStream::pair().map_err(SiteError::io("making a pair of sockets"))?;
        let mut target = self.started(disk, Some(&to))?;
        drop(to);
        let given = running.qmp.hand_over(GIVEN, &from);
        given.map_err(|why| running.failed(format!("giving QEMU the socket for a guest: {why}")))?;
        drop(from);
        running.execute("migrate", &json!({ "uri": format!("fd:{GIVEN}") }))?;
        let moved = until(interrupt, "a guest is moved", || {
            let answer = running.execute("query-migrate", &json!({}))?;
            match answer["status"].as_str() {
                Some("completed") => Ok(Some(answer)),
                Some("failed" | "cancelled") => {
                    Err(running.failed(format!("QEMU has not moved the guest: {}", answer["error-desc"])))
                }
                _ => Ok(None),
            }
        })?;
        target.beats.wait_for_first(SILENCE, interrupt).map_err(|why| target.ended(why))?;
        let seconds = begin.elapsed().as_secs_f64();
        let (before, after) = (running.beats.last()?, target.beats.first()?);
        if after.number <= before.number || after.record < before.record {
            let what = format!("the guest said {before:?} before it was moved, and {after:?} as it went on");
            return Err(target.failed(what));
        }
        let number = |key: &str| moved[key].as_f64();
        let done = Done {
            seconds,
            down_ms: number("downtime"),
            migration_ms: number("total-time"),
            silent_ms: Some(running.beats.longest_silence_ms().max(target.beats.since_ms(&running.beats))),
            moved_bytes: moved["ram"]["transferred"].as_u64().unwrap_or(0),
        };
        Ok((done, target))
    }

    fn migrate_storage(&mut self, mut running: Running, interrupt: &AtomicBool) -> Result<(Done, Running), SiteError> {
        running.beats.begin_again();
        let before = (self.copies > 0).then(|| self.node());
        let begin = Instant::now();
        let disk = self.copied(&mut running, "blockdev-mirror", interrupt)?;
        let seconds = begin.elapsed().as_secs_f64();
        let node = self.node();
        let blocks = running.execute("query-block", &json!({}))?;
        let now = blocks.as_array().into_iter().flatten().find(|one| one["device"] == DISK);
        if now.is_none_or(|now| now["inserted"]["node-name"] != node.as_str()) {
            return Err(running.failed("the guest's disk is not the new file".to_owned()));
        }
        if let Some(before) = before {
            running.execute("blockdev-del", &json!({ "node-name": before }))?;
        }
        running.disk = disk;
        // What is kept from now on is in the new file, with all that was kept before.
        let promised = running.beats.last()?.record;
        let kept = running.beats.wait_for_record(promised + 1, SILENCE, interrupt).map_err(|why| running.ended(why))?;
        let found = running.disk.last_record().map_err(SiteError::io("reading a guest's disk"))?;
        if found < kept {
            return Err(running.failed(format!("record {kept} was kept, and the new file has {found}")));
        }
        self.is_image(&running.disk)?;
        let silent_ms = Some(running.beats.longest_silence_ms());
        Ok((Done { seconds, silent_ms, moved_bytes: self.image.bytes, ..Done::default() }, running))
    }

    /// The name of the last copy of a running guest's disk.
    fn node(&self) -> String {
        format!("copy{}", self.copies)
    }

    /// Copies the disk of a running guest by a job of QEMU's, to its end.
    fn copied(&mut self, running: &mut Running, how: &str, interrupt: &AtomicBool) -> Result<Image, SiteError> {
        let disk = Image::empty(self.image.bytes).map_err(SiteError::io("making a file for a disk"))?;
        self.copies += 1;
        let node = self.node();
        let direct = json!({ "direct": true, "no-flush": false });
        running.execute(
            "blockdev-add",
            &json!({ "driver": "raw", "node-name": node, "cache": direct,
                "file": { "driver": "file", "filename": disk.path(), "cache": direct } }),
        )?;
        let job = json!({ "job-id": JOB, "device": DISK, "target": node, "sync": "full", "auto-dismiss": false });
        running.execute(how, &job)?;
        let mut completing = false;
        until(interrupt, "a disk is copied", || {
            let jobs = running.execute("query-jobs", &json!({}))?;
            let Some(job) = jobs.as_array().into_iter().flatten().find(|job| job["id"] == JOB) else {
                return Err(running.failed("QEMU has lost the job that copies a disk".to_owned()));
            };
            match (job["status"].as_str(), job["error"].as_str()) {
                (_, Some(why)) => Err(running.failed(format!("copying a disk: {why}"))),
                (Some("ready"), None) if !completing => {
                    completing = true;
                    running.execute("job-complete", &json!({ "id": JOB })).map(|_| None)
                }
                (Some("concluded"), None) => running.execute("job-dismiss", &json!({ "id": JOB })).map(Some),
                _ => Ok(None),
            }
        })?;
        Ok(disk)
    }

    /// A guest with this disk that works.
    fn booted(&self, disk: Image, limit: Duration, interrupt: &AtomicBool) -> Result<Running, SiteError> {
        let mut guest = self.started(disk, None)?;
        guest.beats.wait_for_first(limit, interrupt).map_err(|why| guest.ended(why))?;
        Ok(guest)
    }

    /// A guest that starts, or that waits for one that is moved here through a socket.
    fn started(&self, disk: Image, incoming: Option<&UnixStream>) -> Result<Running, SiteError> {
        let settings = with_disk(&self.qemu.settings, &disk);
        let qemu = Qemu { program: self.qemu.program.clone(), settings, once: Arc::clone(&self.qemu.once) };
        let (mut command, mut qmp) = qemu.command(self.emulated)?;
        if let Some(socket) = incoming {
            command.arg("-incoming").arg(format!("fd:{}", socket.as_raw_fd()));
            hand_over(&mut command, socket);
        }
        let _held =
            confine::hold(&mut command, &self.limits, libc::SIGKILL).map_err(SiteError::io("giving QEMU its CPUs"))?;
        let mut guest = Piped::spawn(&mut command)?;
        qmp.handed_over();
        let (from_port, to_port) = guest.streams("QEMU")?;
        let beats = Arc::new(Beats::default());
        let heard = Arc::clone(&beats);
        thread::spawn(move || heard.hear(from_port));
        let mut running = Running { guest, qmp, beats, disk, _to_port: to_port };
        let ready = running.qmp.wait_until_ready();
        ready.map_err(|why| running.ended(not_ready(format!("QEMU's machine protocol: {why}"))))?;
        qemu.settle(self.emulated, &mut running.qmp, running.guest.pid())
            .map_err(|what| running.failed(what.to_string()))?;
        Ok(running)
    }

    /// Whether a disk is the image beyond its records.
    fn is_image(&self, disk: &Image) -> Result<(), SiteError> {
        let same = self.image.same_beyond_records(disk).map_err(SiteError::io("comparing a disk with its image"))?;
        if same { Ok(()) } else { Err(not_ready("the disk of a guest differs from its image")) }
    }
}

fn with_disk(settings: &Settings, disk: &Image) -> Settings {
    Settings { disks: Disks { paths: vec![disk.path()], ..Disks::default() }, ..settings.clone() }
}

/// Asks again and again until there is an answer.
fn until<T>(
    interrupt: &AtomicBool,
    what: &str,
    mut ask: impl FnMut() -> Result<Option<T>, SiteError>,
) -> Result<T, SiteError> {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        unless(interrupt)?;
        if Instant::now() >= deadline {
            return Err(not_ready(format!("{what}: not done within {} s", LIMIT.as_secs())));
        }
        thread::sleep(GLANCE);
    }
}

/// A guest. Dropping it ends it; its disk goes with it.
struct Running {
    guest: Piped,
    qmp: Qmp,
    beats: Arc<Beats>,
    disk: Image,
    /// Without it QEMU would hear the end of the port.
    _to_port: ChildStdin,
}

impl Running {
    fn execute(&mut self, what: &str, arguments: &Value) -> Result<Value, SiteError> {
        self.qmp.execute(what, arguments).map_err(|why| self.failed(format!("QEMU's machine protocol: {why}")))
    }

    /// With the last lines of the guest's console and of QEMU.
    fn failed(&self, what: String) -> SiteError {
        let mut log = self.guest.log();
        log.extend(self.qmp.stopped().map(str::to_owned));
        SiteError::NotReady { what, log }
    }

    /// An end that came before it was due, with what is known of it.
    fn ended(&mut self, why: SiteError) -> SiteError {
        if matches!(why, SiteError::Interrupted) {
            return why;
        }
        self.guest.kill();
        self.failed(why.to_string())
    }
}

/// What is heard of a guest.
#[derive(Default)]
struct Beats {
    heard: Mutex<Heard>,
    changed: Condvar,
}

#[derive(Default)]
struct Heard {
    first: Option<(Beat, Instant)>,
    last: Option<(Beat, Instant)>,
    /// The longest time between two, since [`Beats::begin_again`].
    longest: Duration,
    ended: bool,
}

impl Beats {
    fn hear(&self, port: impl Read) {
        for line in BufReader::new(port).split(b'\n').map_while(Result::ok) {
            let Some(beat) = beat::read(&String::from_utf8_lossy(&line)) else { continue };
            let now = Instant::now();
            let mut heard = self.lock();
            let silence = heard.last.map(|(_, at)| now.duration_since(at)).unwrap_or_default();
            heard.longest = heard.longest.max(silence);
            heard.first.get_or_insert((beat, now));
            heard.last = Some((beat, now));
            self.changed.notify_all();
        }
        self.lock().ended = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the longest silence so far.
    fn begin_again(&self) {
        self.lock().longest = Duration::ZERO;
    }

    fn wait_for_first(&self, limit: Duration, interrupt: &AtomicBool) -> Result<(), SiteError> {
        self.wait(limit, interrupt, |heard| heard.first.is_some())
    }

    /// Waits until the guest's disk has kept this record; the last that it has kept by then.
    fn wait_for_record(&self, record: u64, limit: Duration, interrupt: &AtomicBool) -> Result<u64, SiteError> {
        self.wait(limit, interrupt, |heard| heard.last.is_some_and(|(beat, _)| beat.record >= record))?;
        Ok(self.last()?.record)
    }

    fn wait(&self, limit: Duration, interrupt: &AtomicBool, met: impl Fn(&Heard) -> bool) -> Result<(), SiteError> {
        let deadline = Instant::now() + limit;
        let mut heard = self.lock();
        while !met(&heard) {
            unless(interrupt)?;
            if heard.ended {
                return Err(not_ready("the guest ended"));
            }
            if Instant::now() >= deadline {
                return Err(not_ready(format!("nothing was heard of the guest within {} s", limit.as_secs())));
            }
            heard = self
                .changed
                .wait_timeout(heard, crate::interruptible::GLANCE)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        Ok(())
    }

    fn first(&self) -> Result<Beat, SiteError> {
        self.lock().first.map(|(beat, _)| beat).ok_or_else(|| not_ready("nothing was heard of the guest"))
    }

    fn last(&self) -> Result<Beat, SiteError> {
        self.lock().last.map(|(beat, _)| beat).ok_or_else(|| not_ready("nothing was heard of the guest"))
    }

    fn longest_silence_ms(&self) -> f64 {
        1e3 * self.lock().longest.as_secs_f64()
    }

    /// The time from the last of another guest to the first of this one, in ms.
    fn since_ms(&self, before: &Beats) -> f64 {
        let (last, first) = (before.lock().last, self.lock().first);
        let since = last.zip(first).map(|((_, last), (_, first))| first.duration_since(last));
        1e3 * since.unwrap_or_default().as_secs_f64()
    }
}

/// A disk: a file without a name.
struct Image {
    file: File,
    bytes: u64,
}

impl Image {
    fn empty(bytes: u64) -> io::Result<Image> {
        let file = private_folder::nameless_file(&std::env::temp_dir(), PREFIX)?;
        file.set_len(bytes)?;
        Ok(Image { file, bytes })
    }

    /// Random bytes, but for an empty log of records.
    fn random(bytes: u64, seed: u64) -> io::Result<Image> {
        let image = Image::empty(bytes)?;
        let (mut random, mut chunk) = (Rng::new(seed), vec![0; CHUNK]);
        let mut at = LOG_BYTES as u64;
        while at < bytes {
            chunk
                .chunks_exact_mut(size_of::<u64>())
                .for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
            let count = chunk.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
            image.file.write_all_at(&chunk[..count], at)?;
            at += count as u64;
        }
        image.file.sync_data()?;
        Ok(image)
    }

    /// A copy that the disk below has kept.
    fn copy(&self) -> io::Result<Image> {
        let copy = Image::empty(self.bytes)?;
        io::copy(&mut File::open(self.path())?, &mut &copy.file)?;
        copy.file.sync_data()?;
        Ok(copy)
    }

    /// The same file once more.
    fn again(&self) -> io::Result<Image> {
        Ok(Image { file: self.file.try_clone()?, bytes: self.bytes })
    }

    /// Where others find it while it is open here.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    fn last_record(&self) -> io::Result<u64> {
        let mut log = vec![0; LOG_BYTES];
        self.file.read_exact_at(&mut log, 0)?;
        Ok(beat::last_record(&log))
    }

    fn same_beyond_records(&self, other: &Image) -> io::Result<bool> {
        let (mut own, mut others) = (vec![0; CHUNK], vec![0; CHUNK]);
        let mut at = LOG_BYTES as u64;
        while at < self.bytes {
            let count = CHUNK.min(usize::try_from(self.bytes - at).unwrap_or(usize::MAX));
            self.file.read_exact_at(&mut own[..count], at)?;
            other.file.read_exact_at(&mut others[..count], at)?;
            if own[..count] != others[..count] {
                return Ok(false);
            }
            at += count as u64;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_copy_is_the_image_until_a_byte_beyond_the_records_differs() {
        let image = Image::random(3 * CHUNK as u64 + 4096, 7).expect("an image");
        let copy = image.copy().expect("a copy");
        let (at, record) = beat::record(5);
        copy.file.write_all_at(&record, at).expect("written");
        assert!(image.same_beyond_records(&copy).expect("read"), "records may differ");
        assert_eq!((image.last_record().expect("read"), copy.last_record().expect("read")), (0, 5));
        copy.file.write_all_at(b"x", 2 * CHUNK as u64).expect("written");
        assert!(!image.same_beyond_records(&copy).expect("read"));
        let other = Image::random(3 * CHUNK as u64 + 4096, 8).expect("an image");
        assert!(!image.same_beyond_records(&other).expect("read"), "of another seed");
    }

    #[test]
    fn beats_are_heard_with_their_silences_and_their_end() {
        let (port, mut guest) = io::pipe().expect("a pipe");
        let beats = Arc::new(Beats::default());
        let heard = Arc::clone(&beats);
        let hearing = thread::spawn(move || heard.hear(port));
        let never = AtomicBool::new(false);
        guest.write_all(b"baremark guest ready\nbeat 1 0\n").expect("written");
        beats.wait_for_first(SILENCE, &never).expect("it works");
        beats.begin_again();
        thread::sleep(Duration::from_millis(30));
        guest.write_all(b"beat 2 9\n").expect("written");
        assert_eq!(beats.wait_for_record(8, SILENCE, &never).expect("kept"), 9);
        assert!(beats.longest_silence_ms() >= 30.0);
        assert_eq!(beats.first().expect("a first").number, 1);
        drop(guest);
        hearing.join().expect("no panic");
        let why = beats.wait_for_record(10, SILENCE, &never).expect_err("it ended");
        assert!(why.to_string().contains("the guest ended"), "{why}");
        never.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(matches!(beats.wait_for_record(10, SILENCE, &never), Err(SiteError::Interrupted)));
    }
}
