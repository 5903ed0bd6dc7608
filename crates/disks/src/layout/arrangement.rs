//! What a layout consists of: how many file systems, over how many devices of which size, with how many LUNs. Pure numbers.

use super::file_system::Format;
use baremark_model::knob::InvalidValue;
use baremark_model::units::Bytes;

/// The smallest device that a file system of several devices is made on (mkfs.btrfs refuses less than 109 MiB).
pub const LEAST_DEVICE: u64 = 128 << 20;
/// Devices that RAID5 needs to be more than a mirror.
const LEAST_OF_RAID5: u64 = 3;
/// Sizes of LUNs are multiples of this.
const UNIT: u64 = 1 << 20;
/// Of what a file system reports as free, the share that all of its LUNs have together at 100 %: the rest is for its own metadata.
const USABLE: f64 = 0.95;

/// What lies between a LUN and the files of which devices are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Nothing: a LUN is such a file.
    File,
    /// A LUN is a loop device over one.
    Loop,
    /// LUNs are files of an ext4 file system on one device.
    Ext4,
    /// LUNs are files of an XFS file system on one device.
    Xfs,
    /// LUNs are files of a btrfs file system on one device.
    Btrfs,
    /// As many RAID5 groups as LUNs, each with one LUN.
    Groups,
    /// One RAID5 pool of all devices, with all LUNs.
    Pool,
    /// As [`Layout::Groups`], each group being RAID5 of md by device-mapper, and its LUN a part of it.
    MdGroups,
    /// Thin volumes of one pool (`dm-thin-pool`) on RAID5 of md, of all devices.
    ThinPool,
}

impl Layout {
    /// As typed, in the order of the variants.
    pub const WORDS: [&str; 9] = ["file", "loop", "ext4", "xfs", "btrfs", "groups", "pool", "md-groups", "thin-pool"];
    const ALL: [Layout; 9] = [
        Layout::File,
        Layout::Loop,
        Layout::Ext4,
        Layout::Xfs,
        Layout::Btrfs,
        Layout::Groups,
        Layout::Pool,
        Layout::MdGroups,
        Layout::ThinPool,
    ];

    /// By its word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Layout> {
        Layout::WORDS.iter().position(|of| *of == word).map(|at| Layout::ALL[at])
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Layout::ALL.iter().zip(Layout::WORDS).find(|(layout, _)| **layout == self).map_or("", |(_, word)| word)
    }

    /// The file system, where it has one.
    pub(super) fn format(self) -> Option<Format> {
        match self {
            Layout::File | Layout::Loop | Layout::MdGroups | Layout::ThinPool => None,
            Layout::Ext4 => Some(Format::Ext4),
            Layout::Xfs => Some(Format::Xfs),
            Layout::Btrfs => Some(Format::Btrfs),
            Layout::Groups | Layout::Pool => Some(Format::BtrfsRaid5),
        }
    }

    /// Whether a LUN is such a file, or a loop device over one.
    pub(super) fn is_plain(self) -> bool {
        matches!(self, Layout::File | Layout::Loop)
    }

    /// Whether device-mapper makes it.
    pub(super) fn is_mapped(self) -> bool {
        matches!(self, Layout::MdGroups | Layout::ThinPool)
    }

    /// Whether it has a RAID for each LUN.
    fn has_groups(self) -> bool {
        matches!(self, Layout::Groups | Layout::MdGroups)
    }

    /// Whether it has one RAID.
    fn has_pool(self) -> bool {
        matches!(self, Layout::Pool | Layout::ThinPool)
    }
}

/// A layout in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrangement {
    /// What it is.
    pub layout: Layout,
    /// LUNs.
    pub luns: u64,
    /// Devices, of which each layout has the bytes of all.
    pub devices: u64,
    /// Bytes of each.
    pub device_bytes: u64,
    /// The share of the capacity that LUNs take.
    pub allocated: f64,
    /// Bytes of each LUN that are used, at most.
    pub span: u64,
}

/// What is made of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// File systems or RAIDs, or LUNs where there are none.
    pub count: u64,
    /// Devices of each.
    pub devices: u64,
    /// Bytes of each device.
    pub bytes: u64,
}

impl Arrangement {
    /// Bytes of all devices.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.devices.saturating_mul(self.device_bytes)
    }

    /// Refuses numbers that do not fit together.
    ///
    /// # Errors
    /// What does not, and what would.
    pub fn check(&self) -> Result<(), InvalidValue> {
        if self.layout.has_groups() && !self.devices.is_multiple_of(self.luns) {
            let what = format!("{} devices cannot be divided into {} groups", self.devices, self.luns);
            return Err(InvalidValue::new(what, "write devices that are a multiple of luns"));
        }
        let parts = self.parts();
        if (self.layout.has_groups() || self.layout.has_pool()) && parts.devices < LEAST_OF_RAID5 {
            let what = format!("RAID5 of {} devices is not possible", parts.devices);
            return Err(InvalidValue::new(what, format!("write at least {LEAST_OF_RAID5} devices for each group")));
        }
        if self.lun_bytes(self.total() / 2 * self.luns_of_each() / self.luns) < UNIT {
            let what = format!("{} LUNs do not fit into {}", self.luns, Bytes(self.total()));
            return Err(InvalidValue::new(what, "write fewer luns, or more of devices, device_size or allocated"));
        }
        Ok(())
    }

    /// What is made of files: equal bytes for every layout.
    pub(super) fn parts(&self) -> Parts {
        match self.layout {
            Layout::File | Layout::Loop => {
                Parts { count: self.luns, devices: 1, bytes: self.lun_bytes(self.total() / self.luns) }
            }
            Layout::Ext4 | Layout::Xfs | Layout::Btrfs => Parts { count: 1, devices: 1, bytes: self.total() },
            Layout::Groups | Layout::MdGroups => {
                Parts { count: self.luns, devices: self.devices / self.luns, bytes: self.device_bytes }
            }
            Layout::Pool | Layout::ThinPool => Parts { count: 1, devices: self.devices, bytes: self.device_bytes },
        }
    }

    /// LUNs of each file system.
    pub(super) fn luns_of_each(&self) -> u64 {
        self.luns / self.parts_count()
    }

    fn parts_count(&self) -> u64 {
        match self.layout {
            Layout::File | Layout::Loop | Layout::Groups | Layout::MdGroups => self.luns,
            Layout::Ext4 | Layout::Xfs | Layout::Btrfs | Layout::Pool | Layout::ThinPool => 1,
        }
    }

    /// Bytes of a LUN where a file system, a RAID or one LUN's own part has this many free.
    pub(super) fn lun_bytes(&self, free: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a size is within it")]
        let taken = (free as f64 * USABLE * self.allocated) as u64;
        taken / self.luns_of_each() / UNIT * UNIT
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn of(layout: Layout) -> Arrangement {
        Arrangement { layout, luns: 4, devices: 20, device_bytes: 256 << 20, allocated: 1.0, span: u64::MAX }
    }

    #[test]
    fn every_word_is_a_layout() {
        for (word, layout) in Layout::WORDS.iter().zip(Layout::ALL) {
            assert_eq!((Layout::from_word(word), layout.word()), (Some(layout), *word));
        }
        assert_eq!(Layout::from_word("raid6"), None);
    }

    #[test]
    fn groups_and_pool_have_the_same_devices() {
        let (groups, pool) = (of(Layout::Groups), of(Layout::Pool));
        assert_eq!(groups.parts(), Parts { count: 4, devices: 5, bytes: 256 << 20 });
        assert_eq!(pool.parts(), Parts { count: 1, devices: 20, bytes: 256 << 20 });
        assert_eq!((groups.luns_of_each(), pool.luns_of_each()), (1, 4));
        for (one, other) in [(Layout::Groups, Layout::MdGroups), (Layout::Pool, Layout::ThinPool)] {
            assert_eq!((of(one).parts(), of(one).luns_of_each()), (of(other).parts(), of(other).luns_of_each()));
        }
        let all = |arrangement: Arrangement| {
            let parts = arrangement.parts();
            parts.count * parts.devices * parts.bytes
        };
        for layout in [Layout::Ext4, Layout::Xfs, Layout::Btrfs, Layout::Groups, Layout::Pool] {
            assert_eq!(all(of(layout)), 5 << 30, "{layout:?}");
        }
        // Without a file system a LUN has just its own bytes, and no more than it would have at most.
        assert!(all(of(Layout::File)) <= 5 << 30 && all(of(Layout::File)) > 4 << 30);
    }

    #[test]
    fn half_of_the_capacity_is_half_of_a_lun() {
        let (all, half) = (of(Layout::Pool), Arrangement { allocated: 0.5, ..of(Layout::Pool) });
        assert_eq!(all.lun_bytes(4000 << 20), 950 << 20);
        assert_eq!(half.lun_bytes(4000 << 20), 475 << 20);
    }

    #[test]
    fn what_does_not_fit_together_is_refused_with_what_would() {
        let refused = |arrangement: Arrangement| arrangement.check().unwrap_err().to_string();
        let uneven = Arrangement { devices: 18, ..of(Layout::Groups) };
        assert_eq!(
            refused(uneven),
            "18 devices cannot be divided into 4 groups; write devices that are a multiple of luns"
        );
        assert!(Arrangement { layout: Layout::Pool, ..uneven }.check().is_ok());
        assert_eq!(refused(Arrangement { layout: Layout::MdGroups, ..uneven }), refused(uneven));
        let two = Arrangement { devices: 8, ..of(Layout::Groups) };
        assert!(refused(two).contains("RAID5 of 2 devices is not possible; write at least 3"), "{}", refused(two));
        let tiny = Arrangement { allocated: 0.0001, ..of(Layout::Pool) };
        assert!(refused(tiny).contains("4 LUNs do not fit into 5 GiB"), "{}", refused(tiny));
    }
}
