//! Failed logins, account by account: so many at once and then one every few seconds, so that passwords cannot be guessed.
//!
//! A login that succeeds counts nothing, however many there are. What was typed as a name counts whether or not somebody has that
//! name, so that the refusal does not tell names. Each app server counts what comes to it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures that an account may have at once.
const AT_ONCE: u32 = 10;
/// After so long one of them is forgotten.
pub(crate) const FORGOTTEN: Duration = Duration::from_secs(5);
/// Accounts that are remembered, at most.
const REMEMBERED: usize = 100_000;

type Digest = [u8; 32];

/// When the failures of each account will be forgotten (a generic cell rate algorithm, ITU-T I.371).
#[derive(Debug, Default)]
pub(crate) struct FailedLogins(Mutex<HashMap<Digest, Instant>>);

impl FailedLogins {
    /// Whether a login of this account may be tried now.
    pub(crate) fn allows(&self, account: &Digest) -> bool {
        self.allows_at(account, Instant::now())
    }

    /// Notes a failure.
    pub(crate) fn note(&self, account: Digest) {
        self.note_at(account, Instant::now());
    }

    fn allows_at(&self, account: &Digest, now: Instant) -> bool {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let forgotten = failures.get(account).copied();
        forgotten.is_none_or(|at| at <= now + FORGOTTEN * (AT_ONCE - 1))
    }

    fn note_at(&self, account: Digest, now: Instant) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= REMEMBERED {
            failures.retain(|_, at| *at > now);
        }
        // Whoever fails for so many names at once is not slowed down for further ones; every known one stays limited.
        if failures.len() < REMEMBERED || failures.contains_key(&account) {
            let at = failures.entry(account).or_insert(now);
            *at = (*at).max(now) + FORGOTTEN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_limited_by_account_and_forgotten_one_by_one() {
        let (logins, begin) = (FailedLogins::default(), Instant::now());
        for _ in 0..AT_ONCE {
            assert!(logins.allows_at(&[1; 32], begin));
            logins.note_at([1; 32], begin);
        }
        assert!(!logins.allows_at(&[1; 32], begin));
        assert!(logins.allows_at(&[2; 32], begin), "another account");
        let later = begin + FORGOTTEN;
        assert!(logins.allows_at(&[1; 32], later));
        logins.note_at([1; 32], later);
        assert!(!logins.allows_at(&[1; 32], later), "one was forgotten, not all");
        assert!(logins.allows_at(&[1; 32], later + FORGOTTEN * AT_ONCE));
    }

    #[test]
    fn the_memory_of_failures_is_bounded() {
        let (logins, begin) = (FailedLogins::default(), Instant::now());
        let name = |number: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            digest
        };
        (0..=REMEMBERED).for_each(|number| logins.note_at(name(number), begin));
        let count = || logins.0.lock().unwrap().len();
        assert_eq!(count(), REMEMBERED);
        logins.note_at(name(REMEMBERED), begin + FORGOTTEN);
        assert_eq!(count(), 1);
    }
}
