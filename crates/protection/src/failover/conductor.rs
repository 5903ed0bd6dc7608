//! The conductor: starts primary and secondary, holds the clients' connections, and lets the secondary take over when the primary is lost.

use super::control::{self, FromReplica, Order, Release, ToReplica};
use super::primary::STREAMS;
use super::proxy::{self, Connection, Listening, Outside};
use super::report::{Failover, FailoverReport};
use baremark_model::units::Nanos;
use baremark_sys::ending;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Failovers one after the other between which no checkpoint was acknowledged, after which nothing can be hoped for.
const MOST_IN_VAIN: u32 = 3;

/// What happens while a program is protected.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The program runs.
    Running {
        /// The epoch that begins.
        epoch: u64,
        /// The process that is the primary.
        primary: u32,
        /// The process that the program is.
        program: u32,
    },
    /// A first checkpoint was acknowledged: from now on the primary may be lost.
    Protected {
        /// The epoch of the checkpoint.
        epoch: u64,
        /// The process that is the secondary.
        secondary: u32,
    },
    /// The secondary has taken over, and output has left again.
    FailedOver(Failover),
    /// A call was refused.
    Refused(String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Running { epoch, primary, program } => {
                write!(f, "running: epoch {epoch}, primary process {primary}, program process {program}")
            }
            Event::Protected { epoch, secondary } => {
                write!(f, "protected: epoch {epoch}, secondary process {secondary}")
            }
            Event::FailedOver(Failover { lost, epoch, silent_ms, continued_ms, served_ms }) => {
                match silent_ms {
                    Some(silent_ms) => write!(f, "failover: process {lost} silent for {silent_ms:.1} ms and killed")?,
                    None => write!(f, "failover: process {lost} lost")?,
                }
                write!(f, ", continued from epoch {epoch} after {continued_ms:.1} ms")?;
                served_ms.map_or(Ok(()), |served_ms| write!(f, ", output released again after {served_ms:.1} ms"))
            }
            Event::Refused(call) => write!(f, "refused: {call}"),
        }
    }
}

enum Happening {
    Outside(Outside),
    Replica { number: u32, message: FromReplica, bytes: Vec<u8> },
    Gone { number: u32 },
}

/// A process that is the primary or the secondary. Dropping it ends it.
struct Replica {
    number: u32,
    process: Child,
    control: UnixStream,
}

impl Replica {
    fn start(baremark: &Path, number: u32, order: &Order, events: &Sender<Happening>) -> io::Result<Replica> {
        let (control, theirs) = UnixStream::pair()?;
        let mut starting = Command::new(baremark);
        starting.args(["protect", "--replica"]).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
        let process = starting.spawn()?;
        let (from, events) = (control.try_clone()?, events.clone());
        thread::spawn(move || {
            let lost = loop {
                // One that is lost in the middle of a message is lost.
                let Ok(Some((message, bytes))) = control::receive(&from) else { break Happening::Gone { number } };
                if events.send(Happening::Replica { number, message, bytes }).is_err() {
                    return;
                }
            };
            drop(events.send(lost));
        });
        let replica = Replica { number, process, control };
        replica.send(&ToReplica::Begin(order.clone()), &[]);
        Ok(replica)
    }

    /// One that is lost is heard of elsewhere.
    fn send(&self, message: &ToReplica, bytes: &[u8]) {
        drop(control::send(&self.control, message, bytes));
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        ending::kill(&mut self.process);
    }
}

/// The secondary, as far as it is known.
struct Waiting {
    replica: Replica,
    token: u64,
    at: Option<SocketAddr>,
    has_checkpoint: bool,
}

struct Conductor<'o> {
    order: &'o Order,
    baremark: &'o Path,
    sender: Sender<Happening>,
    happenings: Receiver<Happening>,
    primary: Replica,
    is_running: bool,
    secondary: Waiting,
    started: u32,
    connections: BTreeMap<u64, Connection>,
    /// Connections that the program has closed, whose output is still on its way.
    leaving: Vec<Connection>,
    /// Connections that the last checkpoint has.
    accepted: BTreeSet<u64>,
    next_channel: u64,
    /// Addresses at which the program listens in the last checkpoint.
    listeners: BTreeMap<String, Listening>,
    released: u64,
    /// A failover that is not over: when the primary was lost, and what is known of it.
    lost: Option<(Instant, Failover)>,
    in_vain: u32,
    report: FailoverReport,
    report_event: &'o mut dyn FnMut(&Event),
}

/// Runs a program to its end, whatever becomes of the processes that carry it; gives its exit code. `report_event` gets what happens.
///
/// # Errors
/// Why it cannot run.
pub fn run(order: &Order, baremark: &Path, report_event: &mut dyn FnMut(&Event)) -> io::Result<(i32, FailoverReport)> {
    if order.program.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program: name one after --"));
    }
    let begun = Instant::now();
    let mut conductor = Conductor::start(order, baremark, report_event)?;
    conductor.open_streams();
    let ended = conductor.conduct();
    conductor.report.wall_ns = Nanos::from(begun.elapsed()).0;
    // While output leaves, nothing makes more of it.
    drop((conductor.primary, conductor.secondary));
    let leaving: Vec<Connection> = conductor.connections.into_values().chain(conductor.leaving).collect();
    leaving.iter().for_each(Connection::hurry);
    leaving.into_iter().for_each(Connection::settle);
    ended.map(|code| (code, conductor.report))
}

impl Waiting {
    fn start(baremark: &Path, number: u32, order: &Order, events: &Sender<Happening>) -> io::Result<Waiting> {
        let replica = Replica::start(baremark, number, order, events)?;
        let token = random()?;
        replica.send(&ToReplica::Listen { token }, &[]);
        Ok(Waiting { replica, token, at: None, has_checkpoint: false })
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

impl<'o> Conductor<'o> {
    /// Starts the primary and the secondary.
    fn start(
        order: &'o Order,
        baremark: &'o Path,
        report_event: &'o mut dyn FnMut(&Event),
    ) -> io::Result<Conductor<'o>> {
        let (sender, happenings) = channel();
        let primary = Replica::start(baremark, 1, order, &sender)?;
        primary.send(&ToReplica::TakeOver, &[]);
        let secondary = Waiting::start(baremark, 2, order, &sender)?;
        Ok(Conductor {
            order,
            baremark,
            sender,
            happenings,
            primary,
            is_running: false,
            secondary,
            started: 2,
            connections: BTreeMap::new(),
            leaving: Vec::new(),
            accepted: BTreeSet::new(),
            next_channel: STREAMS.end,
            listeners: BTreeMap::new(),
            released: 0,
            lost: None,
            in_vain: 0,
            report: FailoverReport::default(),
            report_event,
        })
    }
}

impl Conductor<'_> {
    fn open_streams(&mut self) {
        for channel in STREAMS {
            let lost = loss_of(channel, self.sender.clone());
            let connection = match channel {
                0 => Connection::of_stream(None, lost),
                1 => Connection::of_stream(Some(Box::new(io::stdout())), lost),
                _ => Connection::of_stream(Some(Box::new(io::stderr())), lost),
            };
            if channel == 0 {
                connection.read(channel, io::stdin(), self.sender.clone(), Happening::Outside);
            }
            self.connections.insert(channel, connection);
        }
    }

    /// The program's exit code, when it has ended.
    fn conduct(&mut self) -> io::Result<i32> {
        loop {
            let happening = self.happenings.recv().map_err(io::Error::other)?;
            match happening {
                Happening::Outside(Outside::Client { server, stream }) => self.accept(server, stream),
                Happening::Outside(Outside::Input { channel, bytes }) => self.input(channel, &bytes),
                Happening::Outside(Outside::Lost { channel }) => self.lose(channel),
                Happening::Gone { number } if number == self.primary.number => self.fail_over(None)?,
                Happening::Gone { number } if number == self.secondary.replica.number => self.renew_secondary()?,
                Happening::Gone { .. } => {}
                Happening::Replica { number, message, bytes } => {
                    let is_known = number == self.primary.number || number == self.secondary.replica.number;
                    if is_known && let Some(code) = self.hear(number, message, &bytes)? {
                        return Ok(code);
                    }
                }
            }
        }
    }

    /// A client: it is connected to the program where that runs, and otherwise when it does.
    fn accept(&mut self, server: String, stream: std::net::TcpStream) {
        // A client that came just before the program has closed its listener is closed, too.
        if !self.listeners.contains_key(&server) {
            return;
        }
        let channel = self.next_channel;
        self.next_channel += 1;
        // A client that is gone already is none.
        let lost = loss_of(channel, self.sender.clone());
        let Ok(connection) = Connection::of_client(server, stream, lost) else { return };
        let Some(Ok(from)) = connection.socket().map(std::net::TcpStream::try_clone) else { return };
        connection.read(channel, from, self.sender.clone(), Happening::Outside);
        if self.is_running {
            let (server, client) = (connection.server.clone(), connection.client.clone());
            self.primary.send(&ToReplica::Connect { channel, server, client }, &[]);
        }
        self.connections.insert(channel, connection);
    }

    fn input(&mut self, channel: u64, bytes: &[u8]) {
        let known = self.connections.get_mut(&channel).filter(|connection| !connection.is_lost);
        let Some(connection) = known else { return };
        let offset = connection.keep(bytes);
        if self.is_running {
            self.primary.send(&ToReplica::Input { channel, offset, ended: bytes.is_empty() }, bytes);
        }
    }

    /// A connection that takes no more output; one that the program has closed needs no notice.
    fn lose(&mut self, channel: u64) {
        let is_new = self.connections.get_mut(&channel).is_some_and(Connection::lose);
        if is_new && self.is_running {
            self.primary.send(&ToReplica::Lost { channel }, &[]);
        }
    }

    fn hear(&mut self, number: u32, message: FromReplica, bytes: &[u8]) -> io::Result<Option<i32>> {
        match message {
            FromReplica::Listening { at } => {
                self.secondary.at = Some(at);
                self.protect();
            }
            FromReplica::Running { epoch, process } => self.resume(epoch, process),
            FromReplica::Released(release) => return self.release(number, release, bytes),
            FromReplica::Unprotected { secondary } if secondary == self.secondary.replica.number => {
                self.renew_secondary()?;
            }
            // Of a secondary whose end was heard of otherwise.
            FromReplica::Unprotected { .. } => {}
            FromReplica::Silent { silent_ms } if number == self.secondary.replica.number => {
                self.fail_over(Some(silent_ms))?;
            }
            // From one that has become the primary meanwhile, because the one before it has ended.
            FromReplica::Silent { .. } => {}
            FromReplica::Failed { message } => return Err(io::Error::other(message)),
        }
        Ok(None)
    }

    /// Brings primary and secondary together, as soon as both are there.
    fn protect(&self) {
        if let (true, Some(at)) = (self.is_running, self.secondary.at) {
            let (secondary, token) = (self.secondary.replica.number, self.secondary.token);
            let message = ToReplica::Protect { secondary, at, token, released: self.released };
            self.primary.send(&message, &[]);
        }
    }

    /// The program runs: it gets all input that no checkpoint has, and hears of clients that are lost.
    fn resume(&mut self, epoch: u64, program: u32) {
        self.is_running = true;
        for (&channel, connection) in &mut self.connections {
            if channel >= STREAMS.end && !self.accepted.contains(&channel) {
                let (server, client) = (connection.server.clone(), connection.client.clone());
                self.primary.send(&ToReplica::Connect { channel, server, client }, &[]);
            }
            let (offset, ended) = (connection.kept_from, connection.input_ended);
            let kept = connection.kept();
            if !kept.is_empty() || ended {
                self.primary.send(&ToReplica::Input { channel, offset, ended }, kept);
            }
            if connection.is_lost {
                self.primary.send(&ToReplica::Lost { channel }, &[]);
            }
        }
        if let Some((since, failover)) = &mut self.lost {
            failover.continued_ms = milliseconds(since.elapsed());
            failover.epoch = epoch - 1;
        }
        (self.report_event)(&Event::Running { epoch, primary: self.primary.process.id(), program });
        self.protect();
    }

    /// Output of an epoch that the secondary has.
    fn release(&mut self, number: u32, release: Release, mut bytes: &[u8]) -> io::Result<Option<i32>> {
        let mut left = 0;
        for output in &release.outputs {
            let (part, rest) = bytes.split_at_checked(output.bytes).ok_or(io::ErrorKind::InvalidData)?;
            bytes = rest;
            left += part.len() as u64;
            // A client that is gone needs no output.
            let Some(connection) = self.connections.get_mut(&output.channel) else { continue };
            connection.release(output, part)?;
            if output.closed && output.channel >= STREAMS.end {
                self.leaving.retain(|connection| !connection.has_left());
                self.leaving.extend(self.connections.remove(&output.channel));
            }
        }
        for (channel, consumed) in &release.consumed {
            self.connections.get_mut(channel).into_iter().for_each(|connection| connection.forget(*consumed));
        }
        self.accepted = release.consumed.iter().map(|(channel, _)| *channel).collect();
        self.listen(&release.listeners)?;
        if release.ended.is_none() {
            self.refuse_waiting();
        }
        for refused in &release.refused {
            if !self.report.refused.contains(refused) {
                (self.report_event)(&Event::Refused(refused.clone()));
                self.report.refused.push(refused.clone());
            }
        }
        self.count(&release, left);
        if number == self.secondary.replica.number && !self.secondary.has_checkpoint {
            self.secondary.has_checkpoint = true;
            let secondary = self.secondary.replica.process.id();
            (self.report_event)(&Event::Protected { epoch: release.epoch, secondary });
        }
        Ok(release.ended)
    }

    /// Accepts clients at these addresses and no others.
    fn listen(&mut self, servers: &[String]) -> io::Result<()> {
        self.listeners.retain(|server, _| servers.contains(server));
        for server in servers {
            if !self.listeners.contains_key(server) {
                let listening = proxy::listen(server, self.sender.clone(), Happening::Outside)?;
                self.listeners.insert(server.clone(), listening);
            }
        }
        Ok(())
    }

    /// Closes clients that the program has not accepted where it does not listen any more.
    fn refuse_waiting(&mut self) {
        let is_refused = |channel: u64, server: &str| {
            channel >= STREAMS.end && !self.accepted.contains(&channel) && !self.listeners.contains_key(server)
        };
        let all = self.connections.iter().filter(|(channel, one)| is_refused(**channel, &one.server));
        let refused: Vec<u64> = all.map(|(channel, _)| *channel).collect();
        refused.into_iter().for_each(|channel| self.lose(channel));
    }

    fn count(&mut self, release: &Release, left: u64) {
        (self.released, self.in_vain) = (release.epoch, 0);
        let report = &mut self.report;
        report.epochs += 1;
        report.pages += release.pages;
        report.link_bytes += release.link_bytes;
        report.paused_ns += release.paused_ns;
        report.threads = report.threads.max(release.threads);
        report.released_bytes += left;
        let is_over = self.is_running && (left > 0 || release.ended.is_some());
        if is_over && let Some((since, failover)) = self.lost.take() {
            let served_ms = (left > 0).then(|| milliseconds(since.elapsed()));
            let failover = Failover { served_ms, ..failover };
            (self.report_event)(&Event::FailedOver(failover.clone()));
            report.failovers.push(failover);
        }
    }

    /// The primary is lost, or was silent for so many milliseconds: the secondary becomes the primary, and a new secondary is started.
    ///
    /// A silent primary may go on at any moment. Its epochs are refused already: the secondary has closed its end of the link, and no
    /// other secondary knows of it. It is killed so that it takes no CPU time and holds no memory; nothing waits for its end, which a
    /// process that waits for a device may delay.
    fn fail_over(&mut self, silent_ms: Option<f64>) -> io::Result<()> {
        let silent = Duration::from_secs_f64(silent_ms.unwrap_or(0.0) * 1e-3);
        let now = Instant::now();
        let since = now.checked_sub(silent).unwrap_or(now);
        if self.released > 0 && !self.secondary.has_checkpoint {
            let why = "the primary was lost before the new secondary had a checkpoint; the program was ended";
            return Err(io::Error::other(why));
        }
        self.in_vain += 1;
        if self.in_vain > MOST_IN_VAIN {
            let why = format!("{MOST_IN_VAIN} failovers without a checkpoint between them; the program was ended");
            return Err(io::Error::other(why));
        }
        self.is_running = false;
        // A failover in which nothing was released counts from its own loss.
        if let Some((_, before)) = self.lost.take() {
            self.report.failovers.push(before);
        }
        // One that has ended already is gone.
        drop(self.primary.process.kill());
        self.secondary.replica.send(&ToReplica::TakeOver, &[]);
        let lost = Failover { lost: self.primary.process.id(), silent_ms, ..Failover::default() };
        self.lost = Some((since, lost));
        self.started += 1;
        let new = Waiting::start(self.baremark, self.started, self.order, &self.sender)?;
        let taking_over = std::mem::replace(&mut self.secondary, new);
        let lost = std::mem::replace(&mut self.primary, taking_over.replica);
        thread::spawn(move || drop(lost));
        Ok(())
    }

    /// The secondary is lost: the primary gets another one.
    fn renew_secondary(&mut self) -> io::Result<()> {
        self.started += 1;
        self.secondary = Waiting::start(self.baremark, self.started, self.order, &self.sender)?;
        Ok(())
    }
}

/// Says that a connection takes no more output.
fn loss_of(channel: u64, events: Sender<Happening>) -> impl FnOnce() + Send + 'static {
    move || drop(events.send(Happening::Outside(Outside::Lost { channel })))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_notice_of_the_loss_of_a_secondary_leaves_the_next_one_alone() {
        let (link_mbit, cpus) = (None, Vec::new());
        let program = vec!["program".into()];
        let order = Order { program, epoch_us: 1000, link_mbit, link_delay_us: 0, cpus, heartbeat_ms: 0 };
        let mut ignore = |_: &Event| {};
        // Processes that end at once, which nobody looks at here.
        let mut conductor = Conductor::start(&order, Path::new("/bin/true"), &mut ignore).expect("processes");
        for (lost, next) in [(2, 3), (2, 3), (3, 4), (2, 4)] {
            let heard = conductor.hear(1, FromReplica::Unprotected { secondary: lost }, &[]);
            assert_eq!(heard.expect("a process"), None);
            assert_eq!(conductor.secondary.replica.number, next, "after the loss of {lost}");
        }
    }
}
