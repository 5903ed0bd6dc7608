//! A disk of two copies: what was synced is at both sites when it is acknowledged, and not before the way there and back has passed.

use baremark_delay::{Delay, Proxy};
use baremark_volatile_disk::{Replicated, SecondSite, mount_replicated};
use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const ROUND_TRIP: Duration = Duration::from_millis(30);

struct Bench {
    disk: Option<Replicated>,
    site: Option<SecondSite>,
    folder: tempfile::TempDir,
    _way: Box<dyn Any>,
}

impl Bench {
    /// A disk whose second site is a round trip away; `None` with a printed reason where none can be mounted.
    fn mount() -> Option<Bench> {
        Bench::mount_by(|site| {
            let delay = Delay { one_way: ROUND_TRIP / 2, ..Delay::default() };
            let proxy = Proxy::tcp((Ipv4Addr::LOCALHOST, 0).into(), site, delay).unwrap();
            (proxy.address(), Box::new(proxy))
        })
    }

    /// A disk whose second site is reached by the address that `way` gives for its own.
    fn mount_by(way: impl FnOnce(SocketAddr) -> (SocketAddr, Box<dyn Any>)) -> Option<Bench> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").map(drop);
        if let Err(why) = device.and_then(|()| baremark_sys::mounts::own_mounts()) {
            eprintln!("skipped: no disk can be mounted ({why}); it takes /dev/fuse and the superuser");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["first", "second", "at"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let site = SecondSite::serve(&folder.path().join("second")).unwrap();
        let (address, way) = way(site.address());
        let second = Some((&site, address));
        let disk = mount_replicated(&folder.path().join("first"), second, &folder.path().join("at")).unwrap();
        Some(Bench { disk: Some(disk), site: Some(site), folder, _way: way })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join("at").join(name)
    }

    fn second(&self, name: &str) -> PathBuf {
        self.folder.path().join("second").join(name)
    }
}

/// Names below a folder, with the contents of files.
fn contents(root: &Path, below: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(root.join(below)).unwrap().map(Result::unwrap) {
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            found.push((path.clone(), Vec::new()));
            contents(root, &path, found);
        } else {
            found.push((path.clone(), fs::read(root.join(&path)).unwrap()));
        }
    }
    found.sort();
}

#[test]
fn what_is_acknowledged_is_at_both_sites_after_a_round_trip_and_nothing_else_is() {
    let Some(bench) = Bench::mount() else { return };
    let mut file = File::options().read(true).write(true).create_new(true).open(bench.at("file")).unwrap();
    file.write_all_at(b"kept", 0).unwrap();
    let seen = bench.disk.as_ref().unwrap().seen();
    assert_eq!(seen.writes, 0, "a write to the page cache is nothing that the second site acknowledges: {seen:?}");
    file.seek(SeekFrom::End(0)).unwrap();
    let began = Instant::now();
    file.sync_data().unwrap();
    assert!(began.elapsed() >= ROUND_TRIP, "{:?}", began.elapsed());
    assert_eq!(fs::read_to_string(bench.second("file")).unwrap(), "kept");
    file.write_all(b" and not synced").unwrap();
    for (name, flag) in [("o_dsync", libc::O_DSYNC), ("o_sync", libc::O_SYNC)] {
        let mut file = File::options().write(true).create_new(true).custom_flags(flag).open(bench.at(name)).unwrap();
        let began = Instant::now();
        file.write_all(b"kept").unwrap();
        assert!(began.elapsed() >= ROUND_TRIP, "{name}: {:?}", began.elapsed());
        assert_eq!(fs::read_to_string(bench.second(name)).unwrap(), "kept", "{name}");
    }
    let seen = bench.disk.as_ref().unwrap().seen();
    assert!(seen.writes == 3 && seen.write_ns >= 3 * 30_000_000, "{seen:?}");
    // What was not synced is the page cache's.
    assert_eq!(fs::read_to_string(bench.second("file")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(bench.at("file")).unwrap(), "kept and not synced");
}

/// A way to the second site on which its acknowledgements can be held.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
    held: AtomicBool,
}

impl Gate {
    /// The address of the way to `site`.
    fn before(self: &Arc<Self>, site: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, gate) = (listener.local_addr().unwrap(), Arc::clone(self));
        thread::spawn(move || {
            let (mut disk, mut site) = (listener.accept().unwrap().0, TcpStream::connect(site).unwrap());
            let (mut from_disk, mut to_site) = (disk.try_clone().unwrap(), site.try_clone().unwrap());
            thread::spawn(move || {
                drop(std::io::copy(&mut from_disk, &mut to_site));
                drop(to_site.shutdown(Shutdown::Write));
            });
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = site.read(&mut buffer) {
                gate.pass();
                if disk.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
        });
        address
    }

    fn pass(&self) {
        let mut closed = self.closed.lock().unwrap();
        self.held.store(*closed, Ordering::SeqCst);
        while *closed {
            closed = self.opened.wait(closed).unwrap();
        }
    }

    fn close(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.opened.notify_all();
    }
}

#[test]
fn a_sync_that_waits_for_the_second_site_holds_up_no_read() {
    let gate = Arc::new(Gate::default());
    let Some(bench) = Bench::mount_by(|site| (gate.before(site), Box::new(()))) else { return };
    fs::write(bench.folder.path().join("first/other"), "content").unwrap();
    let (mut file, other) = (File::create(bench.at("file")).unwrap(), bench.at("other"));
    file.write_all(b"kept").unwrap();
    gate.close(true);
    thread::scope(|scope| {
        let sync = scope.spawn(move || file.sync_all());
        let deadline = Instant::now() + Duration::from_secs(60);
        let wait_for = |is_so: &dyn Fn() -> bool| {
            while !is_so() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            is_so()
        };
        let held = wait_for(&|| gate.held.load(Ordering::SeqCst));
        let read = scope.spawn(|| fs::read_to_string(&other));
        let passed = wait_for(&|| read.is_finished()) && !sync.is_finished();
        gate.close(false);
        assert_eq!(read.join().unwrap().unwrap(), "content");
        sync.join().unwrap().unwrap();
        assert!(held && passed, "the answer of the second site was held: {held}; a read came before it: {passed}");
    });
    assert_eq!(fs::read_to_string(bench.second("file")).unwrap(), "kept");
}

#[test]
fn names_cuts_modes_and_files_without_a_name_are_the_same_at_both_sites() {
    let Some(mut bench) = Bench::mount() else { return };
    fs::create_dir_all(bench.at("a/b")).unwrap();
    let write = |name: &str, text: &[u8]| {
        let mut file = File::create(bench.at(name)).unwrap();
        file.write_all(text).unwrap();
        file
    };
    let file = write("a/b/file", &[7; 20_000]);
    file.sync_all().unwrap();
    file.set_len(5000).unwrap();
    file.write_all_at(b"later", 9000).unwrap();
    fs::rename(bench.at("a"), bench.at("c")).unwrap();
    fs::hard_link(bench.at("c/b/file"), bench.at("linked")).unwrap();
    fs::set_permissions(bench.at("linked"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("linked", bench.at("link")).unwrap();
    let nameless = write("gone", b"x");
    fs::remove_file(bench.at("gone")).unwrap();
    nameless.sync_all().unwrap();
    write("replaced", b"old").sync_all().unwrap();
    write("new", b"new").sync_all().unwrap();
    fs::rename(bench.at("new"), bench.at("replaced")).unwrap();
    file.sync_all().unwrap();
    drop((file, nameless));
    drop(bench.disk.take());
    let of = |site: &str| {
        let mut found = Vec::new();
        contents(&bench.folder.path().join(site), Path::new(""), &mut found);
        found
    };
    let (first, second) = (of("first"), of("second"));
    assert!(first == second && first.len() == 6, "{} and {} entries", first.len(), second.len());
    assert_eq!(fs::metadata(bench.second("linked")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(bench.second("replaced")).unwrap(), b"new");
}

#[test]
fn a_second_site_that_is_lost_fails_syncs_and_strangers_are_refused() {
    let Some(mut bench) = Bench::mount() else { return };
    let mut file = File::create(bench.at("file")).unwrap();
    file.write_all(b"kept").unwrap();
    file.sync_all().unwrap();
    // The site serves one connection, whoever comes.
    if let Ok(mut stranger) = TcpStream::connect(bench.site.as_ref().unwrap().address()) {
        drop(stranger.write_all(&[0; 16]));
        stranger.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(stranger.read(&mut [0; 1]).unwrap_or(0), 0);
    }
    drop(bench.site.take());
    file.write_all(b"more").unwrap();
    assert!(file.sync_all().is_err(), "a sync was acknowledged by one site");
    assert_eq!(fs::read_to_string(bench.second("file")).unwrap(), "kept");
}
