//! Another machine, of the settings that a study gives.

use super::{Settings, Ssh};
use crate::adapter::{Adapter, Files, MakeArguments};
use crate::values::word;
use baremark_model::value::Value;
use std::path::PathBuf;

/// Its line in the list of adapters.
pub(crate) const ADAPTER: Adapter =
    Adapter { name: "ssh", make: |request| Ok(Box::new(made(request))), files: |_| Files::Unknown };

fn made(request: MakeArguments<'_>) -> Ssh {
    let settings = request.settings;
    let port = match settings.get("port") {
        Some(Value::Count(port)) => u16::try_from(*port).ok(),
        _ => None,
    };
    let destination = word(settings, "host").unwrap_or_default().to_owned();
    let path = |key| word(settings, key).map(PathBuf::from);
    let made = Settings { destination, port, identity: path("identity"), config: path("config"), ..Default::default() };
    Ssh::new(request.program, made)
}
