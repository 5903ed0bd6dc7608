//! Who makes requests: a connection's endless caller, an arrival of an open loop, a user, or a loop alongside one.

use crate::extract::header_values;
use crate::response::Response;
use crate::rng::Rng;
use crate::scenario::{Candidate, Change, Condition, Cookie, Extract, Next, Scenario, Test};
use crate::template::Values;

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// What an actor is, which decides what comes after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nobody; the place can be taken.
    Free,
    /// Begins the next operation when one ends.
    Closed,
    /// One arrival: ends with its operation.
    Open,
    /// Keeps its cycle.
    User,
    /// A loop alongside the user with this index: which, and how far in its round.
    Follow { user: u32, follow: usize, step: usize },
}

/// What an actor is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing, until its timer.
    Idle,
    /// In the queue for a connection.
    Queued,
    /// A request is on its way or about to be.
    Flying,
    /// Left out by the profile until more users are requested.
    Parked,
}

/// One actor.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) role: Role,
    pub(crate) state: State,
    /// The user's number in the whole load.
    pub(crate) number: u64,
    pub(crate) operation: usize,
    pub(crate) request: usize,
    /// Which of a list, for a request made for each.
    pub(crate) each: usize,
    /// The current request has been sent again.
    pub(crate) retried: bool,
    /// Of the operation, all in ns of the load's clock.
    pub(crate) intended: u64,
    pub(crate) begun: u64,
    /// When its current request was written.
    pub(crate) sent: u64,
    /// When its first event came, for a stream; 0 before.
    pub(crate) first_event: u64,
    /// When it gives up.
    pub(crate) deadline: u64,
    /// When the timer for that is due; 0 without one.
    pub(crate) armed: u64,
    /// When it wakes; meaningful while idle.
    pub(crate) wake: u64,
    pub(crate) connection: u32,
    pub(crate) serial: u64,
    pub(crate) rng: Rng,
    pub(crate) variables: Vec<Option<Box<str>>>,
    pub(crate) cookies: Vec<Cookie>,
    pub(crate) heard: Response,
    /// Loops that run alongside it: which, and the actor.
    pub(crate) follows: Vec<(usize, u32)>,
}

impl Actor {
    pub(crate) fn new(role: Role, number: u64, seed: u64, scenario: &Scenario) -> Actor {
        let mut actor = Actor {
            role,
            state: State::Idle,
            number,
            operation: scenario.start,
            request: 0,
            each: 0,
            retried: false,
            intended: 0,
            begun: 0,
            sent: 0,
            first_event: 0,
            deadline: 0,
            armed: 0,
            wake: 0,
            connection: NONE,
            serial: 0,
            rng: Rng::stream(seed, number),
            variables: Vec::new(),
            cookies: Vec::new(),
            heard: Response::default(),
            follows: Vec::new(),
        };
        actor.start_over(scenario);
        actor
    }

    /// Variables as at first, no cookies.
    pub(crate) fn start_over(&mut self, scenario: &Scenario) {
        self.variables.clear();
        self.variables.resize(scenario.variables.len(), None);
        self.cookies.clear();
        for (variable, template) in &scenario.initial {
            let text = template.text(&self.values(""));
            self.variables[*variable] = text.map(String::into_boxed_str);
        }
    }

    pub(crate) fn values<'a>(&'a self, each: &'a str) -> Values<'a> {
        let mut copy = self.rng.clone();
        Values { variables: &self.variables, user: self.number, serial: self.serial, random: copy.next(), each }
    }

    /// The value `index` of the list in a variable.
    pub(crate) fn item(&self, variable: usize, index: usize) -> Option<&str> {
        self.variables[variable].as_deref()?.lines().nth(index)
    }

    pub(crate) fn holds(&self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| {
            let value = self.variables[condition.variable].as_deref();
            let number = || value.and_then(|text| text.trim().parse::<f64>().ok()).unwrap_or(0.0);
            match &condition.test {
                Test::Set => value.is_some(),
                Test::Unset => value.is_none(),
                Test::Is(template) => value == template.text(&self.values("")).as_deref(),
                Test::IsNot(template) => value != template.text(&self.values("")).as_deref(),
                Test::Below(limit) => number() < *limit,
                Test::AtLeast(limit) => number() >= *limit,
            }
        })
    }

    /// The operation to come.
    pub(crate) fn choose(&mut self, scenario: &Scenario, from: Next) -> usize {
        let mut next = from;
        // The scenario has been checked to have no circles of choices; a choice without anything left leads to the start.
        loop {
            match next {
                Next::Operation(operation) => return operation,
                Next::Choice(choice) => match self.candidate(&scenario.choices[choice]) {
                    Some(found) => next = found,
                    None => return scenario.start,
                },
            }
        }
    }

    fn candidate(&mut self, candidates: &[Candidate]) -> Option<Next> {
        for candidate in candidates.iter().filter(|candidate| candidate.chance.is_some()) {
            let chance = candidate.chance.unwrap_or(0.0);
            if self.holds(&candidate.when) && self.rng.uniform() < chance {
                return Some(candidate.to);
            }
        }
        let weighed = |candidate: &&Candidate| candidate.chance.is_none() && self.holds(&candidate.when);
        let sum: f64 = candidates.iter().filter(weighed).map(|candidate| candidate.weight).sum();
        let mut draw = self.rng.clone().uniform() * sum;
        let found = candidates.iter().filter(weighed).find(|candidate| {
            draw -= candidate.weight;
            draw < 0.0
        });
        let to = found.or_else(|| candidates.iter().rfind(weighed)).map(|candidate| candidate.to);
        self.rng.next();
        to
    }

    pub(crate) fn change(&mut self, changes: &[Change]) {
        for change in changes {
            let (variable, text) = match change {
                Change::Set(variable, template) => (*variable, template.text(&self.values(""))),
                Change::Unset(variable) => (*variable, None),
                Change::Add(variable, by) => (*variable, Some(plain_number(self.number_in(*variable) + by))),
                Change::Draw { variable, from, mean, deviation, limits, decimals } => {
                    let factor = self.rng.truncated_normal(*mean, *deviation, *limits);
                    let known = self.variables[*from].is_some();
                    (*variable, known.then(|| format!("{:.decimals$}", self.number_in(*from) * factor)))
                }
            };
            self.variables[variable] = text.map(String::into_boxed_str);
        }
    }

    fn number_in(&self, variable: usize) -> f64 {
        self.variables[variable].as_deref().and_then(|text| text.trim().parse().ok()).unwrap_or(0.0)
    }

    /// Takes the values that a scenario wants from `body` and the head; `false` when one is missing.
    pub(crate) fn extract(&mut self, wanted: &[Extract], body: &[u8]) -> bool {
        for extract in wanted {
            let picked = extract.value(&self.heard.head, body, &mut self.rng);
            if picked.is_none() && !extract.optional {
                return false;
            }
            self.variables[extract.variable] = picked.map(String::into_boxed_str);
        }
        true
    }

    /// Takes the cookies that the head sets.
    pub(crate) fn take_cookies(&mut self, origin: usize) {
        for line in header_values(&self.heard.head, "set-cookie") {
            let mut parts = line.split(';');
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { continue };
            let (name, value) = (name.trim(), value.trim());
            let gone = parts.any(|part| part.trim().eq_ignore_ascii_case("max-age=0"));
            self.cookies.retain(|cookie| cookie.origin != origin || &*cookie.name != name);
            if !gone && self.cookies.len() < MOST_COOKIES && name.len() + value.len() <= LONGEST_COOKIE {
                self.cookies.push(Cookie { origin, name: name.into(), value: value.into() });
            }
        }
    }
}

/// The most cookies of a user and their longest, as RFC 6265, 6.1, asks of clients.
const MOST_COOKIES: usize = 50;
const LONGEST_COOKIE: usize = 4096;

fn plain_number(value: f64) -> String {
    // Shortest text that reads back as the same: 2 and not 2.0.
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_from_what_is_not_known_is_not_known() {
        let scenario = Scenario::of_url("http://127.0.0.1/").expect("a URL");
        let mut actor = Actor::new(Role::User, 0, 1, &scenario);
        let draw = [Change::Draw { variable: 1, from: 0, mean: 2.0, deviation: 0.0, limits: (2.0, 2.0), decimals: 1 }];
        actor.variables = vec![Some("1.5".into()), None];
        actor.change(&draw);
        assert_eq!(actor.variables[1].as_deref(), Some("3.0"));
        actor.variables[0] = None;
        actor.change(&draw);
        assert_eq!(actor.variables[1], None, "neither 0 nor what was drawn before");
    }

    #[test]
    fn cookies_are_kept_replaced_and_taken_away() {
        let scenario = Scenario::of_url("http://127.0.0.1/").expect("a URL");
        let mut actor = Actor::new(Role::User, 0, 1, &scenario);
        actor.heard.head = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nset-cookie: b=2\r\n\r\n".to_vec();
        actor.take_cookies(0);
        actor.heard.head = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=3\r\nSet-Cookie: b=; Max-Age=0\r\n\r\n".to_vec();
        actor.take_cookies(0);
        let kept: Vec<_> = actor.cookies.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        assert_eq!(kept, ["a=3"]);
    }
}
