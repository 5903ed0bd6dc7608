//! Secrets of the environment, which no other program gets.
//!
//! A process hands its environment on to all that it starts: databases, engines, other people's programs. So secrets are taken out of it
//! before anything is started ([`take`]), and only an agent of this program gets them again ([`hand_to`]), which takes them in its turn.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::OnceLock;

/// How names of variables begin that hold secrets.
const PREFIXES: [&str; 2] = ["BAREMARK_DATABASE_", "BAREMARK_AUCTION_"];

static TAKEN: OnceLock<BTreeMap<OsString, OsString>> = OnceLock::new();

/// Whether a variable of this name holds a secret.
fn is_secret(name: &OsStr) -> bool {
    PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
}

/// Takes the secrets out of this process's environment; [`get`] has them from then on. The first that a program does.
///
/// # Errors
/// `Unsupported` in a process of several threads, of which another may be reading the environment; what reading /proc gives.
pub fn take() -> io::Result<()> {
    let found: BTreeMap<_, _> = env::vars_os().filter(|(name, _)| is_secret(name)).collect();
    if found.is_empty() {
        return Ok(());
    }
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the environment of several threads is not changed"));
    }
    for name in found.keys() {
        // SAFETY: this is the only thread, as was seen above: nobody reads the environment meanwhile.
        unsafe { env::remove_var(name) };
    }
    // What is there already was taken by an earlier call.
    drop(TAKEN.set(found));
    Ok(())
}

/// The value of a variable, whether or not it was taken out of the environment; `None` of one that is not set, or is not text.
#[must_use]
pub fn get(name: &str) -> Option<String> {
    let taken = TAKEN.get().and_then(|taken| taken.get(OsStr::new(name))).cloned();
    taken.or_else(|| env::var_os(name))?.into_string().ok()
}

/// Gives the secrets that were taken to another process of this program.
pub fn hand_to(command: &mut Command) {
    command.envs(TAKEN.get().into_iter().flatten());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_secrets_and_settings_are_not() {
        let secret = [
            "BAREMARK_DATABASE_PASSWORD",
            "BAREMARK_DATABASE_URL",
            "BAREMARK_AUCTION_DATABASE_PASSWORD",
            "BAREMARK_AUCTION_ADMIN_TOKEN",
        ];
        assert!(secret.iter().all(|name| is_secret(OsStr::new(name))));
        assert!(!["PATH", "HOME", "BAREMARK_STOP_AT", "DATABASE_URL"].iter().any(|name| is_secret(OsStr::new(name))));
    }
}
