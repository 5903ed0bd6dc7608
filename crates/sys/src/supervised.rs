//! Containers that are started by a supervisor, this program as `baremark supervise`.
//!
//! An engine's client that is killed while it starts a container leaves the engine's monitor and the container. So nobody starts a client, or kills
//! one: a supervisor starts it, gets [`AT_DEATH`] when whoever started the supervisor dies, and removes the container by its name before it ends.

use crate::ending;
use std::process::Child;
use std::time::Duration;

/// The signal at the death of whoever starts a supervisor, for [`crate::confine::hold`]: one that it heeds.
pub const AT_DEATH: i32 = libc::SIGTERM;
/// How long a supervisor takes at most to end what it has started.
const LIMIT: Duration = Duration::from_secs(60);

/// The arguments of this program that make it the supervisor of the container `name`, with options of its own; podman's come next.
#[must_use]
pub fn podman<'n>(options: &[&'n str], name: &'n str) -> Vec<&'n str> {
    [&["supervise"][..], options, &["--name", name, "--", "podman"]].concat()
}

/// Asks a supervisor to end and waits until it has, when its container is gone; one that takes too long is killed.
pub fn end(supervisor: &mut Child) {
    ending::end(supervisor, AT_DEATH, LIMIT);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn a_supervisor_does_what_it_has_to_before_it_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let removed = folder.path().join("removed");
        let script = "trap 'echo x > \"$0\"; exit 3' TERM; echo started; while :; do sleep 0.01; done";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&removed).stdout(Stdio::piped());
        let mut supervisor = command.spawn().expect("sh starts");
        let output = supervisor.stdout.take().expect("it is piped");
        let said = BufReader::new(output).lines().next().and_then(Result::ok);
        assert_eq!(said.as_deref(), Some("started"));
        end(&mut supervisor);
        assert_eq!(supervisor.wait().expect("it has ended").code(), Some(3));
        assert!(removed.exists());
        // One that has ended is left alone.
        end(&mut supervisor);
    }

    #[test]
    fn a_container_is_named_before_the_engine() {
        assert_eq!(podman(&[], "x"), ["supervise", "--name", "x", "--", "podman"]);
        assert_eq!(podman(&["--announce"], "x"), ["supervise", "--announce", "--name", "x", "--", "podman"]);
    }
}
