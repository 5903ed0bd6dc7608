//! Tokens: random, stored as hashes only, remembered for a moment so that not every request asks the database.

use super::App;
use super::refusal::Refusal;
use crate::duration::{millis, now_ms};
use crate::nouns::Id;
use crate::password;
use crate::store::accounts;
use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long a token is trusted without asking; a logout reaches other servers by the bus before.
const TRUST: Duration = Duration::from_secs(5);
/// Remembered tokens, at most; then all are asked for again.
const REMEMBERED: usize = 100_000;
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
pub(crate) async fn open(app: &Arc<App>, username: &str, given: String) -> Result<(String, Id, i64), Refusal> {
    let turn = app.hashing.try_enter().ok_or_else(|| Refusal::busy("logins"))?;
    let found = accounts::by_name(&*app.database, username).await?;
    let (account, hash) = match found {
        Some((account, hash)) => (Some(account), hash),
        // As much work for a name that nobody has, so that time does not tell names.
        None => (None, app.some_hash.clone()),
    };
    let _permit = turn.turn().await;
    let checked = tokio::task::spawn_blocking(move || password::matches(&given, &hash)).await;
    let (true, Some(account)) = (checked.unwrap_or(false), account) else { return Err(Refusal::wrong_password()) };
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

/// So many passwords are checked at once, and so many more may wait.
pub(crate) struct Hashing {
    permits: tokio::sync::Semaphore,
    waiting: Arc<tokio::sync::Semaphore>,
}

pub(crate) struct Turn<'a> {
    hashing: &'a Hashing,
    _place: tokio::sync::OwnedSemaphorePermit,
}

impl Hashing {
    pub(crate) fn new(at_once: usize, waiting: usize) -> Self {
        Hashing {
            permits: tokio::sync::Semaphore::new(at_once),
            waiting: Arc::new(tokio::sync::Semaphore::new(waiting)),
        }
    }

    fn try_enter(&self) -> Option<Turn<'_>> {
        let place = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        Some(Turn { hashing: self, _place: place })
    }
}

impl<'a> Turn<'a> {
    async fn turn(&self) -> Option<tokio::sync::SemaphorePermit<'a>> {
        self.hashing.permits.acquire().await.ok()
    }
}
