//! What is to be done for one instance, as data: a place can carry it out here, in a container or on another machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// One program with its arguments; never a shell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables of its environment in addition to those that every program gets; none is a secret, for programs show theirs.
    pub env: Vec<(String, String)>,
}

impl Step {
    /// A program with these arguments.
    pub fn new<T: Into<String>>(program: impl Into<PathBuf>, args: impl IntoIterator<Item = T>) -> Step {
        Step { program: program.into(), args: args.into_iter().map(Into::into).collect(), env: Vec::new() }
    }

    /// With a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Step {
        self.env.push((name.to_owned(), value.into()));
        self
    }
}

/// How to detect that an instance serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// What is sent to its address, and what the answer begins with.
    Answers {
        /// Sent first; may be empty.
        send: Vec<u8>,
        /// The answer's beginning; may be empty, then being connected is enough.
        expect: &'static [u8],
    },
    /// A command that ends well.
    Command(Step),
    /// Whoever carries it out at its site says so at this address.
    Carried(SocketAddr),
}

impl Ready {
    /// A GET that brings some answer of HTTP below 500.
    #[must_use]
    pub fn http(path: &str) -> Ready {
        Ready::Answers {
            send: format!("GET {path} HTTP/1.1\r\nHost: ready\r\nConnection: close\r\n\r\n").into_bytes(),
            expect: b"HTTP/1.1 2",
        }
    }
}

/// How a running instance takes a new configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reload {
    /// It does not.
    #[default]
    Never,
    /// By this signal.
    Signal(i32),
}

/// Everything about one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Files to write, relative to the instance's folder.
    pub files: Vec<(String, String)>,
    /// Folders to make there.
    pub folders: Vec<&'static str>,
    /// Commands before the first start, in order.
    pub prepare: Vec<Step>,
    /// The service itself; it stays in the foreground.
    pub run: Step,
    /// Commands after it is ready for the first time.
    pub after: Vec<Step>,
    /// How to detect that it serves.
    pub ready: Ready,
    /// How long that may take.
    pub ready_limit: Duration,
    /// Asks it to end and to finish what it has begun.
    pub stop_signal: i32,
    /// Ends it and all its processes at once; it gets this when whoever started it is killed.
    pub death_signal: i32,
    /// How it takes a new configuration.
    pub reload: Reload,
    /// A file in its folder that it logs to in addition to its standard error.
    pub log_file: Option<&'static str>,
}

impl Recipe {
    /// A recipe of one program that is ready when `ready` says so, ends on SIGTERM, and is one process.
    #[must_use]
    pub fn new(run: Step, ready: Ready) -> Recipe {
        Recipe {
            files: Vec::new(),
            folders: Vec::new(),
            prepare: Vec::new(),
            run,
            after: Vec::new(),
            ready,
            ready_limit: Duration::from_secs(60),
            stop_signal: libc::SIGTERM,
            death_signal: libc::SIGKILL,
            reload: Reload::Never,
            log_file: None,
        }
    }
}
