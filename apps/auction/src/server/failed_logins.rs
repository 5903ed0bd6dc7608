//! Failed log-ins, counted by where they come from, so that passwords cannot be guessed and nobody can lock another's account.
//!
//! Two limits, each of which allows so many failures at once and then one every few seconds (a generic cell rate algorithm, ITU-T I.371):
//! one of an account from an address, and one of an address over all accounts, so that one password cannot be tried on every name.
//! The right password from another address is accepted whatever strangers try, and so is the next log-in of an account that has logged in
//! from this address before, whatever other accounts fail there. A log-in that succeeds counts nothing, however many there are. What was
//! typed as a name counts whether or not somebody has that name, so that the refusal does not tell names. Each app server counts what comes
//! to it. Against guesses from many addresses there is the cost of a password's check alone.

use sha2::{Digest as _, Sha256};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failures at once of one account from one address, and of one address over all accounts.
const OF_ACCOUNT: u32 = 10;
const OF_ADDRESS: u32 = 30;
/// After so long one of them is forgotten.
pub(crate) const FORGOTTEN: Duration = Duration::from_secs(5);
/// Entries of a table, at most.
const REMEMBERED: usize = 100_000;

type Digest = [u8; 32];

/// A log-in: which account, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pair: Digest,
    address: Digest,
}

impl Attempt {
    /// Of an IPv6 address the network counts, of which one customer has at least one (RFC 6177).
    pub(crate) fn new(address: IpAddr, username: &str) -> Self {
        let network = match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            address => address,
        };
        let address = Sha256::digest(network.to_string());
        let pair = Sha256::new().chain_update(address).chain_update(username).finalize();
        Attempt { pair: pair.into(), address: address.into() }
    }
}

/// When the failures of each will be forgotten.
#[derive(Debug, Default)]
struct Failures(HashMap<Digest, Instant>);

impl Failures {
    fn allows(&self, of: &Digest, at_once: u32, now: Instant) -> bool {
        self.0.get(of).is_none_or(|at| *at <= now + FORGOTTEN * (at_once - 1))
    }

    fn note(&mut self, of: Digest, now: Instant) {
        if self.0.len() >= REMEMBERED && !self.0.contains_key(&of) {
            self.0.retain(|_, at| *at > now);
            // Whoever is forgotten first has failed least.
            let least = self.0.iter().min_by_key(|(_, at)| **at).map(|(of, _)| *of);
            if let Some(least) = least.filter(|_| self.0.len() >= REMEMBERED) {
                self.0.remove(&least);
            }
        }
        let at = self.0.entry(of).or_insert(now);
        *at = (*at).max(now) + FORGOTTEN;
    }
}

/// Accounts with addresses from which they have logged in lately: at most the last [`REMEMBERED`], at least half as many.
#[derive(Debug, Default)]
struct Known {
    recent: HashSet<Digest>,
    before: HashSet<Digest>,
}

impl Known {
    fn contains(&self, pair: &Digest) -> bool {
        self.recent.contains(pair) || self.before.contains(pair)
    }

    fn insert(&mut self, pair: Digest) {
        if self.recent.insert(pair) && self.recent.len() >= REMEMBERED / 2 {
            self.before = std::mem::take(&mut self.recent);
        }
    }
}

#[derive(Debug, Default)]
struct Tables {
    of_accounts: Failures,
    of_addresses: Failures,
    known: Known,
}

/// The failures that count.
#[derive(Debug, Default)]
pub(crate) struct FailedLogins(Mutex<Tables>);

impl FailedLogins {
    /// Whether this log-in may be tried now.
    pub(crate) fn allows(&self, attempt: &Attempt) -> bool {
        self.allows_at(attempt, Instant::now())
    }

    /// Notes how it ended.
    pub(crate) fn note(&self, attempt: &Attempt, right: bool) {
        self.note_at(attempt, right, Instant::now());
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allows_at(&self, attempt: &Attempt, now: Instant) -> bool {
        let tables = self.tables();
        tables.of_accounts.allows(&attempt.pair, OF_ACCOUNT, now)
            && (tables.known.contains(&attempt.pair) || tables.of_addresses.allows(&attempt.address, OF_ADDRESS, now))
    }

    fn note_at(&self, attempt: &Attempt, right: bool, now: Instant) {
        let mut tables = self.tables();
        if right {
            tables.known.insert(attempt.pair);
        } else {
            tables.of_accounts.note(attempt.pair, now);
            tables.of_addresses.note(attempt.address, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str, name: &str) -> Attempt {
        Attempt::new(address.parse().unwrap(), name)
    }

    /// How many of so many failures in a row were allowed.
    fn failures(logins: &FailedLogins, attempts: impl Iterator<Item = Attempt>, now: Instant) -> usize {
        let try_one = |attempt: &Attempt| {
            let allowed = logins.allows_at(attempt, now);
            if allowed {
                logins.note_at(attempt, false, now);
            }
            allowed
        };
        attempts.filter(try_one).count()
    }

    #[test]
    fn failures_of_an_account_are_limited_by_address_and_forgotten_one_by_one() {
        let (logins, begin) = (FailedLogins::default(), Instant::now());
        let guess = from("192.0.2.1", "user6");
        let guesses = || std::iter::repeat_n(guess, 40);
        assert_eq!(failures(&logins, guesses(), begin), 10);
        assert!(logins.allows_at(&from("192.0.2.2", "user6"), begin), "its owner, elsewhere");
        assert!(logins.allows_at(&from("192.0.2.1", "user7"), begin), "another account");
        assert_eq!(failures(&logins, guesses(), begin + FORGOTTEN), 1, "one was forgotten, not all");
        assert_eq!(failures(&logins, guesses(), begin + FORGOTTEN * 40), 10);
    }

    #[test]
    fn one_password_is_not_tried_on_every_name() {
        let (logins, begin) = (FailedLogins::default(), Instant::now());
        logins.note_at(&from("192.0.2.1", "user500"), true, begin);
        let names = || (0..200).map(|number| from("192.0.2.1", &format!("user{number}")));
        assert_eq!(failures(&logins, names(), begin), 30);
        assert_eq!(failures(&logins, names(), begin + FORGOTTEN), 1);
        assert!(logins.allows_at(&from("192.0.2.1", "user500"), begin), "it has logged in from there before");
        assert!(!logins.allows_at(&from("192.0.2.1", "user501"), begin));
        assert!(logins.allows_at(&from("192.0.2.2", "user501"), begin), "another address");
    }

    #[test]
    fn log_ins_that_succeed_count_nothing() {
        let (logins, begin) = (FailedLogins::default(), Instant::now());
        for number in 0..1000 {
            let attempt = from("192.0.2.1", &format!("user{}", number % 300));
            assert!(logins.allows_at(&attempt, begin));
            logins.note_at(&attempt, true, begin);
        }
    }

    #[test]
    fn a_customers_network_is_one_address() {
        assert_eq!(from("2001:db8::1", "a"), from("2001:db8::2:1", "a"));
        assert_ne!(from("2001:db8:0:1::1", "a"), from("2001:db8::1", "a"));
        assert_eq!(from("::ffff:192.0.2.1", "a"), from("192.0.2.1", "a"));
        assert_ne!(from("192.0.2.1", "a"), from("192.0.2.2", "a"));
    }

    #[test]
    fn the_tables_are_bounded_and_who_has_failed_most_stays() {
        let (mut failures, begin) = (Failures::default(), Instant::now());
        let name = |number: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            digest
        };
        (0..10).for_each(|_| failures.note(name(0), begin));
        (1..=REMEMBERED).for_each(|number| failures.note(name(number), begin));
        assert_eq!(failures.0.len(), REMEMBERED);
        assert!(!failures.allows(&name(0), 10, begin), "it is still limited");
        assert!(failures.0.contains_key(&name(REMEMBERED)), "and so is the newest");
        failures.note(name(REMEMBERED + 1), begin + FORGOTTEN);
        assert_eq!(failures.0.len(), 2, "what is forgotten takes no memory");

        let mut known = Known::default();
        (0..3 * REMEMBERED).for_each(|number| known.insert(name(number)));
        assert!(known.recent.len() + known.before.len() <= REMEMBERED);
        assert!(known.contains(&name(3 * REMEMBERED - 1)) && !known.contains(&name(0)));
    }
}
