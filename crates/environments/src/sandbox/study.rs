//! A sandbox, of the settings that a study gives.

use super::{Sandbox, Settings};
use crate::adapter::{Adapter, Files, MakeArguments};
use crate::values::{bytes, numbers, words};
use baremark_model::knob::InvalidValue;
use baremark_sys::sandbox::Layer;
use baremark_sys::user_folder;
use std::path::PathBuf;

/// Its line in the list of adapters.
pub(crate) const ADAPTER: Adapter =
    Adapter { name: "sandbox", make: |request| Ok(Box::new(made(request)?)), files: |_| Files::OfThisMachine };

fn made(request: MakeArguments<'_>) -> Result<Sandbox, InvalidValue> {
    let MakeArguments { name, settings, program, .. } = request;
    let layer = |text: &String| {
        let wrong = || {
            let what = format!("[environments.{name}] layers: '{text}' is not a layer");
            InvalidValue::new(what, format!("write some of {}", Layer::ALL.map(Layer::name).join(", ")))
        };
        Layer::of_name(text).ok_or_else(wrong)
    };
    let layers = words(settings, "layers").iter().map(layer).collect::<Result<Vec<_>, _>>()?;
    let paths = |key| words(settings, key).into_iter().map(PathBuf::from).collect::<Vec<_>>();
    let working = || std::env::current_dir().ok().filter(|folder| folder.parent().is_some());
    let named = settings.contains_key("write");
    let cpus = numbers(settings, name, "cpus")?;
    let made = Settings {
        layers: settings.contains_key("layers").then_some(layers),
        write: if named { paths("write") } else { working().into_iter().collect() },
        own: if named { Vec::new() } else { usual().collect() },
        read: paths("read"),
        memory_bytes: bytes(settings, "memory"),
        cpus: (!cpus.is_empty()).then_some(cpus),
    };
    Ok(Sandbox::new(program, made))
}

/// Where work has files of its own on this machine: what it loads once and keeps, and what it runs on, are then on the disk that they are on natively.
fn usual() -> impl Iterator<Item = PathBuf> {
    [user_folder::databases(), user_folder::running()].into_iter().flatten()
}
