//! A pod, of the settings that a study gives.

use super::{Kubernetes, Settings};
use crate::adapter::{Adapter, Files, MakeArguments};
use crate::values::{bytes, count, time, word, words};
use baremark_model::knob::InvalidValue;

/// Its line in the list of adapters.
pub(crate) const ADAPTER: Adapter =
    Adapter { name: "kubernetes", make: |request| Ok(Box::new(made(request)?)), files: |_| Files::Unknown };

fn made(request: MakeArguments<'_>) -> Result<Kubernetes, InvalidValue> {
    let MakeArguments { name, settings, program, .. } = request;
    let usual = Settings::default();
    let pair = |text: &String| {
        let wrong = || {
            let what = format!("[environments.{name}] node: '{text}' has no equals sign");
            InvalidValue::new(what, "write \"KEY=VALUE\"")
        };
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        Ok((key.to_owned(), value.to_owned()))
    };
    let text = |key| word(settings, key).map(str::to_owned);
    let made = Settings {
        context: text("context"),
        namespace: text("namespace"),
        image: text("image").unwrap_or_default(),
        runtime_class: text("runtime_class"),
        node: words(settings, "node").iter().map(pair).collect::<Result<_, InvalidValue>>()?,
        cpus: count(settings, "cpus"),
        memory_bytes: bytes(settings, "memory"),
        time: time(settings, "time").unwrap_or(usual.time),
        start_limit: time(settings, "start_limit").unwrap_or(usual.start_limit),
    };
    Ok(Kubernetes::new(program, made))
}
