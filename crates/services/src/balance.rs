//! What balancers and web servers share: what changes when the servers behind one change, and the files of TLS.

use crate::error::ServiceError;
use crate::order::{Order, Upstream};
use crate::service::Instance;
use crate::settings::knob;
use baremark_model::knob::{Kind, Knob};

/// The file of a web server's certificate, and that of its key.
pub(crate) const CHAIN: &str = "tls-chain.pem";
pub(crate) const KEY: &str = "tls-key.pem";

/// A web server's configuration, and both where it is to serve TLS.
pub(crate) fn files(order: &Order, file: &str, configuration: fn(&Order) -> String) -> Vec<(String, String)> {
    let mut files = vec![(file.to_owned(), configuration(order))];
    if let Some(tls) = &order.tls {
        files.extend([(CHAIN.to_owned(), tls.chain.clone()), (KEY.to_owned(), tls.key.clone())]);
    }
    files
}

/// Writes a web server's configuration anew for these servers behind it, and lets it read that.
pub(crate) fn rewrite(
    instance: &mut Instance,
    upstreams: &[Upstream],
    file: &str,
    configuration: fn(&Order) -> String,
) -> Result<(), ServiceError> {
    instance.order_mut().upstreams = upstreams.to_vec();
    let text = configuration(instance.order());
    instance.write(file, &text)?;
    instance.reload()
}

/// What balancers and web servers have in common.
pub(crate) const KEEPALIVE_TIME: Knob = knob("keepalive_time", LONG, "how long a browser's idle connection is kept");
pub(crate) const BODY: Knob = knob("body", Kind::Size { min: 1024, max: 1 << 30 }, "the largest body of a request");
pub(crate) const BALANCE: Knob = knob("balance", Kind::Choice(&["round-robin", "least"]), "how servers are chosen");
pub(crate) const TIMEOUT: Knob =
    knob("timeout", Kind::Time { min: 1_000_000_000, max: 3_600_000_000_000 }, "how long either side may be silent");
/// How long whoever is on the way out may finish.
pub(crate) const fn drain(help: &'static str) -> Knob {
    knob("drain", Kind::Time { min: 1_000_000, max: 600_000_000_000 }, help)
}
const LONG: Kind = Kind::Time { min: 1_000_000, max: 3_600_000_000_000 };

/// Servers that come and go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Not there before.
    pub added: Vec<Upstream>,
    /// Not wanted any more.
    pub removed: Vec<Upstream>,
}

impl Change {
    /// From `before` to `after`.
    #[must_use]
    pub fn between(before: &[Upstream], after: &[Upstream]) -> Change {
        let without =
            |some: &[Upstream], others: &[Upstream]| some.iter().filter(|one| !others.contains(one)).cloned().collect();
        Change { added: without(after, before), removed: without(before, after) }
    }
}
