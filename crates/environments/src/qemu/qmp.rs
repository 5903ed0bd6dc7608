//! QEMU's own account of a guest, over its machine protocol (QMP) on a pair of sockets that nobody else can reach.

use super::root::hand_over;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

/// How long QEMU may take to answer.
const LIMIT: Duration = Duration::from_secs(10);

/// The lab's end.
pub struct Qmp {
    from: BufReader<UnixStream>,
    to: UnixStream,
    /// QEMU's end, until it has it.
    theirs: Option<UnixStream>,
}

impl Qmp {
    /// Gives `command` the other end.
    pub fn attach(command: &mut Command) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(LIMIT))?;
        ours.set_write_timeout(Some(LIMIT))?;
        let number = theirs.as_raw_fd();
        command.arg("-chardev").arg(format!("socket,id=qmp,fd={number}"));
        command.args(["-mon", "chardev=qmp,mode=control"]);
        hand_over(command, &theirs);
        Ok(Qmp { from: BufReader::new(ours.try_clone()?), to: ours, theirs: Some(theirs) })
    }

    /// Begins to talk, once QEMU runs.
    pub fn greet(&mut self) -> io::Result<()> {
        // Without a copy of QEMU's end of our own we hear when QEMU ends.
        self.theirs = None;
        self.line()?;
        self.ask("qmp_capabilities").map(drop)
    }

    /// The threads of the virtual processors, in order.
    pub fn vcpu_threads(&mut self) -> io::Result<Vec<libc::pid_t>> {
        let answer = self.ask("query-cpus-fast")?;
        let thread = |cpu: &Value| {
            let place = cpu["cpu-index"].as_u64()?;
            Some((place, libc::pid_t::try_from(cpu["thread-id"].as_i64()?).ok()?))
        };
        let mut threads: Vec<_> = answer.as_array().into_iter().flatten().filter_map(thread).collect();
        threads.sort_unstable();
        Ok(threads.into_iter().map(|(_, thread)| thread).collect())
    }

    /// Whether KVM runs the guest.
    pub fn kvm(&mut self) -> io::Result<bool> {
        Ok(self.ask("query-kvm")?["enabled"] == true)
    }

    /// Runs a line of QEMU's monitor for people, which complains in its answer and is silent otherwise.
    pub fn monitor(&mut self, line: &str) -> io::Result<()> {
        let arguments = json!({ "command-line": line });
        let answer = self.send(&json!({ "execute": "human-monitor-command", "arguments": arguments }), line)?;
        match answer.as_str().map(str::trim) {
            None | Some("") => Ok(()),
            Some(complaint) => Err(io::Error::other(format!("QEMU refused {line}: {complaint}"))),
        }
    }

    fn ask(&mut self, what: &str) -> io::Result<Value> {
        self.send(&json!({ "execute": what }), what)
    }

    fn send(&mut self, message: &Value, what: &str) -> io::Result<Value> {
        writeln!(self.to, "{message}")?;
        loop {
            let mut line = self.line()?;
            if let Some(answer) = line.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = line.get("error") {
                return Err(io::Error::other(format!("QEMU refused {what}: {}", error["desc"])));
            }
            // Anything else is an event.
        }
    }

    fn line(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "QEMU closed its machine protocol"));
        }
        serde_json::from_str(&line).map_err(io::Error::other)
    }
}
