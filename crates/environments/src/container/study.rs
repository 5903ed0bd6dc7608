//! A container, of the settings that a study gives.

use super::{Container, Layer, Network, Root, Runtime, Seccomp, Settings};
use crate::adapter::{Adapter, Files, HOST, MakeArguments};
use crate::values::{self, bytes, numbers, word, words};
use baremark_model::image;
use baremark_model::knob::InvalidValue;
use std::path::{Path, PathBuf};

/// Its line in the list of adapters.
pub(crate) const ADAPTER: Adapter = Adapter { name: "container", make: |request| Ok(Box::new(made(request)?)), files };

fn made(request: MakeArguments<'_>) -> Result<Container, InvalidValue> {
    let MakeArguments { name, settings, program, namespace, .. } = request;
    let memory_bytes = bytes(settings, "memory");
    let network = match word(settings, "network") {
        Some("lab") => Network::Lab(namespace),
        Some("host") => Network::Host,
        Some("bridge") => Network::Bridge,
        _ => Network::None,
    };
    let root = match (word(settings, "image"), word(settings, "rootfs")) {
        (Some(_), Some(_)) => {
            let what = format!("[environments.{name}] has an image and a rootfs");
            return Err(InvalidValue::new(what, "keep one of the two"));
        }
        (Some(name_of), None) => {
            let at = |what: &str| format!("[environments.{name}] image: {what}");
            image::check(name_of).map_err(|why| InvalidValue::new(at(&why.what), why.remedy))?;
            Root::Image(name_of.to_owned())
        }
        (None, Some(HOST)) => Root::Folder(PathBuf::from("/")),
        (None, Some(folder)) if is_whole_machine(Path::new(folder)) => {
            let what = format!(
                "[environments.{name}] rootfs: '{folder}' would let the container change this machine's own files"
            );
            return Err(InvalidValue::new(what, "write \"host\""));
        }
        (None, Some(folder)) => Root::Folder(PathBuf::from(folder)),
        (None, None) => Root::Program,
    };
    let cpus = numbers(settings, name, "cpus")?;
    let cpus = (!cpus.is_empty()).then_some(cpus);
    let engine = word(settings, "engine").unwrap_or("podman");
    let seccomp = if word(settings, "seccomp") == Some("off") { Seccomp::Off } else { Seccomp::On };
    let platform = word(settings, "platform");
    let runtime = word(settings, "runtime")
        .map(|name| Runtime { name: name.to_owned(), platform: platform.unwrap_or("ptrace").to_owned() });
    if platform.is_some() && runtime.as_ref().is_none_or(|runtime| runtime.name != "runsc") {
        let what = format!("[environments.{name}] has a platform and no gVisor");
        return Err(InvalidValue::new(what, "write runtime = \"runsc\""));
    }
    let over = word(settings, "layer") == Some("overlay") || word(settings, "rootfs") == Some(HOST);
    let layer = if over { Layer::Overlay } else { Layer::Folder };
    let pair = |text: &String| {
        let wrong = || {
            let what = format!("[environments.{name}] volumes: '{text}' has no colon");
            InvalidValue::new(what, "write \"HERE:INSIDE\"")
        };
        let (here, inside) = text.split_once(':').ok_or_else(wrong)?;
        Ok((PathBuf::from(here), PathBuf::from(inside)))
    };
    let volumes = words(settings, "volumes").iter().map(pair).collect::<Result<_, InvalidValue>>()?;
    let made = Settings { root, cpus, memory_bytes, network, seccomp, runtime, layer, volumes };
    Ok(Container::new(program, made).with_engine(engine))
}

/// Whether a folder is the root of this machine's files, by whatever name: "/.." and links to it are.
fn is_whole_machine(folder: &Path) -> bool {
    folder.canonicalize().as_deref().unwrap_or(folder).parent().is_none()
}

/// The files of a container: an image's and a volume's are seen there alone.
fn files(settings: &values::Settings) -> Files {
    match word(settings, "rootfs") {
        Some(HOST) => Files::OfThisMachine,
        _ if settings.contains_key("image") || settings.contains_key("volumes") => Files::Unknown,
        Some(folder) => Files::Below(PathBuf::from(folder)),
        None => Files::None(|package| {
            format!("give it an image or a rootfs with {package} (rootfs = \"host\" is this machine's)")
        }),
    }
}
