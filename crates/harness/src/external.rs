//! The database on a server that is there already: one of the run's own, made before the data are loaded and removed at the end.
//!
//! The password comes from a file that only its owner may read, or from the environment; it goes to the application's programs
//! by a file or a pipe and is in no argument, environment, log or document. The application makes and removes the database
//! (`baremark auction create`, `remove`), for only it speaks with one.

use crate::topology::External;
use baremark_load::url::{self, UrlError};
use baremark_services::auction::PASSWORD_FILE;
use baremark_services::place::Place;
use baremark_sys::secrets;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The variables that name the user and the password where no file does.
const USER_VARIABLE: &str = "BAREMARK_DATABASE_USER";
const PASSWORD_VARIABLE: &str = "BAREMARK_DATABASE_PASSWORD";
/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Why there is no database on a server that is there already.
#[derive(Debug, thiserror::Error)]
pub enum ExternalError {
    /// Nothing says who connects.
    #[error(
        "no credentials of the external database; set {USER_VARIABLE} and {PASSWORD_VARIABLE}, or name a file in \
         database.credentials"
    )]
    NoCredentials,
    /// The file with the credentials cannot be read.
    #[error("{file}: {source}; write the user and the password, each on a line")]
    File {
        /// Which.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read the file with the credentials.
    #[error("{0}: others may read the credentials; chmod 600 {0}")]
    Open(String),
    /// The file with the credentials has less in it.
    #[error("{0}: there are no two lines; write the user and the password, each on a line")]
    NotTwoLines(String),
    /// The user's name does not fit into a URL: where it stands.
    #[error("{0}: the database's user has characters other than letters, digits, _, - and .")]
    User(String),
    /// The server's name is none.
    #[error(transparent)]
    Name(#[from] UrlError),
    /// The server does not accept connections.
    #[error("external:{server}: {source}; start the server, or correct database.on")]
    Unreachable {
        /// Its name.
        server: String,
        /// Why.
        source: UrlError,
    },
    /// The application has not made a database there.
    #[error("external:{server}: {why}")]
    NotMade {
        /// The server.
        server: String,
        /// Why.
        why: CommandError,
    },
}

/// Why a command of the application has no result.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It could not be started, or not be waited for.
    #[error(transparent)]
    Process(#[from] io::Error),
    /// It failed: its last words.
    #[error("{0}")]
    Failed(String),
    /// What it printed is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// What it printed names no database.
    #[error("no database in {0}")]
    NoDatabase(serde_json::Value),
}

/// Who connects, and with which password.
struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    /// From a file of two lines, the user and the password, or from the environment.
    fn read(file: Option<&Path>) -> Result<Credentials, ExternalError> {
        let Some(file) = file else {
            let variable = |name: &str| secrets::get(name).filter(|value| !value.is_empty());
            return match (variable(USER_VARIABLE), variable(PASSWORD_VARIABLE)) {
                (Some(user), Some(password)) => Credentials { user, password }.checked("the environment"),
                _ => Err(ExternalError::NoCredentials),
            };
        };
        let name = file.display().to_string();
        let named = |source| ExternalError::File { file: name.clone(), source };
        let open = std::fs::metadata(file).map_err(named)?.mode() & 0o077 != 0;
        if open {
            return Err(ExternalError::Open(name));
        }
        let text = std::fs::read_to_string(file).map_err(named)?;
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        match (lines.next(), lines.next()) {
            (Some(user), Some(password)) => {
                Credentials { user: user.to_owned(), password: password.to_owned() }.checked(&name)
            }
            _ => Err(ExternalError::NotTwoLines(name)),
        }
    }

    /// The user stands in a URL, in which nothing is quoted.
    fn checked(self, place: &str) -> Result<Credentials, ExternalError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        match self.user.bytes().all(plain) {
            true => Ok(self),
            false => Err(ExternalError::User(place.to_owned())),
        }
    }
}

/// Whether there are credentials and a server that accepts connections.
///
/// # Errors
/// What is missing, with the remedy.
pub(crate) fn probe(wanted: &External) -> Result<(), ExternalError> {
    Credentials::read(wanted.credentials.as_deref())?;
    address(wanted).map(drop)
}

/// The first of the server's addresses that accepts a connection: the application takes no names.
fn address(wanted: &External) -> Result<SocketAddr, ExternalError> {
    let (origin, _) = url::parse(&format!("http://{}/", wanted.server))?;
    let unreachable = |source| ExternalError::Unreachable { server: wanted.server.clone(), source };
    origin.reachable(CONNECT).map_err(unreachable)
}

/// A database of the run's own on a server of somebody else's; it is removed when this is dropped.
pub(crate) struct ExternalDatabase {
    program: PathBuf,
    /// `postgres` or `mysql`.
    scheme: &'static str,
    address: SocketAddr,
    name: String,
    credentials: Credentials,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl ExternalDatabase {
    /// Makes it.
    ///
    /// # Errors
    /// No credentials or server, a database that is not empty and not ours, rights that are missing.
    pub(crate) fn create(wanted: &External, program: &Path) -> Result<ExternalDatabase, ExternalError> {
        let credentials = Credentials::read(wanted.credentials.as_deref())?;
        let scheme = if wanted.service == "postgres" { "postgres" } else { "mysql" };
        let mut database = ExternalDatabase {
            program: program.to_owned(),
            scheme,
            address: address(wanted)?,
            name: wanted.name.clone(),
            credentials,
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
        let made = database.tell("create", &["--number", &number]);
        let made = made.and_then(|out| {
            let made: serde_json::Value = serde_json::from_str(out.trim())?;
            let name = made["database"].as_str().map(str::to_owned);
            name.ok_or(CommandError::NoDatabase(made))
        });
        match made {
            Ok(name) => {
                database.name = name;
                Ok(database)
            }
            Err(why) => {
                // What was not made is not removed.
                database.name.clear();
                Err(ExternalError::NotMade { server: wanted.server.clone(), why })
            }
        }
    }

    /// Its URL, without the password, as a program at a place reaches it.
    pub(crate) fn url(&self, place: &dyn Place) -> String {
        // What listens on this machine's loopback is reached there as whatever else of the run does.
        let address = if self.address.ip().is_loopback() { place.reaches(self.address) } else { self.address };
        format!("{}://{}@{address}/{}", self.scheme, self.credentials.user, self.name)
    }

    /// The password.
    pub(crate) fn password(&self) -> &str {
        &self.credentials.password
    }

    /// Runs a command of the application to its end: what it printed, or its last words.
    fn tell(&self, command: &str, more: &[&str]) -> Result<String, CommandError> {
        let url = self.url(&baremark_services::place::Native);
        let mut process = Command::new(&self.program);
        process.args(["auction", command, "--database", &url, "--owner", &std::process::id().to_string()]).args(more);
        // Neither in its arguments nor in its environment, which others of this user's programs may read.
        process.args([PASSWORD_FILE, "/dev/stdin"]);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = baremark_sys::subreaper::start(&mut process)?;
        if let Some(mut input) = child.stdin.take() {
            // What has ended says why.
            drop(writeln!(input, "{}", self.password()));
        }
        let output = child.wait_with_output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr).replace(self.password(), "***");
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Err(CommandError::Failed(last.trim_start_matches("error: ").to_owned()))
    }
}

impl Drop for ExternalDatabase {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // A server that is gone has nothing to remove; the next run removes what is left on one that comes back.
            drop(self.tell("remove", &[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn credentials_are_two_lines_that_nobody_else_may_read() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        write!(file, "somebody\n s3cret! \n").expect("written");
        let mode = |mode| std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("set");
        let read = || Credentials::read(Some(file.path()));
        mode(0o644);
        let refused = || read().err().map(|why| why.to_string()).unwrap_or_default();
        let why = refused();
        assert!(why.contains("others may read the credentials; chmod 600") && !why.contains("s3cret"), "{why}");
        mode(0o600);
        let found = read().unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((found.user.as_str(), found.password.as_str()), ("somebody", "s3cret!"));
        std::fs::write(file.path(), "a/b\nx\n").expect("written");
        assert!(refused().contains("characters other than letters"));
        std::fs::write(file.path(), "alone\n").expect("written");
        assert!(refused().contains("no two lines"));
    }
}
