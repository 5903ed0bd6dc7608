//! Why a service cannot be had or has failed, and what of its log says so.

use baremark_model::job::JobError;
use std::io;
use std::net::SocketAddr;

/// Why a service cannot be had or has failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The program is not here.
    #[error("{kind} is not installed ({program}); install it: apt-get install {package}")]
    Missing {
        /// The service.
        kind: &'static str,
        /// What was looked for.
        program: String,
        /// Debian's package.
        package: &'static str,
    },
    /// Somebody listens there already.
    #[error("{name}: the address {address} is taken; choose another port, or 0 for any free one")]
    Taken {
        /// The instance.
        name: String,
        /// The address.
        address: SocketAddr,
    },
    /// What was asked cannot be.
    #[error("{name}: {what}; {remedy}")]
    Refused {
        /// The instance.
        name: String,
        /// What is wrong.
        what: String,
        /// What would be right.
        remedy: String,
    },
    /// It did not become ready, or ended by itself.
    #[error("{name}: {what}{}", said(.log))]
    Failed {
        /// The instance.
        name: String,
        /// What it did.
        what: String,
        /// The last lines of its log.
        log: Vec<String>,
    },
    /// A file, a socket or a process.
    #[error("{name}: {what}: {source}")]
    Io {
        /// The instance.
        name: String,
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl From<ServiceError> for JobError {
    fn from(why: ServiceError) -> JobError {
        match why {
            ServiceError::Missing { kind, program, package } => JobError::Missing {
                what: format!("{kind} is not installed ({program})"),
                remedy: format!("install it: apt-get install {package}"),
            },
            other => JobError::failed(other),
        }
    }
}

/// How programs mark an error that ends them: MariaDB, PostgreSQL, nginx, HAProxy.
const ERRORS: [&str; 6] = ["[ERROR]", "[FATAL]", "FATAL:", "PANIC:", "[emerg]", "[ALERT]"];

/// What PostgreSQL marks so though it ends a connection alone.
const OF_CONNECTIONS: [&str; 8] = [
    "the database system is ",
    "terminating connection",
    "terminating background worker",
    "connection to client lost",
    "too many clients",
    "too many connections",
    "connection slots are reserved",
    "authentication",
];

/// Whether a program marks the line as an error that ends it.
pub(crate) fn is_error(line: &str) -> bool {
    let has = |marks: &[&str]| marks.iter().any(|mark| line.contains(mark));
    has(&ERRORS) && !has(&OF_CONNECTIONS)
}

/// The last lines of a log, and above them the first error where a program has written more after it; they begin with a semicolon.
pub(crate) fn said(log: &[String]) -> String {
    let lines: Vec<&str> = log.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
    let (earlier, last) = lines.split_at(lines.len().saturating_sub(5));
    let first = earlier.iter().find(|line| is_error(line));
    let first = first.map_or_else(String::new, |line| format!("; its first error:\n    {line}"));
    let last = last.iter().fold(String::new(), |text, line| text + "\n    " + line);
    if last.is_empty() { String::new() } else { format!("{first}; its last lines:{last}") }
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn the_first_error_is_shown_however_much_follows_it() {
        let log = |lines: &[&str]| said(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
        assert_eq!(log(&[]), "");
        assert_eq!(log(&["[Note] a", "", "[ERROR] b"]), "; its last lines:\n    [Note] a\n    [ERROR] b");
        let many = log(&["[Note] a", "[ERROR] b", "[ERROR] c", "d", "e", "f", "g", "[ERROR] h"]);
        assert_eq!(
            many,
            "; its first error:\n    [ERROR] b; its last lines:\n    d\n    e\n    f\n    g\n    [ERROR] h"
        );
        // Errors of connections, before it and after, do not end a server.
        let connections = "FATAL:  the database system is in recovery mode";
        let many = log(&["FATAL:  sorry, too many clients already", connections, "PANIC:  disk full", connections]
            .into_iter()
            .chain([connections; 5])
            .collect::<Vec<_>>());
        assert!(many.starts_with("; its first error:\n    PANIC:  disk full; its last lines:\n    FATAL: "), "{many}");
        let none = log(&[connections; 7]);
        assert!(none.starts_with("; its last lines:"), "{none}");
    }
}
