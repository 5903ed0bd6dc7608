//! A program natively and in the guest, each time in an empty folder of its own: what it prints and how it ends, compared.

use crate::cases::{Case, STREAM_C};
use crate::load;
use crate::support::{Ended, command, skip};
use baremark_guest_program::Report;
use baremark_sys::confine;
use baremark_sys::network::HeldPort;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Programs that print nothing when all is well.
const QUIET: [&str; 2] = ["stress-ng", "timeout"];
/// The wall time after which a run of the usual tests is ended: more than a program takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How much later a guest is ended from outside: by then it has ended itself and said where its threads stood.
const GRACE: Duration = Duration::from_secs(120);

fn is_there(program: &str) -> bool {
    let in_path = |path: String| path.split(':').any(|folder| Path::new(folder).join(program).exists());
    if program.contains('/') { Path::new(program).exists() } else { std::env::var("PATH").is_ok_and(in_path) }
}

/// What is not there of what a case needs.
fn absent(need: &str) -> Option<String> {
    match need {
        STREAM_C => no_stream(),
        _ => (!is_there(need)).then(|| need.to_owned()),
    }
}

/// Why there is no STREAM by its author, as what there is not.
fn no_stream() -> Option<String> {
    if let Some(own) = std::env::var_os("STREAM_C").filter(|own| !own.is_empty()) {
        let own = Path::new(&own);
        let is_found = own.is_absolute() && own.is_file();
        return (!is_found).then(|| format!("file {}, which STREAM_C is to name by its whole path", own.display()));
    }
    let Some(peers) = std::env::var_os("BAREMARK_PEERS") else {
        return Some("source: neither STREAM_C nor BAREMARK_PEERS is set".to_owned());
    };
    let is_source = |entry: fs::DirEntry| entry.path().join("STREAM/stream.c").is_file();
    let is_found = fs::read_dir(&peers).is_ok_and(|entries| entries.flatten().any(is_source));
    let peers = Path::new(&peers).display();
    (!is_found).then(|| format!("source of hpcc in {peers}: scripts/fetch-hpcc gets it, or STREAM_C names a stream.c"))
}

fn without(text: &str, varies: &[&str]) -> Vec<String> {
    let same = |line: &&str| !varies.iter().any(|word| line.contains(word));
    text.lines().filter(same).map(str::to_owned).collect()
}

/// What a program finds in its folder.
fn folder_of(case: &Case) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    if !case.before.is_empty() {
        let mut before = std::process::Command::new("sh");
        let done = before.args(["-c", case.before]).current_dir(folder.path()).stdin(Stdio::null()).status().unwrap();
        assert!(done.success(), "{}: what comes before it fails", case.name);
    }
    folder
}

/// Kills a process group that is still there after `limit`, unless what this returns is dropped before.
fn killed_after(limit: Duration, group: u32) -> Sender<()> {
    let (kept, dropped) = mpsc::channel();
    thread::spawn(move || {
        if dropped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            confine::send(-group.cast_signed(), libc::SIGKILL).unwrap();
        }
    });
    kept
}

/// What a stream has until its end.
fn collected(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    let mut stream = stream.unwrap();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// How a program ended, with what came of the requests that were made of it.
fn with_answers(mut ended: Ended, answers: Result<String, String>) -> Result<Ended, String> {
    let answers = answers.map_err(|why| format!("{why}; {ended:?}"))?;
    ended.stdout += &answers;
    Ok(ended)
}

/// The port of a program that is a server, held for it.
fn port_of(case: &Case) -> Option<HeldPort> {
    (!case.pages.is_empty()).then(|| HeldPort::any().unwrap())
}

/// Makes the requests of a program that is a server.
fn answers(case: &Case, port: Option<&HeldPort>, folder: &Path, limit: Duration) -> Result<String, String> {
    port.map_or(Ok(String::new()), |port| load::asked(case.pages, port.number(), folder, limit))
}

/// In a process group of its own, and not as a part of `cargo` and `make`, by which the tests are run: their folders of libraries would be
/// searched, and make would say that it is another's.
fn on_its_own(command: &mut std::process::Command) {
    command.process_group(0);
    for name in ["LD_LIBRARY_PATH", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"] {
        command.env_remove(name);
    }
}

/// A program natively, and how long it took. With all that it has started and its output it must end within the limit of wall time;
/// if not it is killed.
pub fn natively(case: &Case, limit: Duration) -> Result<(Ended, Duration), String> {
    let folder = folder_of(case);
    let mut command = std::process::Command::new(case.program);
    on_its_own(command.args(case.arguments));
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let port = port_of(case);
    if let Some(port) = &port {
        command.env("PORT", port.number().to_string()).stdin(Stdio::piped());
    }
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    let _watch = killed_after(limit, child.id());
    let (stdout, stderr) = (collected(child.stdout.take()), collected(child.stderr.take()));
    let answers = answers(case, port.as_ref(), folder.path(), limit);
    // Closes its input first, by which a server ends.
    let status = child.wait().unwrap();
    let took = began.elapsed();
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    if began.elapsed() >= limit {
        return Err(format!("natively no end within {} s", limit.as_secs()));
    }
    let ended = with_answers(Ended::new(status, &stdout, &stderr), answers).map_err(|why| format!("natively {why}"))?;
    Ok((ended, took))
}

/// A program in the guest, with the same limit.
pub fn in_the_guest(case: &Case, limit: Duration) -> Result<(Ended, Report), String> {
    in_the_guest_with(case, limit, false)
}

fn in_the_guest_with(case: &Case, limit: Duration, exitless: bool) -> Result<(Ended, Report), String> {
    let folder = folder_of(case);
    let mut command = command(case.program, case.arguments);
    command.current_dir(folder.path()).time_limit(limit).exitless(exitless);
    on_its_own(command.stdout(Stdio::piped()).stderr(Stdio::piped()).process());
    let port = port_of(case);
    if let Some(port) = &port {
        command.env("PORT", port.number().to_string()).stdin(Stdio::piped());
    }
    let began = Instant::now();
    let child = command.spawn().unwrap();
    let _watch = killed_after(limit + GRACE, child.id());
    let answers = answers(case, port.as_ref(), folder.path(), limit);
    let output = child.wait_with_output().map_err(|why| format!("in the guest: {why}"))?;
    if began.elapsed() >= limit + GRACE {
        return Err(format!("in the guest no end of its output within {} s", (limit + GRACE).as_secs()));
    }
    let ended = Ended::new(output.report.status, &output.stdout, &output.stderr);
    let ended = with_answers(ended, answers).map_err(|why| format!("in the guest {why}"))?;
    Ok((ended, output.report))
}

/// What is not installed of what a program needs.
pub fn missing(case: &Case) -> Option<String> {
    case.needs.iter().chain([&case.program]).find_map(|need| absent(need))
}

/// Whether a program's own output natively says that it did something: a script that fails would compare its failure. Only the quiet ones
/// may print nothing.
pub fn says_something(case: &Case, natively: &Ended) -> bool {
    !natively.stdout.is_empty() || QUIET.contains(&case.program)
}

/// How a program ended and what it wrote, without what may differ.
pub fn compared(case: &Case, ended: &Ended) -> (String, Vec<String>, Vec<String>) {
    (ended.status.clone(), without(&ended.stdout, case.varies), without(&ended.stderr, case.varies))
}

/// Runs a program in both ways; what differs.
pub fn difference(case: &Case, exitless: bool) -> Option<String> {
    if let Some(missing) = missing(case) {
        skip(&format!("no {missing}"));
        return None;
    }
    differs(case, exitless).unwrap_or_else(Some).map(|how| format!("{}: {how}", case.name))
}

fn differs(case: &Case, exitless: bool) -> Result<Option<String>, String> {
    let (expected, _) = natively(case, PATIENCE)?;
    if !says_something(case, &expected) {
        return Ok(Some(format!("prints nothing natively: {expected:?}")));
    }
    let (found, report) = in_the_guest_with(case, PATIENCE, exitless)?;
    let (expected, found) = (compared(case, &expected), compared(case, &found));
    let said = || format!("natively {expected:?}, in the guest {found:?}, {report:?}");
    Ok((expected != found).then(said))
}
