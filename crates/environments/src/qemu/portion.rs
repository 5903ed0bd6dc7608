//! One guest of several that run at once: its part of the CPUs, the memory, the pins and the disks.

use super::settings::{Net, Settings};
use crate::guest::portion::{chunk, memory, part};
use baremark_model::site::{Missing, Portion};

/// The settings of that guest.
///
/// # Errors
/// What cannot be divided so.
pub fn of(settings: &Settings, portion: Portion) -> Result<Settings, Missing> {
    let Portion { index, of, ranks } = portion;
    let mut own = settings.clone();
    own.vcpus = if settings.vcpus_as_ranks { ranks } else { part("vcpus", settings.vcpus, of)? };
    own.vcpus_as_ranks = false;
    if of == 1 {
        return Ok(own);
    }
    if settings.net.leads_to_one_guest() {
        let what = format!("a tap or forwarded ports lead to one guest, not to {of}");
        return Err(Missing {
            what,
            remedy: "write net = \"lab\", net = \"user\" without forwards, or net = \"none\"".to_owned(),
        });
    }
    own.memory_bytes = memory(settings.memory_bytes, of)?;
    own.pin = chunk("pin", &settings.pin, (index, of))?;
    own.disks.paths = chunk("disks", &settings.disks.paths, (index, of))?;
    Ok(own)
}

impl Net {
    fn leads_to_one_guest(&self) -> bool {
        match self {
            Net::None | Net::Lab(_) => false,
            Net::User(forwards) => !forwards.is_empty(),
            Net::Tap { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_guest_gets_its_part_and_what_cannot_be_divided_is_told() {
        let whole = Settings { vcpus: 4, memory_bytes: 1 << 30, pin: vec![0, 1, 2, 3], ..Settings::default() };
        let portion = |index, count| Portion { index, of: count, ranks: 1 };
        assert_eq!(of(&whole, portion(0, 1)), Ok(whole.clone()), "one guest is the whole");
        let second = of(&whole, portion(1, 2)).expect("two halves");
        assert_eq!((second.vcpus, second.memory_bytes, second.pin), (2, 512 << 20, vec![2, 3]));
        let as_ranks = Settings { vcpus_as_ranks: true, pin: Vec::new(), ..whole.clone() };
        assert_eq!(of(&as_ranks, portion(0, 4)).expect("by ranks").vcpus, 1);
        let why = |settings: &Settings, count| of(settings, portion(0, count)).expect_err("indivisible").to_string();
        assert_eq!(
            why(&whole, 3),
            "vcpus = 4 cannot be divided among 3 guests; write a multiple of 3, or leave vcpus out"
        );
        assert_eq!(why(&as_ranks, 16), "memory divided over 16 guests leaves each 64 MiB; write 2048 MiB at least");
        let disks = super::super::Disks { paths: vec![PathBuf::from("disk")], ..Default::default() };
        assert!(why(&Settings { disks, ..as_ranks.clone() }, 2).starts_with("disks = 1 cannot be divided among 2"));
        let net = Net::Tap { device: "tap0".to_owned(), vhost: false };
        assert!(
            why(&Settings { net, ..as_ranks }, 2).starts_with("a tap or forwarded ports lead to one guest, not to 2")
        );
    }
}
