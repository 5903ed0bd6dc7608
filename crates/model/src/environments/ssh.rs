//! Another machine by ssh.

use super::kind::{
    Capabilities, EnvironmentKind, FRESH, Given, INSTEAD_OF, ON_OTHER_MACHINES, Setting, Short, identifying, setting,
};
use crate::knob::{Default, Kind};
use crate::value::Value;

/// Its row.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: "ssh",
    help: "another machine, reached by ssh",
    needs: "a machine that ssh reaches without asking for a password",
    grant: "ssh-copy-id HOST",
    can: Capabilities { network: true, ..ON_OTHER_MACHINES },
    settings: SETTINGS,
    elsewhere_by: &[],
    short: Some(Short {
        form: ":HOST[:PORT]",
        needs: "a host",
        image: None,
        named_by: None,
        settings: |target| Ok(host_and_port(target.unwrap_or_default())),
    }),
};

const SETTINGS: &[Setting] = &[
    identifying("host", Kind::Text, Default::Required)
        .help("the machine as ssh knows it: a name of its configuration, or user@address"),
    setting("port", Kind::Count { min: 1, max: 65_535 }, Default::Derived("from ssh's configuration"))
        .help("the port of its ssh server"),
    identifying("config", Kind::Text, Default::Derived("the user's own")).help("ssh's configuration file"),
    identifying("identity", Kind::Text, Default::Derived("from ssh's configuration")).help("the private key"),
    INSTEAD_OF,
    FRESH,
];

/// The settings of `HOST` or `HOST:PORT`.
fn host_and_port(target: &str) -> Given {
    let port = target.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let host = port.map_or(target, |(host, _)| host);
    let port = port.map(|(_, port)| ("port", Value::Count(u64::from(port))));
    [("host", Value::Text(host.to_owned()))].into_iter().chain(port).collect()
}
