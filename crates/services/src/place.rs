//! Where an instance's program runs: here, or inside something that is started by another program.

use crate::card::Card;
use crate::error::ServiceError;
use crate::order::Order;
use crate::recipe::Step;
use baremark_model::environments::NATIVE;
use baremark_sys::confine::{self, Limits, MemoryLimit};
use baremark_sys::process_tree::{self, Usage, Waits};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Where whoever carries an instance out at its site is told what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// As it is reached here.
    pub here: SocketAddr,
    /// As it listens there.
    pub there: SocketAddr,
}

/// How the program of an instance is put into a place.
pub trait Place: Send {
    /// In words, such as `native` or `container`.
    fn label(&self) -> String;

    /// Whether it runs as a plain process of this machine.
    fn is_here(&self) -> bool;

    /// The address at which instances there listen and are reached: that of a network of its own, or this machine's loopback.
    fn address(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }

    /// Where a process of this program carries the whole instance out, see [`crate::remote_instance`]; `None` where each of its
    /// programs is started from here.
    fn control(&self) -> Option<Control> {
        None
    }

    /// The command that starts `step` there and stays with it.
    ///
    /// # Errors
    /// When the place cannot take it.
    fn dress(&self, order: &Order, step: Step) -> Result<Step, ServiceError>;

    /// The process under which all of it runs, given the one that was started here.
    fn root(&self, started: u32) -> u32 {
        started
    }

    /// The user and group that an instance's folder belongs to and that its program runs as; `None` leaves both to whoever starts it,
    /// who is not the superuser.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] where the superuser starts it and there is no other user for it.
    fn owner(&self, _order: &Order, _card: &Card) -> Result<Option<(u32, u32)>, ServiceError> {
        Ok(None)
    }

    /// Whether the program's environment is made for it, so that it has nothing of this program's; an engine's client needs its user's.
    fn has_own_environment(&self) -> bool {
        self.is_here()
    }

    /// The process that takes signals for the program, given the one that was started here.
    fn target(&self, started: u32) -> u32 {
        started
    }

    /// The process that has started all others of the program, where these are processes that this one may stop, given the one that was started here;
    /// `None` where they are elsewhere.
    fn processes(&self, started: u32) -> Option<u32> {
        self.is_here().then_some(started)
    }

    /// Where its program listens there, so that whoever asks at `address` here gets it.
    fn listens(&self, address: SocketAddr) -> SocketAddr {
        address
    }

    /// How a program there reaches what listens at `address` here.
    fn reaches(&self, address: SocketAddr) -> SocketAddr {
        address
    }

    /// How programs at places of the same kind reach what is asked at `address` here.
    fn advertises(&self, address: SocketAddr) -> SocketAddr {
        self.listens(address)
    }

    /// The signal by which the process that is started here hears of our death, given that of the service; 0 where it notices by itself.
    fn death_signal(&self, of_service: i32) -> i32 {
        of_service
    }

    /// What of the limits the process that is started here gets; the place itself keeps the others.
    fn held_here(&self, limits: &Limits) -> Limits {
        limits.clone()
    }

    /// What holds the program's memory, where the place does.
    fn holds(&self, _order: &Order) -> Option<MemoryLimit> {
        None
    }

    /// What the program has used, given the process that was started here.
    fn usage(&self, _order: &Order, started: u32) -> Usage {
        process_tree::usage(self.root(started)).unwrap_or_default()
    }

    /// What the program's threads have waited for, given the process that was started here; `None` where that is not seen from here.
    fn waits(&self, started: u32) -> Option<Waits> {
        process_tree::waits(self.root(started)).ok()
    }

    /// Whether its processor is emulated: figures of such a place exercise the mechanics and measure nothing.
    fn emulated(&self) -> bool {
        false
    }

    /// Removes what may be left there after its end.
    fn clean(&self, _order: &Order) {}
}

/// This machine.
pub struct Native;

impl Place for Native {
    fn label(&self) -> String {
        NATIVE.to_owned()
    }

    fn is_here(&self) -> bool {
        true
    }

    fn dress(&self, _order: &Order, step: Step) -> Result<Step, ServiceError> {
        Ok(step)
    }

    fn owner(&self, order: &Order, card: &Card) -> Result<Option<(u32, u32)>, ServiceError> {
        if !confine::is_root() {
            return Ok(None);
        }
        let install = card.install;
        let refused = || ServiceError::Refused {
            name: order.name.clone(),
            what: format!(
                "{} is not run as the superuser, and there is neither a user {} nor a user nobody",
                card.kind,
                install.user.unwrap_or("of its own")
            ),
            remedy: format!("apt-get install {}, or run baremark as an ordinary user", install.package),
        };
        Ok(in_this_namespace(install.account(confine::user).ok_or_else(refused)?))
    }
}

/// A user and group as which the superuser can start a program: `None` in a namespace that has no such user. There the caller is its superuser alone,
/// as in a sandbox, and can become nobody else.
#[must_use]
pub fn in_this_namespace((user, group): (u32, u32)) -> Option<(u32, u32)> {
    let has = |map: &str, id: u32| std::fs::read_to_string(map).map_or(true, |map| is_mapped(&map, id));
    (has("/proc/self/uid_map", user) && has("/proc/self/gid_map", group)).then_some((user, group))
}

/// Whether a map of a user namespace has this user or group: lines of the first inside, the first outside, and how many.
fn is_mapped(map: &str, id: u32) -> bool {
    let line = |line: &str| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        matches!(numbers[..], [first, _, count] if (first..first.saturating_add(count)).contains(&u64::from(id)))
    };
    map.lines().any(line)
}

/// A process of this machine in a network namespace of the run's own, put there by `baremark tend`, which ends it when this process is gone.
pub struct Inside<K> {
    /// This program, which puts others there.
    pub program: PathBuf,
    /// The namespace, a file of /proc by which other processes enter it.
    pub namespace: PathBuf,
    /// Its address.
    pub address: IpAddr,
    /// What keeps the namespace.
    pub kept: K,
}

impl<K: Send> Place for Inside<K> {
    fn label(&self) -> String {
        "native, lab network".to_owned()
    }

    /// Its port is not one of this machine's, and its program's user is set by who puts it there.
    fn is_here(&self) -> bool {
        false
    }

    fn address(&self) -> IpAddr {
        self.address
    }

    fn dress(&self, order: &Order, step: Step) -> Result<Step, ServiceError> {
        let mut args = ["tend", "--network"].map(str::to_owned).to_vec();
        args.push(self.namespace.display().to_string());
        args.extend(order.owner.map(|(user, group)| format!("--user={user}:{group}")));
        // The user as whom it runs need not get to where this program is.
        let program = if step.program == self.program { Path::new("/proc/self/exe") } else { &step.program };
        args.extend(["--".to_owned(), program.display().to_string()]);
        args.extend(step.args);
        Ok(Step { program: self.program.clone(), args, env: step.env })
    }

    fn owner(&self, order: &Order, card: &Card) -> Result<Option<(u32, u32)>, ServiceError> {
        Native.owner(order, card)
    }

    fn has_own_environment(&self) -> bool {
        true
    }

    /// Who puts the program there notices the end of its input, and ends it with all that it has started: a signal would end it first.
    fn death_signal(&self, _of_service: i32) -> i32 {
        0
    }

    fn usage(&self, _order: &Order, started: u32) -> Usage {
        process_tree::usage_of_tended(started).unwrap_or_default()
    }

    /// Not who tends it, who has to notice when this process is gone.
    fn processes(&self, started: u32) -> Option<u32> {
        process_tree::tended(started)
    }

    /// The program itself is below who tends it, and knows more signals.
    fn target(&self, started: u32) -> u32 {
        process_tree::tended(started).unwrap_or(started)
    }
}

#[cfg(test)]
mod tests {
    use super::is_mapped;

    #[test]
    fn a_user_is_one_of_those_that_the_namespace_has() {
        assert!(is_mapped("         0          0 4294967295\n", 104), "the machine's own");
        let one = "         0       1000          1\n";
        assert_eq!([0, 1, 1000].map(|user| is_mapped(one, user)), [true, false, false]);
        let several = "0 1000 1\n1 100000 65536\n";
        assert_eq!([104, 65_536, 65_537].map(|user| is_mapped(several, user)), [true, true, false]);
        assert!(!is_mapped("", 0));
    }
}
