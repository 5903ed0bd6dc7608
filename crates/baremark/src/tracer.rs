//! What any program accesses: it is run once under valgrind's lackey, whose trace comes over a socket on the loopback address
//! and is sampled as it arrives, so that it is never stored.
//!
//! The program's own output goes to standard error: standard output is the prediction's. Its first process alone is traced; one
//! that it leaves in the background neither adds to the trace nor keeps it from ending.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use baremark_mmu::trace::{Sampling, Trace, TraceError};
use baremark_model::units::Nanos;
use baremark_sys::confine::{self, Limits};
use std::ffi::OsString;
use std::io::{self, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a read waits before it checks whether the program has ended, or the user wishes to stop.
const GLANCE: Duration = Duration::from_millis(100);

/// A sample of the accesses of a program, which is run to its end, and whether it came to it.
///
/// A program that takes longer than `limit` is ended, and the sample is of what it did until then.
pub fn trace(context: &Context, program: &[OsString], limit: Duration) -> Result<(Trace, bool), Refusal> {
    let failed = |what: &'static str| move |why: io::Error| Refusal::failure(format!("{what}: {why}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed("listening for the trace"))?;
    listener.set_nonblocking(true).map_err(failed("listening for the trace"))?;
    let address = listener.local_addr().map_err(failed("listening for the trace"))?;
    let name = program.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut child = started(program, &address.to_string())?;
    crate::watch::say(format_args!(
        "tracing {name} under valgrind, where it takes many times as long as it does alone; --limit ends it after {}",
        Nanos(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
    ));
    let mut progress =
        Progress { quiet: context.quiet, begun: Instant::now(), shown: Duration::ZERO, limit, over: false };
    let trace = receive(context, &listener, &mut child, &mut progress);
    if progress.over {
        // Killed, since it would go on writing its trace, then to the terminal.
        let _ = child.kill();
        drop(child.wait());
        crate::watch::say(format_args!("{name} was ended after the limit: the prediction is of its beginning"));
        let trace = trace?.map_err(|why| Refusal::bad_input(format!("tracing {name}: {why}")));
        return Ok((trace?, false));
    }
    let whole = matches!(trace, Ok(Ok(_) | Err(TraceError::Truncated(_) | TraceError::Empty)));
    if !whole {
        // It may have ended by itself; either way nothing of it is left running.
        let _ = child.kill();
    }
    let status = child.wait().map_err(failed("waiting for the program"))?;
    if context.interrupt.load(Ordering::Relaxed) {
        return Err(interrupted());
    }
    match trace? {
        Err(why) if !whole => Err(Refusal::bad_input(format!("tracing {name}: {why}"))),
        _ if !status.success() => Err(Refusal::bad_input(format!(
            "{name} ended with {} under the tracer; it must succeed there to be predicted",
            told(status)
        ))),
        Err(why) => Err(Refusal::bad_input(format!("tracing {name}: {why}"))),
        Ok(trace) => Ok((trace, true)),
    }
}

fn started(program: &[OsString], address: &str) -> Result<Child, Refusal> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=lackey", "--trace-mem=yes", "--child-silent-after-fork=yes", "--vgdb=no"]);
    command.args([&format!("--log-socket={address}"), "--"]).args(program);
    command.stdin(Stdio::null()).stdout(Stdio::from(io::stderr()));
    // Without its reader valgrind would write the trace to the terminal: it ends with this process, however that dies.
    let held = confine::hold(&mut command, &Limits::default(), confine::SIGKILL);
    held.map_err(|why| Refusal::failure(format!("starting valgrind: {why}")))?;
    command.spawn().map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => Refusal {
            exit: Exit::Missing,
            message: "valgrind is not installed, and programs are traced with it; install the package valgrind"
                .to_owned(),
        },
        _ => Refusal::failure(format!("starting valgrind: {why}")),
    })
}

/// The trace, or why there is none; the outer error is that nothing was received at all.
fn receive(
    context: &Context,
    listener: &TcpListener,
    child: &mut Child,
    progress: &mut Progress,
) -> Result<Result<Trace, TraceError>, Refusal> {
    loop {
        match listener.accept() {
            Ok((socket, _)) => return Ok(sampled(Source { context, socket, child, progress, ended: false })),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) => return Err(Refusal::failure(format!("receiving the trace: {why}"))),
        }
        let ended = child.try_wait().map_err(|why| Refusal::failure(format!("waiting for the program: {why}")))?;
        if let Some(status) = ended {
            let message = format!("the program could not be run under valgrind ({}); is its name right?", told(status));
            return Err(Refusal::bad_input(message));
        }
        if context.interrupt.load(Ordering::Relaxed) {
            return Err(interrupted());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn sampled(source: Source<'_>) -> Result<Trace, TraceError> {
    source.socket.set_nonblocking(false)?;
    source.socket.set_read_timeout(Some(GLANCE))?;
    Trace::read(BufReader::with_capacity(1 << 20, source), Sampling::default())
}

/// How often is shown how long the program has been traced.
const SHOWN_EVERY: Duration = Duration::from_secs(5);

/// How long the program has been traced.
struct Progress {
    quiet: bool,
    begun: Instant,
    /// The time that was shown last.
    shown: Duration,
    limit: Duration,
    /// Whether the limit has ended the trace.
    over: bool,
}

impl Progress {
    /// Whether the limit has passed; shows the time now and then.
    fn late(&mut self) -> bool {
        let spent = self.begun.elapsed();
        if !self.quiet && spent >= self.shown + SHOWN_EVERY {
            self.shown = spent;
            crate::watch::say(format_args!(
                "traced for {:.0} s of at most {:.0} s",
                spent.as_secs_f64(),
                self.limit.as_secs_f64()
            ));
        }
        spent >= self.limit
    }

    /// How much of what was read is taken: all, or after the limit what ends a line.
    fn taken(&mut self, read: &[u8]) -> usize {
        if !self.late() {
            return read.len();
        }
        let line = read.iter().rposition(|byte| *byte == b'\n');
        self.over = line.is_some();
        line.map_or(read.len(), |at| at + 1)
    }
}

/// A socket that ends with the program, whoever else still holds it, with the end of a line after the limit, and with an error when the
/// user wishes to stop.
struct Source<'s> {
    context: &'s Context,
    socket: TcpStream,
    child: &'s mut Child,
    progress: &'s mut Progress,
    ended: bool,
}

impl io::Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.progress.over {
            return Ok(0);
        }
        loop {
            if self.context.interrupt.load(Ordering::Relaxed) {
                return Err(io::Error::other("interrupted"));
            }
            match self.socket.read(buffer) {
                Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Ok(count) => return Ok(self.progress.taken(&buffer[..count])),
                Err(why) => return Err(why),
            }
            // What it sent before it ended has been read when nothing comes afterwards.
            if self.ended {
                return Ok(0);
            }
            self.ended = self.child.try_wait()?.is_some();
        }
    }
}

fn interrupted() -> Refusal {
    Refusal { exit: Exit::Interrupted, message: "interrupted while the program was traced".to_owned() }
}

fn told(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}"))
}
