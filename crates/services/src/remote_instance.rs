//! An instance at a site of its own: a process of this program there carries it out, and does what it is told on a port.
//!
//! Programs, their users, folders and loopback are the site's, so that only whoever is there can configure and ask. What goes
//! there is the order; what comes back is whether it serves, its statistics and its log. Each question is one line of JSON with
//! the secret of the run, which others who reach the port do not know.

use crate::exchange;
use crate::instance::Instance;
use crate::place::{Control, Native, Place};
use crate::recipe::{Ready, Recipe, Step};
use crate::service::{Order, ServiceError, Statistics, Upstream};
use baremark_sys::confine::Limits;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The file that tells whoever carries an instance out which it is; it holds secrets.
pub const FILE: &str = "carried.json";
/// The command that carries it out, of this program.
const COMMAND: &str = "carry";
/// A site must come to be first, and may be emulated.
const READY_LIMIT: Duration = Duration::from_secs(600);
/// How much of that the instance may take, once whoever carries it out is there.
const READY_THERE: Duration = Duration::from_secs(300);
/// Whether it serves is answered at once; other servers may be waited for.
const READY_ANSWER: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(120);
/// How long a question may take to arrive.
const QUESTION: Duration = Duration::from_secs(5);
const LONGEST_QUESTION: u64 = 1 << 20;
/// How often whoever carries looks up.
const GLANCE: Duration = Duration::from_millis(10);
/// How long the program may take to finish what it has begun.
const STOP_LIMIT: Duration = Duration::from_secs(40);

/// What is carried out.
#[derive(Serialize, Deserialize)]
struct Carried {
    kind: String,
    order: Order,
    /// Where it is told what to do.
    control: SocketAddr,
}

/// What it can be told.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    Ready,
    Statistics,
    Reload,
    Rewire(Vec<Upstream>),
}

#[derive(Serialize, Deserialize)]
struct Question {
    secret: String,
    told: Told,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Done,
    Statistics(Statistics),
    Failed(String),
}

/// The recipe here of what is carried out there.
pub(crate) fn recipe(control: Control) -> Recipe {
    let mut recipe = Recipe::new(Step::new("", [COMMAND, FILE]), Ready::Carried(control.here));
    recipe.ready_limit = READY_LIMIT;
    recipe
}

/// The text of [`FILE`]: the order as its site sees it.
pub(crate) fn text(instance: &Instance, control: Control) -> io::Result<String> {
    let (order, place) = (instance.order(), instance.place());
    let order =
        Order { address: place.listens(order.address), upstreams: reached(place, &order.upstreams), ..order.clone() };
    let carried = Carried { kind: instance.service().kind().to_owned(), order, control: control.there };
    Ok(serde_json::to_string(&carried)?)
}

fn reached(place: &dyn Place, upstreams: &[Upstream]) -> Vec<Upstream> {
    let seen = |one: &Upstream| Upstream { name: one.name.clone(), address: place.reaches(one.address) };
    upstreams.iter().map(seen).collect()
}

/// Whether it serves.
pub(crate) fn is_ready(control: SocketAddr, secret: &str) -> bool {
    matches!(ask(control, secret, Told::Ready, READY_ANSWER), Ok(Answer::Done))
}

/// What it reports about itself.
pub(crate) fn statistics(instance: &Instance, control: Control) -> Result<Statistics, ServiceError> {
    match tell(instance, control, Told::Statistics)? {
        Answer::Statistics(statistics) => Ok(statistics),
        Answer::Done | Answer::Failed(_) => Err(instance.failed("answered something else than its statistics")),
    }
}

/// Lets it read its configuration again.
pub(crate) fn reload(instance: &Instance, control: Control) -> Result<(), ServiceError> {
    tell(instance, control, Told::Reload).map(drop)
}

/// Lets it send requests to just these servers.
pub(crate) fn rewire(instance: &Instance, control: Control, upstreams: &[Upstream]) -> Result<(), ServiceError> {
    tell(instance, control, Told::Rewire(reached(instance.place(), upstreams))).map(drop)
}

fn tell(instance: &Instance, control: Control, told: Told) -> Result<Answer, ServiceError> {
    let answer = ask(control.here, &instance.order().secret, told, ANSWER);
    match answer.map_err(|why| instance.io("talking to its agent at the remote site", why))? {
        Answer::Failed(why) => Err(instance.failed(why)),
        good => Ok(good),
    }
}

fn ask(control: SocketAddr, secret: &str, told: Told, limit: Duration) -> io::Result<Answer> {
    let mut question = serde_json::to_vec(&Question { secret: secret.to_owned(), told })?;
    question.push(b'\n');
    Ok(serde_json::from_str(&exchange::whole_within(control, &question, limit)?)?)
}

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
    order.program = crate::service::program(service)?;
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
    stream.set_read_timeout(Some(QUESTION))?;
    stream.set_write_timeout(Some(QUESTION))?;
    let mut line = String::new();
    BufReader::new((&mut stream).take(LONGEST_QUESTION)).read_line(&mut line)?;
    let question: Question = serde_json::from_str(&line)?;
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
