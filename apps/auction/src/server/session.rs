//! Tokens: random, stored as hashes only, remembered for a moment so that not every request asks the database.

use super::App;
use super::failed_logins::{Attempt, FailedLogins};
use super::refusal::Refusal;
use crate::duration::{millis, now_ms};
use crate::nouns::Id;
use crate::password;
use crate::store::accounts;
use crate::workers::Workers;
use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};

/// How long a token is trusted without asking; a logout reaches other servers by the bus before.
const TRUST: Duration = Duration::from_secs(5);
/// Remembered tokens, at most; then all are asked for again.
const REMEMBERED: usize = 100_000;
/// The name of the threads that check passwords, by which their processor time is known.
pub(crate) const CHECKERS: &str = "passwords";
pub(crate) const COOKIE: &str = "auction_token";

type Hash = [u8; 32];

/// Tokens that were asked for lately.
#[derive(Debug, Default)]
pub(crate) struct Sessions(RwLock<HashMap<Hash, (Id, i64, Instant)>>);

/// Who is asking, and by which token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub account: Id,
    pub hash: Hash,
}

pub(crate) fn hash_of(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

impl Sessions {
    fn known(&self, hash: &Hash) -> Option<Id> {
        let sessions = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let &(account, expires_ms, asked) = sessions.get(hash)?;
        (asked.elapsed() < TRUST && now_ms() < expires_ms).then_some(account)
    }

    fn remember(&self, hash: Hash, account: Id, expires_ms: i64) {
        let mut sessions = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= REMEMBERED {
            sessions.retain(|_, (_, _, asked)| asked.elapsed() < TRUST);
        }
        sessions.insert(hash, (account, expires_ms, Instant::now()));
    }

    pub(crate) fn forget(&self, hash: &Hash) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(hash);
    }

    /// Forgets a token by the digits that came over the bus.
    pub(crate) fn forget_digits(&self, digits: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|hash, _| password::hex(hash) != digits);
    }
}

/// The token of a request: `Authorization: Bearer`, or the cookie.
fn token(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        return value.to_str().ok()?.strip_prefix("Bearer ");
    }
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|text| text.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    })
}

/// Who is asking.
pub(crate) async fn caller(app: &App, headers: &HeaderMap) -> Result<Caller, Refusal> {
    let hash = hash_of(token(headers).ok_or_else(Refusal::unknown_token)?);
    if let Some(account) = app.sessions.known(&hash) {
        return Ok(Caller { account, hash });
    }
    match accounts::session(&*app.database, &hash).await? {
        Some((account, expires_ms)) if now_ms() < expires_ms => {
            app.sessions.remember(hash, account, expires_ms);
            Ok(Caller { account, hash })
        }
        _ => Err(Refusal::unknown_token()),
    }
}

/// A new token for whoever knows the password; returns token, account and when it ends.
pub(crate) async fn open(
    app: &Arc<App>,
    address: IpAddr,
    username: &str,
    given: String,
) -> Result<(String, Id, i64), Refusal> {
    let found = accounts::by_name(&*app.database, username).await?;
    let (account, hash) = match found {
        Some((account, hash)) => (Some(account), hash),
        // As much work for a name that nobody has, so that time does not tell names.
        None => (None, app.some_hash.clone()),
    };
    let attempt = Attempt::new(address, username);
    let guess = Guess { attempt, password: given, hash, known: account.is_some() };
    let checked = app.hashing.check(guess).await?;
    let (true, Some(account)) = (checked, account) else { return Err(Refusal::wrong_password()) };
    let token = password::hex(&password::random::<32>().map_err(|why| Refusal::unavailable(&why))?);
    let hash = hash_of(&token);
    let expires_ms = now_ms() + millis(app.session_time);
    accounts::open_session(&*app.database, &hash, account, expires_ms).await?;
    app.sessions.remember(hash, account, expires_ms);
    Ok((token, account, expires_ms))
}

/// Forgets a token, here and everywhere.
pub(crate) async fn close(app: &App, caller: Caller) -> Result<(), Refusal> {
    accounts::close_session(&*app.database, &caller.hash).await?;
    app.sessions.forget(&caller.hash);
    app.bus.send(super::bus::Message::Logout(password::hex(&caller.hash)));
    Ok(())
}

/// Threads that check passwords, each in memory of its own, and how many logins may wait for them.
pub(crate) struct Hashing {
    workers: Workers<Job>,
    places: Semaphore,
    failed: Arc<FailedLogins>,
}

/// A password that somebody has given.
struct Guess {
    /// The name, and where it comes from.
    attempt: Attempt,
    password: String,
    hash: String,
    /// Whether somebody has that name.
    known: bool,
}

struct Job {
    guess: Guess,
    failed: Arc<FailedLogins>,
    reply: oneshot::Sender<Result<bool, Refusal>>,
}

impl Job {
    fn work(checker: &mut password::Checker, Job { guess, failed, reply }: Job) {
        // Whoever has gone meanwhile is not worth the work.
        if reply.is_closed() {
            return;
        }
        // Here, where each is checked: of many guesses at once all have come before the first has failed.
        if !failed.allows(&guess.attempt) {
            let _ = reply.send(Err(Refusal::failed_logins()));
            return;
        }
        let right = checker.matches(&guess.password, &guess.hash) && guess.known;
        failed.note(&guess.attempt, right);
        let _ = reply.send(Ok(right));
    }
}

impl Hashing {
    /// # Errors
    /// No thread can be started.
    pub(crate) fn new(threads: usize, waiting: usize) -> std::io::Result<Self> {
        let workers = Workers::start(CHECKERS, threads, Job::work)?;
        Ok(Hashing { workers, places: Semaphore::new(waiting), failed: Arc::default() })
    }

    /// Whether the password is right.
    async fn check(&self, guess: Guess) -> Result<bool, Refusal> {
        if !self.failed.allows(&guess.attempt) {
            return Err(Refusal::failed_logins());
        }
        let _place = self.places.try_acquire().map_err(|_full| Refusal::busy("logins"))?;
        let (reply, answer) = oneshot::channel();
        let job = Job { guess, failed: Arc::clone(&self.failed), reply };
        let ended = || Refusal::unavailable("passwords are not checked any more");
        self.workers.give(job).map_err(|_ended| ended())?;
        answer.await.unwrap_or_else(|_ended| Err(ended()))
    }
}
