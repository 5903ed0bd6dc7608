//! An instance at a site of its own: a process of this program there carries it out, and does what it is told on a port.
//!
//! Programs, their users, folders and loopback are the site's, so that only whoever is there can configure and ask. What goes
//! there is the order; what comes back is whether it serves, its statistics and its log. Each question is one line of JSON with
//! the secret of the run, which others who reach the port do not know.

use crate::error::ServiceError;
use crate::place::Native;
use crate::remote_site::{Answer, Carried, Question, Told};
use crate::service::{self, Instance};
use baremark_sys::confine::Limits;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the instance may take until it serves: a part of what is waited at the other side, where a site must come to be first.
const READY_THERE: Duration = Duration::from_secs(300);
/// How long a question may take to arrive.
const QUESTION: Duration = Duration::from_secs(5);
const LONGEST_QUESTION: usize = 1 << 20;
/// How often whoever carries looks up.
const GLANCE: Duration = Duration::from_millis(10);
/// How long the program may take to finish what it has begun.
const STOP_LIMIT: Duration = Duration::from_secs(40);

/// Carries out the instance that a file describes, in a folder below this one, until it ends or `stop` is raised. `say` gets
/// the lines of its log.
///
/// # Errors
/// Whatever [`Instance::start`] and [`Instance::wait_ready`] give, and that it ended by itself.
pub fn carry(file: &Path, stop: &AtomicBool, say: &mut dyn FnMut(&str)) -> Result<(), ServiceError> {
    let trying =
        |what: &str, source| ServiceError::Io { name: file.display().to_string(), what: what.to_owned(), source };
    let text = fs::read(file).map_err(|why| trying("reading the configuration of the remote instance", why))?;
    let Carried { kind, mut order, control } = serde_json::from_slice(&text)
        .map_err(|why| trying("reading the configuration of the remote instance", why.into()))?;
    let service = crate::find(&kind).ok_or_else(|| ServiceError::Refused {
        name: order.name.clone(),
        what: format!("no service is '{kind}'"),
        remedy: "let the same program run at both sites".to_owned(),
    })?;
    order.program = service::program(service)?;
    let folder = std::env::current_dir().map_err(|why| trying("asking for this folder", why))?;
    order.folder = folder.join(&order.name);
    let mut instance = Instance::start(service, order, &Limits::default(), Box::new(Native))?;
    instance.wait_ready_within(READY_THERE, stop)?;
    let listening = TcpListener::bind(control).and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    let listener = listening.map_err(|why| instance.io(&format!("listening on {control}"), why))?;
    let mut shown = 0;
    loop {
        instance.lines_after(&mut shown).iter().for_each(|line| say(line));
        if stop.load(Ordering::Relaxed) {
            instance.stop(STOP_LIMIT);
            return Ok(());
        }
        if !instance.is_running() {
            return Err(instance.ended("has ended"));
        }
        match listener.accept() {
            // Whoever asks and does not listen is not a concern of the instance.
            Ok((stream, _)) => drop(answer(stream, &mut instance)),
            Err(_) => thread::sleep(GLANCE),
        }
    }
}

/// Answers one question; a stranger gets no answer.
fn answer(mut stream: TcpStream, instance: &mut Instance) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(QUESTION))?;
    let question: Question = serde_json::from_slice(&line(&mut stream, QUESTION)?)?;
    if question.secret != instance.order().secret {
        return Ok(());
    }
    let done = match question.told {
        Told::Ready if instance.is_ready() => Ok(Answer::Done),
        Told::Ready => Err(instance.failed("does not answer")),
        Told::Statistics => instance.statistics().map(Answer::Statistics),
        Told::Reload => instance.reload().map(|()| Answer::Done),
        Told::Rewire(upstreams) => instance.rewire(&upstreams).map(|()| Answer::Done),
    };
    let answer = done.unwrap_or_else(|why| Answer::Failed(why.to_string()));
    stream.write_all(&serde_json::to_vec(&answer)?)
}

/// A line, which comes within a time as a whole: whoever sends it byte by byte holds nobody up for longer.
fn line(stream: &mut TcpStream, within: Duration) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + within;
    let (mut line, mut piece) = (Vec::new(), [0; 4096]);
    while !line.contains(&b'\n') {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || line.len() > LONGEST_QUESTION {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => line.extend_from_slice(&piece[..count]),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stranger who sent a byte every few seconds kept the instance from whoever knows its secret, and from its end, for weeks.
    #[test]
    fn a_line_that_comes_byte_by_byte_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let mut stranger = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (mut here, _) = listener.accept().expect("it came");
        let slowly = thread::spawn(move || {
            while stranger.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        let begun = Instant::now();
        assert!(line(&mut here, Duration::from_millis(300)).is_err());
        assert!(begun.elapsed() >= Duration::from_millis(300));
        drop(here);
        slowly.join().expect("its connection is closed");
        let mut known = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (mut here, _) = listener.accept().expect("it came");
        known.write_all(b"{}\n").expect("sent");
        assert_eq!(line(&mut here, Duration::from_secs(60)).expect("a line"), b"{}\n");
    }
}
