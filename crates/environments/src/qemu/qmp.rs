//! QEMU's own account of a guest, over its machine protocol (QMP) on a pair of sockets that nobody else can reach.
//!
//! A guest that QEMU has stopped, because its KVM cannot go on or a disk is full, would be silent until every time limit is
//! over. A thread hears of it, asks why, and ends QEMU.

use crate::child::hand_over;
use baremark_model::disk_latency::{DiskLatency, OPERATIONS};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// How long QEMU may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
/// By which the thread knows answers to its own questions.
const OWN: &str = "heard";
/// States of a guest that was stopped and is not in trouble: it has shut itself down, goes on in another QEMU, or goes on here.
const WELL: &[&str] = &["shutdown", "finish-migrate", "postmigrate", "running"];

/// The lab's end.
pub struct Qmp {
    to: UnixStream,
    /// QEMU's end, until it has it.
    theirs: Option<UnixStream>,
    answers: Receiver<Value>,
    /// Hears once that QEMU takes commands.
    negotiated: Receiver<()>,
    stopped: Arc<OnceLock<String>>,
    /// How long QEMU may take to answer.
    limit: Duration,
}

impl Qmp {
    /// Gives `command` the other end.
    pub fn attach(command: &mut Command) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let number = theirs.as_raw_fd();
        command.arg("-chardev").arg(format!("socket,id=qmp,fd={number}"));
        command.args(["-mon", "chardev=qmp,mode=control"]);
        hand_over(command, &theirs);
        Qmp::over(ours, Some(theirs), LIMIT)
    }

    fn over(ours: UnixStream, theirs: Option<UnixStream>, limit: Duration) -> io::Result<Self> {
        ours.set_write_timeout(Some(limit))?;
        let (sender, answers) = channel();
        let (ready, negotiated) = channel();
        let stopped = Arc::new(OnceLock::new());
        let (from, to, why) = (ours.try_clone()?, ours.try_clone()?, Arc::clone(&stopped));
        // It ends with QEMU, or with our end.
        thread::spawn(move || hear(from, to, (&sender, &ready), &why));
        Ok(Qmp { to: ours, theirs, answers, negotiated, stopped, limit })
    }

    /// To be said once QEMU runs: without a copy of its end of our own we hear when it ends.
    pub fn handed_over(&mut self) {
        self.theirs = None;
    }

    /// Waits, once, until QEMU takes commands. Whoever has heard of the guest need not.
    pub fn wait_until_ready(&self) -> io::Result<()> {
        self.negotiated.recv_timeout(self.limit).map_err(|why| self.no_answer(why, "a greeting"))
    }

    /// Why QEMU has stopped the guest, if it has.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
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

    /// How the disk of that name is cached: whether writes wait for no flush, whether this machine's page cache is passed
    /// by, and whether flushes are ignored; `None` when it has no such disk.
    pub fn cache_of(&mut self, disk: &str) -> io::Result<Option<[bool; 3]>> {
        let answer = self.ask("query-block")?;
        let found = answer.as_array().into_iter().flatten().find(|one| one["device"] == disk);
        Ok(found.and_then(|one| {
            let cache = &one["inserted"]["cache"];
            Some([cache["writeback"].as_bool()?, cache["direct"].as_bool()?, cache["no-flush"].as_bool()?])
        }))
    }

    /// The thread of QEMU's own that serves a device, if it has one, and its number of queues.
    pub fn disk_device(&mut self, device: &str) -> io::Result<(Option<String>, Option<u64>)> {
        let mut property = |name: &str| {
            let arguments = json!({ "path": format!("/machine/peripheral/{device}"), "property": name });
            self.send(&json!({ "execute": "qom-get", "arguments": arguments }), "qom-get")
        };
        let thread = property("iothread")?.as_str().and_then(|path| path.rsplit('/').next()).map(str::to_owned);
        Ok((thread.filter(|name| !name.is_empty()), property("num-queues")?.as_u64()))
    }

    /// Has QEMU count the latencies of a device's I/Os between these boundaries, from 0 on.
    pub fn count_latencies(&mut self, device: &str, boundaries_ns: &[u64]) -> io::Result<()> {
        let arguments =
            json!({ "id": format!("/machine/peripheral/{device}/virtio-backend"), "boundaries": boundaries_ns });
        let message = json!({ "execute": "block-latency-histogram-set", "arguments": arguments });
        self.send(&message, "block-latency-histogram-set").map(drop)
    }

    /// What QEMU has counted of the I/Os of each of these devices, by name and device.
    pub fn block_stats(&mut self, devices: &[(String, String)]) -> io::Result<Vec<DiskLatency>> {
        let answer = self.ask("query-blockstats")?;
        let mut found = Vec::new();
        for one in answer.as_array().into_iter().flatten() {
            let of = |(_, device): &&(String, String)| {
                one["qdev"].as_str().is_some_and(|path| path.split('/').any(|part| part == device))
            };
            let Some((name, _)) = devices.iter().find(of) else { continue };
            let stats = &one["stats"];
            for (operation, key) in OPERATIONS.into_iter().zip(["rd", "wr", "flush"]) {
                let histogram = &stats[format!("{key}_latency_histogram")];
                let numbers =
                    |of: &str| histogram[of].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
                let total = |of: &str| stats[format!("{key}_{of}")].as_u64().unwrap_or(0);
                found.push(DiskLatency {
                    disk: name.clone(),
                    operation,
                    operations: total("operations"),
                    total_ns: total("total_time_ns"),
                    boundaries_ns: numbers("boundaries"),
                    bins: numbers("bins"),
                });
            }
        }
        Ok(found)
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

    /// Has QEMU execute a command.
    pub fn execute(&mut self, what: &str, arguments: &Value) -> io::Result<Value> {
        self.send(&json!({ "execute": what, "arguments": arguments }), what)
    }

    fn ask(&mut self, what: &str) -> io::Result<Value> {
        self.send(&json!({ "execute": what }), what)
    }

    /// Gives QEMU a copy of a descriptor, which commands call by this name.
    pub fn hand_over(&mut self, name: &str, descriptor: &impl AsFd) -> io::Result<()> {
        let what = "getfd";
        let line = format!("{}\n", json!({ "execute": what, "arguments": { "fdname": name } }));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let given = [descriptor.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&given));
        let sent = sendmsg(&self.to, &[IoSlice::new(line.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
        self.to.write_all(&line.as_bytes()[sent..])?;
        self.answer(what).map(drop)
    }

    fn send(&mut self, message: &Value, what: &str) -> io::Result<Value> {
        writeln!(self.to, "{message}")?;
        self.answer(what)
    }

    fn answer(&self, what: &str) -> io::Result<Value> {
        let mut answer = self.answers.recv_timeout(self.limit).map_err(|why| self.no_answer(why, what))?;
        match answer.get_mut("return") {
            Some(found) => Ok(found.take()),
            None => Err(io::Error::other(format!("QEMU refused {what}: {}", answer["error"]["desc"]))),
        }
    }

    fn no_answer(&self, why: RecvTimeoutError, what: &str) -> io::Error {
        match why {
            RecvTimeoutError::Timeout => {
                let words = format!("QEMU has not answered {what} within {} s", self.limit.as_secs());
                io::Error::new(io::ErrorKind::TimedOut, words)
            }
            RecvTimeoutError::Disconnected => {
                io::Error::new(io::ErrorKind::UnexpectedEof, "QEMU closed its machine protocol")
            }
        }
    }
}

impl Drop for Qmp {
    /// The thread that hears has copies of our end.
    fn drop(&mut self) {
        drop(self.to.shutdown(std::net::Shutdown::Both));
    }
}

/// Hands on answers, and attends to what QEMU says unasked, until it says no more.
fn hear(
    from: UnixStream,
    mut to: UnixStream,
    (answers, negotiated): (&Sender<Value>, &Sender<()>),
    stopped: &OnceLock<String>,
) {
    let mut say = |what: &str| drop(writeln!(to, "{}", json!({ "execute": what, "id": OWN })));
    let mut trouble = None;
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        let Ok(heard) = serde_json::from_str::<Value>(&line) else { continue };
        if heard.get("QMP").is_some() {
            say("qmp_capabilities");
        } else if heard["id"] == OWN && heard["return"].get("status").is_none() {
            let _ = negotiated.send(());
        } else if heard["id"] == OWN {
            let Some(status) = heard["return"]["status"].as_str().filter(|status| !WELL.contains(status)) else {
                continue;
            };
            let _ = stopped.set(words(status, trouble.take()));
            say("quit");
        } else if heard["event"] == "BLOCK_IO_ERROR" {
            let of = |key: &str| heard["data"][key].as_str().unwrap_or("unknown").to_owned();
            trouble = Some(format!("{} of {}: {}", of("operation"), of("device"), of("reason")));
        } else if heard["event"] == "STOP" {
            say("query-status");
        } else if heard.get("event").is_none() {
            drop(answers.send(heard));
        }
    }
}

fn words(status: &str, trouble: Option<String>) -> String {
    match (status, trouble) {
        ("internal-error", _) => {
            "QEMU stopped the guest, because this KVM cannot emulate an instruction of it (internal-error); \
                                  leave the feature out of cpu_model, or write accel = \"tcg\""
                .to_owned()
        }
        (_, Some(trouble)) => format!("QEMU stopped the guest ({status}): {trouble}"),
        (_, None) => format!("QEMU stopped the guest ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    use std::io::{IoSliceMut, Read};

    /// How long an answer may take: it only ends what hangs.
    const PATIENCE: Duration = Duration::from_secs(120);

    /// QEMU's side of a conversation: says a line and hears what is then asked.
    struct Played(BufReader<UnixStream>);

    impl Played {
        fn say(&mut self, line: Value) {
            writeln!(self.0.get_mut(), "{line}").expect("our end is there");
        }

        fn hear(&mut self) -> Value {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("our end is there");
            serde_json::from_str(&line).expect("a line of JSON")
        }
    }

    #[test]
    fn a_guest_that_is_stopped_is_asked_why_and_ended() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let mut qemu = Played(BufReader::new(theirs));
        let mut qmp = Qmp::over(ours, None, PATIENCE).expect("a thread");
        qemu.say(json!({ "QMP": { "version": {} } }));
        assert_eq!(qemu.hear(), json!({ "execute": "qmp_capabilities", "id": OWN }));
        qemu.say(json!({ "return": {}, "id": OWN }));
        qmp.wait_until_ready().expect("it takes commands");
        let asking = thread::spawn(move || (qmp.kvm().map_err(|why| why.to_string()), qmp));
        assert_eq!(qemu.hear(), json!({ "execute": "query-kvm" }));
        qemu.say(json!({ "event": "RTC_CHANGE", "data": {} }));
        qemu.say(json!({ "return": { "enabled": true, "present": true } }));
        let (answer, qmp) = asking.join().expect("no panic");
        assert_eq!((answer, qmp.stopped()), (Ok(true), None));
        let error = json!({ "device": "disk0", "operation": "write", "reason": "No space left on device" });
        qemu.say(json!({ "event": "BLOCK_IO_ERROR", "data": error }));
        qemu.say(json!({ "event": "STOP" }));
        assert_eq!(qemu.hear()["execute"], "query-status");
        qemu.say(json!({ "return": { "running": false, "status": "io-error" }, "id": OWN }));
        assert_eq!(qemu.hear()["execute"], "quit");
        assert_eq!(qmp.stopped(), Some("QEMU stopped the guest (io-error): write of disk0: No space left on device"));
        drop(qmp);
        let mut rest = String::new();
        assert_eq!(qemu.0.read_line(&mut rest).expect("an end"), 0, "our end is gone with the site");
    }

    #[test]
    fn a_descriptor_comes_with_the_command_that_names_it() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let mut qmp = Qmp::over(ours, None, PATIENCE).expect("a thread");
        let (given, mut other) = UnixStream::pair().expect("a pair");
        let giving = thread::spawn(move || qmp.hand_over("name", &given).map_err(|why| why.to_string()));
        let mut text = [0; 256];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut text)];
        let got = recvmsg(&theirs, into, &mut control, RecvFlags::CMSG_CLOEXEC).expect("our end is there").bytes;
        let command: Value = serde_json::from_slice(&text[..got]).expect("a line of JSON");
        assert_eq!(command, json!({ "execute": "getfd", "arguments": { "fdname": "name" } }));
        let all = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(all) => Some(all),
            _ => None,
        });
        let mut received: Vec<UnixStream> = all.flatten().map(UnixStream::from).collect();
        writeln!(theirs, "{}", json!({ "return": {} })).expect("our end is there");
        assert_eq!(giving.join().expect("no panic"), Ok(()));
        received[0].write_all(b"x").expect("it is open");
        let mut byte = [0];
        other.read_exact(&mut byte).expect("it is the one that was given");
        assert_eq!((received.len(), byte), (1, *b"x"));
    }

    #[test]
    fn one_that_has_shut_itself_down_is_not_called_stopped() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let mut qemu = Played(BufReader::new(theirs));
        let mut qmp = Qmp::over(ours, None, PATIENCE).expect("a thread");
        qemu.say(json!({ "event": "STOP" }));
        assert_eq!(qemu.hear()["execute"], "query-status");
        qemu.say(json!({ "return": { "running": false, "status": "shutdown" }, "id": OWN }));
        let asking = thread::spawn(move || (qmp.kvm().map_err(|why| why.to_string()), qmp));
        assert_eq!(qemu.hear()["execute"], "query-kvm", "and nothing was asked in between");
        qemu.say(json!({ "error": { "class": "GenericError", "desc": "too late" } }));
        let (answer, qmp) = asking.join().expect("no panic");
        assert_eq!((answer, qmp.stopped()), (Err("QEMU refused query-kvm: \"too late\"".to_owned()), None));
    }
}
