//! Block devices: `/proc/diskstats`, whole devices only.
//!
//! The machine's values are sums over devices that lie on no other: what a mapped, striped or loop device does, the
//! devices below it do as well, and memory is not a disk. These have values of their own all the same.

use crate::source::{Root, Source, numbers, row};
use baremark_model::observer::{Absence, Observer, Readings};
use baremark_model::quantity::Quantity;
use std::collections::BTreeMap;

/// The fields behind the name, in the kernel's order (Documentation/admin-guide/iostats.rst); those merged are left out.
const FIELDS: [Option<&str>; 17] = [
    Some("disk.reads"),
    None,
    Some("disk.read_bytes"),
    Some("disk.read_time"),
    Some("disk.writes"),
    None,
    Some("disk.write_bytes"),
    Some("disk.write_time"),
    Some("disk.in_flight"),
    Some("disk.busy"),
    None,
    Some("disk.discards"),
    None,
    Some("disk.discard_bytes"),
    None,
    Some("disk.flushes"),
    None,
];
/// Fields that a kernel of 2.6.25 or later has.
const LEAST_FIELDS: usize = 11;
/// Devices that are memory, or lie in a file on another device.
const NO_DISKS: [&str; 3] = ["loop", "ram", "zram"];

/// What a device is to the machine's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Part of it.
    Part,
    /// On top of others, or no disk.
    Beside,
    /// A part of a device that is listed, too.
    Partition,
}

pub(crate) struct Disk {
    root: Root,
    stats: Source,
    fields: [Option<&'static Quantity>; 17],
    roles: BTreeMap<String, Role>,
}

impl Disk {
    pub(crate) fn new(root: Root) -> Self {
        let fields = FIELDS.map(|key| key.map(row));
        Disk { root, stats: Source::new("disk", "proc/diskstats"), fields, roles: BTreeMap::new() }
    }

    fn role(&self, name: &str, others: &[(&str, Vec<u64>)]) -> Role {
        // The kernel writes '!' in /sys for the '/' of names such as cciss/c0d0.
        let folder = format!("sys/class/block/{}", name.replace('/', "!"));
        let known = self.root.path(&folder).exists();
        let is_part_of = |device: &str| {
            let rest = name.strip_prefix(device).filter(|rest| !rest.is_empty());
            let rest = rest.map(|rest| rest.strip_prefix('p').unwrap_or(rest));
            rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let partition = match known {
            true => self.root.path(&format!("{folder}/partition")).exists(),
            false => others.iter().any(|(device, _)| is_part_of(device)),
        };
        if partition {
            return Role::Partition;
        }
        let numbered =
            |kind: &&str| name.strip_prefix(*kind).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        let layered = match known {
            true => !self.root.names(&format!("{folder}/slaves")).is_empty(),
            false => name.starts_with("dm-") || numbered(&"md"),
        };
        if layered || NO_DISKS.iter().any(numbered) { Role::Beside } else { Role::Part }
    }
}

/// The lines that are whole: name and fields.
fn devices(text: &str) -> Vec<(&str, Vec<u64>)> {
    let device = |line| {
        let mut words = str::split_ascii_whitespace(line);
        let (major, minor, name) = (words.next()?, words.next()?, words.next()?);
        let fields = numbers(words);
        let whole = major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok() && fields.len() >= LEAST_FIELDS;
        whole.then_some((name, fields))
    };
    text.lines().filter_map(device).collect()
}

impl Observer for Disk {
    fn start(&mut self) -> Result<(), Absence> {
        self.roles.clear();
        self.stats.open(&self.root)
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let text = self.stats.read()?;
        let devices = devices(&text);
        if devices.is_empty() && !text.trim().is_empty() {
            return Err(self.stats.unreadable());
        }
        for (name, counts) in &devices {
            let role = match self.roles.get(*name) {
                Some(role) => *role,
                None => {
                    let role = self.role(name, &devices);
                    self.roles.insert((*name).to_owned(), role);
                    role
                }
            };
            for (quantity, &count) in
                self.fields.iter().zip(counts).filter_map(|(row, count)| Some((*row)?).zip(Some(count)))
            {
                match role {
                    Role::Part => into.part(quantity, name, count),
                    Role::Beside => into.beside(quantity, name, count),
                    Role::Partition => {}
                }
            }
        }
        self.roles.retain(|name, _| devices.iter().any(|(device, _)| device == name));
        Ok(())
    }

    fn stop(&mut self) {
        self.stats.close();
    }
}
