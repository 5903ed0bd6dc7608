//! Processor time that app servers use for checking passwords: what a log-in costs is a setting, and no part of what the mix costs.

use baremark_services::service::Instance;
use std::collections::BTreeMap;

/// The counter of an app server, in s: the processor time of threads that do nothing else.
const COUNTER: &str = "auction_password_cpu_seconds_total";

/// The sum over all servers that were ever read. A server that is started anew counts from 0 again.
#[derive(Debug, Default)]
pub(crate) struct Passwords {
    sum_ns: u64,
    last_ns: BTreeMap<String, u64>,
}

impl Passwords {
    /// Reads the counter of a server; whether it has told.
    pub(crate) fn read(&mut self, server: &Instance) -> bool {
        let told = server.statistics().ok().and_then(|all| all.get(COUNTER).copied());
        told.is_some_and(|seconds| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
            self.count(server.name(), (seconds * 1e9) as u64);
            true
        })
    }

    fn count(&mut self, server: &str, now_ns: u64) {
        let last_ns = self.last_ns.insert(server.to_owned(), now_ns).unwrap_or(0);
        self.sum_ns += if now_ns < last_ns { now_ns } else { now_ns - last_ns };
    }

    pub(crate) fn sum_ns(&self) -> u64 {
        self.sum_ns
    }
}

#[cfg(test)]
mod tests {
    use super::Passwords;

    #[test]
    fn servers_that_start_anew_count_on() {
        let mut passwords = Passwords::default();
        for (server, now_ns) in [("app-1", 30), ("app-2", 5), ("app-1", 50), ("app-1", 7), ("app-1", 9)] {
            passwords.count(server, now_ns);
        }
        assert_eq!(passwords.sum_ns(), 50 + 9 + 5);
    }
}
