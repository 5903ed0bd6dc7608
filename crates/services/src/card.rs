//! What stands of a service once for all: which tiers it can serve, its settings, and where its program comes from.

use baremark_model::knob::Knob;
use serde::{Deserialize, Serialize};

/// What a tier is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Spreads requests over the servers behind it.
    Balancer,
    /// Takes requests from browsers, keeps what can be kept, hands on the rest.
    Web,
    /// The application's own servers.
    App,
    /// What must not be lost.
    Database,
    /// How app servers tell each other.
    Bus,
}

impl Tier {
    /// All, in the order of a request's way.
    pub const ALL: [Tier; 5] = [Tier::Balancer, Tier::Web, Tier::App, Tier::Database, Tier::Bus];

    /// Its key in a topology.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Tier::Balancer => "balancer",
            Tier::Web => "web",
            Tier::App => "app",
            Tier::Database => "database",
            Tier::Bus => "bus",
        }
    }
}

/// Where a service's program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Install {
    /// Places where the program may be; a `*` represents one folder's name, the last in order is taken.
    pub programs: &'static [&'static str],
    /// Debian's package.
    pub package: &'static str,
    /// The user that its package brings, as which the program runs when the caller is the superuser; absent of this program itself.
    pub user: Option<&'static str>,
}

/// The user and group that are nobody's, by the kernel's number.
const NOBODY: (u32, u32) = (65_534, 65_534);

impl Install {
    /// The user and group as which the program runs that the superuser starts: its package's, else nobody's. `None` without either: most
    /// programs look their user up.
    #[must_use]
    pub fn account(&self, lookup: impl Fn(&str) -> Option<(u32, u32)>) -> Option<(u32, u32)> {
        let names = self.user.into_iter().chain(["nobody"]);
        let found = names.filter_map(lookup).find(|(user, group)| *user != 0 && *group != 0);
        found.or_else(|| self.user.is_none().then_some(NOBODY))
    }
}

/// What stands of a service once for all.
pub struct Card {
    /// Its name in a topology.
    pub kind: &'static str,
    /// Tiers that it can serve.
    pub tiers: &'static [Tier],
    /// Its typed settings; what each is by default is in the caller's file of defaults.
    pub knobs: &'static [Knob],
    /// Where its program comes from.
    pub install: Install,
}

#[cfg(test)]
mod tests {
    use super::Install;

    #[test]
    fn a_program_that_the_superuser_starts_runs_as_its_packages_user_or_nobody_and_never_as_the_superuser() {
        let of = |user, known: &[(&str, u32)]| {
            let lookup =
                |name: &str| known.iter().find(|(known, _)| *known == name).map(|(_, number)| (*number, *number));
            Install { programs: &[], package: "p", user }.account(lookup)
        };
        let both = [("mysql", 104), ("nobody", 65_534)];
        assert_eq!(of(Some("mysql"), &both), Some((104, 104)));
        assert_eq!(of(Some("mysql"), &both[1..]), Some((65_534, 65_534)));
        assert_eq!(of(Some("mysql"), &[("mysql", 0), ("nobody", 99)]), Some((99, 99)));
        assert_eq!(of(Some("mysql"), &[("mysql", 0)]), None);
        assert_eq!((of(Some("mysql"), &[]), of(None, &[])), (None, Some((65_534, 65_534))));
    }
}
