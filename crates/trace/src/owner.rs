//! Who an I/O belongs to: a process, and the container or guest that it is part of.
//!
//! A program records the process's name and the names of its control groups when it meets the process for the first time, so that one
//! that has ended since is known as well. Writes that the kernel makes later from its cache belong to the kernel's thread that makes them.

use serde::Serialize;

/// Bytes that a program records: the process's name, the group of the pids controller (v1), the group of the unified hierarchy (v2).
pub(crate) const COMM_BYTES: usize = 16;
pub(crate) const GROUP_BYTES: usize = 96;
pub(crate) const OWNER_BYTES: usize = COMM_BYTES + 2 * GROUP_BYTES;

/// What kind of work a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A process that is in no container.
    Process,
    /// A process in a container.
    Container,
    /// A virtual machine's process on its host.
    Guest,
}

/// A process, as it was met first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The process's name, at most 15 bytes.
    pub comm: String,
    /// The last part of the path of its control group, which names a container; empty at the root.
    pub group: String,
}

/// The bytes up to the first zero, as text.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl Owner {
    /// From what a program has recorded.
    #[must_use]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let part = |from: usize, length: usize| text(bytes.get(from..from + length).unwrap_or_default());
        let (v1, v2) = (part(COMM_BYTES, GROUP_BYTES), part(COMM_BYTES + GROUP_BYTES, GROUP_BYTES));
        let group = if container(&v1).is_some() || v2.is_empty() { v1 } else { v2 };
        Owner { comm: part(0, COMM_BYTES), group }
    }

    /// Process, container or guest.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match (self.is_guest(), container(&self.group)) {
            (true, _) => Kind::Guest,
            (false, Some(_)) => Kind::Container,
            (false, None) => Kind::Process,
        }
    }

    /// The first twelve digits of the container's identifier, as engines print it.
    #[must_use]
    pub fn container(&self) -> Option<&str> {
        container(&self.group)
    }

    /// Whether it is QEMU or a relative of it, by the names under which distributions install them.
    fn is_guest(&self) -> bool {
        ["qemu-system", "qemu-kvm", "firecracker", "cloud-hyperviso", "crosvm"]
            .iter()
            .any(|name| self.comm.starts_with(name))
    }
}

/// The container that a control group's name says: a run of 64 hexadecimal digits, as podman, docker, CRI-O and containerd write.
#[must_use]
pub fn container(group: &str) -> Option<&str> {
    const DIGITS: usize = 64;
    const SHOWN: usize = 12;
    let is_digit = |byte: &u8| byte.is_ascii_hexdigit();
    let from = group.as_bytes().windows(DIGITS).position(|window| window.iter().all(is_digit))?;
    group.get(from..from + SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_name_their_groups_in_these_ways() {
        let id = "0123456789abcdef".repeat(4);
        for group in
            [id.clone(), format!("libpod-{id}"), format!("docker-{id}.scope"), format!("cri-containerd-{id}.scope")]
        {
            assert_eq!(container(&group), Some("0123456789ab"), "{group}");
        }
        for group in ["", "user.slice", "ssh.service", &id[1..], "caf\u{e9}"] {
            assert_eq!(container(group), None, "{group}");
        }
    }

    #[test]
    fn a_record_is_read_back() {
        let mut bytes = vec![0; OWNER_BYTES];
        let mut put = |at: usize, text: &str| bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, "qemu-system-x86");
        put(COMM_BYTES, "machine.slice");
        let owner = Owner::from_bytes(&bytes);
        assert_eq!((owner.kind(), owner.group.as_str(), owner.container()), (Kind::Guest, "machine.slice", None));
        let id = "ab".repeat(32);
        let group = format!("libpod-{id}");
        bytes[COMM_BYTES + GROUP_BYTES..][..group.len()].copy_from_slice(group.as_bytes());
        bytes[..15].copy_from_slice(b"postgres\0\0\0\0\0\0\0");
        let owner = Owner::from_bytes(&bytes);
        assert_eq!((owner.kind(), owner.container()), (Kind::Container, Some("abababababab")));
    }
}
