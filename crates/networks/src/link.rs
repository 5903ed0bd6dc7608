//! Links in the host's namespace: recorded with a name and a hardware address of their own before they are made.

use crate::NetworkError;
use crate::netlink::{Mac, Netlink};
use baremark_journal::change::details_of;
use baremark_journal::file::random_word;
use baremark_journal::{Change, Held, Journal, Kind, Undone};
use baremark_sys::point;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const KIND: &str = "link";
/// How names of links begin, and how many random digits follow.
const MARK: &str = "bm";
const DIGITS: usize = 8;

/// The kind of links that are made in the host's namespace.
#[derive(Clone, Copy, Debug)]
pub struct Links;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    name: String,
    mac: Mac,
    /// The namespace that it is in, as /proc names it.
    namespace: PathBuf,
}

/// The network namespace of this thread.
fn namespace() -> io::Result<PathBuf> {
    fs::read_link("/proc/thread-self/ns/net")
}

/// Whether some process is in a network namespace; one without is gone, and its links with it.
fn is_used(namespace: &Path) -> io::Result<bool> {
    let used = |entry: fs::DirEntry| fs::read_link(entry.path().join("ns/net")).is_ok_and(|of| of == namespace);
    Ok(fs::read_dir("/proc")?.flatten().any(used))
}

impl Kind for Links {
    fn name(&self) -> &'static str {
        KIND
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let Details { name, mac, namespace: of } = details_of(details)?;
        if !is_ours(&name) {
            let what = format!("'{name}' does not have the name of a link that baremark makes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if of != namespace()? {
            return match is_used(&of)? {
                true => {
                    Err(io::Error::other("it is in another network namespace, which is in use; start baremark there"))
                }
                false => Ok(Undone::Absent),
            };
        }
        let mut netlink = Netlink::open()?;
        match netlink.link(&name)? {
            None => Ok(Undone::Absent),
            Some(found) if found.mac != mac => Ok(Undone::Foreign("a link with another hardware address".to_owned())),
            Some(found) => match netlink.remove(found.index) {
                // The kernel removes the links of a namespace that has ended.
                Err(why) if why.raw_os_error() == Some(19) => Ok(Undone::Absent),
                removed => removed.map(|()| Undone::Done),
            },
        }
    }
}

/// Whether a name is one that [`Identity::new`] gives.
fn is_ours(name: &str) -> bool {
    let digits = name.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(|last: char| last.is_ascii_lowercase()));
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A name and a hardware address that no other link has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `bm`, eight random digits and a letter that says what it is.
    pub name: String,
    /// Locally administered and random.
    pub mac: Mac,
}

impl Identity {
    /// A new one for a link of a type, which one letter names.
    ///
    /// # Errors
    /// What reading /proc gives.
    pub fn new(letter: char) -> io::Result<Identity> {
        let word = random_word()?.replace('-', "");
        let bits = u128::from_str_radix(&word, 16).map_err(io::Error::other)?.to_be_bytes();
        Ok(Identity {
            name: format!("{MARK}{}{letter}", &word[..DIGITS]),
            mac: [2, bits[11], bits[12], bits[13], bits[14], bits[15]],
        })
    }

    /// Makes the link in the host's namespace by `make`, recorded.
    ///
    /// # Errors
    /// When it cannot be recorded or made.
    pub fn make<T>(
        &self,
        journal: &Journal,
        make: impl FnOnce(&mut Netlink) -> io::Result<T>,
    ) -> Result<(T, Held), NetworkError> {
        let what = format!("making the link {}", self.name);
        let details = namespace()
            .map(|namespace| Details { name: self.name.clone(), mac: self.mac, namespace })
            .and_then(|details| Ok(serde_json::to_value(details)?))
            .map_err(NetworkError::kernel(what.clone()))?;
        let change = Change { kind: KIND.to_owned(), target: format!("link {}", self.name), details };
        let made = journal.make(change, || make(&mut Netlink::open()?)).map_err(NetworkError::made(what))?;
        point::reached("link-made");
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_not_obeyed_for_links_of_others() {
        for name in ["eth0", "bm", "bm1234567b", "bm12345678", "bm12345678bb", "bm1234567gb", "docker0"] {
            let details = Details { name: name.to_owned(), mac: [2; 6], namespace: PathBuf::from("net:[0]") };
            let why = Links.undo(&serde_json::to_value(details).expect("plain")).expect_err(name);
            assert_eq!(why.kind(), io::ErrorKind::InvalidData, "{name}: {why}");
        }
        assert!(is_ours(&Identity::new('b').expect("/proc").name));
    }
}
