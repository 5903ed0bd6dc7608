//! What passes between here and a site of its own at which an instance is carried out: its order, and what it is told and answers.
//!
//! Each question is one line of JSON with the secret of the run, which others who reach the port do not know.

use crate::exchange;
use crate::order::{Order, Upstream};
use crate::place::{Control, Place};
use crate::recipe::{Ready, Recipe, Step};
use crate::statistics::Statistics;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The file that tells whoever carries an instance out which it is; it holds secrets.
pub const FILE: &str = "carried.json";
/// The command that carries it out, of this program.
const COMMAND: &str = "carry";
/// A site must come to be first, and may be emulated.
const READY_LIMIT: Duration = Duration::from_secs(600);
/// Whether it serves is answered at once; other servers may be waited for.
const READY_ANSWER: Duration = Duration::from_secs(5);
/// How long whatever else it is told may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(120);

/// What is carried out.
#[derive(Serialize, Deserialize)]
pub(crate) struct Carried {
    pub(crate) kind: String,
    pub(crate) order: Order,
    /// Where it is told what to do.
    pub(crate) control: SocketAddr,
}

/// What it can be told.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    Ready,
    Statistics,
    Reload,
    Rewire(Vec<Upstream>),
}

/// What it is told, by whoever knows the secret of the run.
#[derive(Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) secret: String,
    pub(crate) told: Told,
}

/// What comes back.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
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
pub(crate) fn text(order: &Order, kind: &str, place: &dyn Place, control: Control) -> io::Result<String> {
    let order =
        Order { address: place.listens(order.address), upstreams: reached(place, &order.upstreams), ..order.clone() };
    let carried = Carried { kind: kind.to_owned(), order, control: control.there };
    Ok(serde_json::to_string(&carried)?)
}

/// The servers as they are reached from there.
pub(crate) fn reached(place: &dyn Place, upstreams: &[Upstream]) -> Vec<Upstream> {
    let seen = |one: &Upstream| Upstream { name: one.name.clone(), address: place.reaches(one.address) };
    upstreams.iter().map(seen).collect()
}

/// Whether it serves.
pub(crate) fn is_ready(control: SocketAddr, secret: &str) -> bool {
    matches!(ask(control, secret, Told::Ready, READY_ANSWER), Ok(Answer::Done))
}

/// Asks whoever carries it out, and waits for the answer.
pub(crate) fn ask(control: SocketAddr, secret: &str, told: Told, limit: Duration) -> io::Result<Answer> {
    let mut question = serde_json::to_vec(&Question { secret: secret.to_owned(), told })?;
    question.push(b'\n');
    Ok(serde_json::from_str(&exchange::whole_within(control, &question, limit)?)?)
}
