//! What any program accesses: it is run once under valgrind's lackey, whose trace comes over a socket on the loopback address
//! and is sampled as it arrives, so that it is never stored.
//!
//! The program's own output goes to standard error: standard output is the prediction's. Its first process alone is traced; one
//! that it leaves in the background neither adds to the trace nor keeps it from ending.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use baremark_mmu::trace::{Sampling, Trace, TraceError};
use std::ffi::OsString;
use std::io::{self, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a read waits before it checks whether the program has ended, or the user wishes to stop.
const GLANCE: Duration = Duration::from_millis(100);

/// A sample of the accesses of a program, which is run to its end.
pub fn trace(context: &Context, program: &[OsString]) -> Result<Trace, Refusal> {
    let failed = |what: &'static str| move |why: io::Error| Refusal::failure(format!("{what}: {why}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed("listening for the trace"))?;
    listener.set_nonblocking(true).map_err(failed("listening for the trace"))?;
    let address = listener.local_addr().map_err(failed("listening for the trace"))?;
    let name = program.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut child = started(program, &address.to_string())?;
    crate::watch::say(format_args!(
        "tracing {name} under valgrind, where it takes many times as long as it does alone"
    ));
    let trace = receive(context, &listener, &mut child);
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
        Ok(trace) => Ok(trace),
    }
}

fn started(program: &[OsString], address: &str) -> Result<Child, Refusal> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=lackey", "--trace-mem=yes", "--child-silent-after-fork=yes"]);
    command.args([&format!("--log-socket={address}"), "--"]).args(program);
    command.stdin(Stdio::null()).stdout(Stdio::from(io::stderr()));
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
fn receive(context: &Context, listener: &TcpListener, child: &mut Child) -> Result<Result<Trace, TraceError>, Refusal> {
    loop {
        match listener.accept() {
            Ok((socket, _)) => return Ok(sampled(Source { context, socket, child, ended: false })),
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

/// A socket that ends with the program, whoever else still holds it, and with an error when the user wishes to stop.
struct Source<'s> {
    context: &'s Context,
    socket: TcpStream,
    child: &'s mut Child,
    ended: bool,
}

impl io::Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.context.interrupt.load(Ordering::Relaxed) {
                return Err(io::Error::other("interrupted"));
            }
            match self.socket.read(buffer) {
                Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                read => return read,
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
