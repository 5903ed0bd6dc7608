//! A guest, of the settings that a study gives.

use super::Qemu;
use super::settings::{Accel, Backing, Disks, Mmu, Net, Root, Settings, Topology};
use crate::adapter::{Adapter, Files, HOST, MakeArguments};
use crate::values::{self, bytes, count, numbers, own_cpus, switched, time, word, words};
use baremark_model::knob::InvalidValue;
use std::path::PathBuf;

/// Its line in the list of adapters.
pub(crate) const ADAPTER: Adapter = Adapter { name: "qemu", make: |request| Ok(Box::new(made(request)?)), files };

/// `kernel` may name a folder that `baremark setup guest-kernel` has filled, and where it is not given that folder is taken if
/// it is filled: then its modules give the guest a fast port.
fn made(request: MakeArguments<'_>) -> Result<Qemu, InvalidValue> {
    let MakeArguments { name, settings, program, guest, .. } = request;
    let mut made = Settings::of_kernel(word(settings, "kernel").map(PathBuf::from));
    made.vcpus = count(settings, "vcpus").unwrap_or_else(own_cpus);
    made.vcpus_as_ranks = count(settings, "vcpus").is_none();
    made.memory_bytes = bytes(settings, "memory").unwrap_or(made.memory_bytes);
    made.topology = Topology {
        sockets: count(settings, "sockets"),
        cores: count(settings, "cores"),
        threads: count(settings, "threads"),
    };
    made.cpu_model = word(settings, "cpu_model").map(str::to_owned);
    made.guest_numa = word(settings, "guest_numa") == Some("exposed");
    made.guest_nodes = count(settings, "guest_nodes");
    if made.guest_nodes.is_some() && !made.guest_numa {
        let what = format!("[environments.{name}] has guest_nodes and hides them");
        return Err(InvalidValue::new(what, "add guest_numa = \"exposed\""));
    }
    made.backing = Backing::of_word(word(settings, "backing"));
    made.root = if word(settings, "rootfs") == Some(HOST) { Root::Host } else { Root::Program };
    made.mmu = Mmu::of_word(word(settings, "mmu"));
    if let Some(pages) = word(settings, "guest_pages") {
        made.kernel_options.push(format!("transparent_hugepage={pages}"));
    }
    made.kernel_options.extend(words(settings, "kernel_options"));
    made.module_names = words(settings, "modules");
    made.offloads = !switched(settings, "offloads", false);
    made.disks = Disks {
        paths: words(settings, "disks").into_iter().map(PathBuf::from).collect(),
        cache: word(settings, "disk_cache").unwrap_or_default().to_owned(),
        aio: word(settings, "disk_aio").unwrap_or_default().to_owned(),
        iothread: switched(settings, "disk_iothread", true),
        queues: count(settings, "disk_queues"),
        block_devices: switched(settings, "block_devices", true),
    };
    made.address = word(settings, "address").map(str::to_owned);
    made.accel = match word(settings, "accel") {
        Some("kvm") => Accel::Kvm,
        Some("tcg") => Accel::Tcg,
        _ => Accel::Auto,
    };
    made.boot_limit = time(settings, "start_limit").unwrap_or(made.boot_limit);
    made.pin = numbers(settings, name, "pin")?;
    made.net = match word(settings, "net") {
        Some("lab") => Net::Lab(guest),
        Some("user") => Net::User(forwards(name, settings)?),
        Some("tap") => Net::Tap {
            device: word(settings, "tap").unwrap_or_default().to_owned(),
            vhost: switched(settings, "vhost", true),
        },
        _ => Net::None,
    };
    if matches!(made.net, Net::User(_)) && made.address.is_none() {
        made.address = Some("10.0.2.15/24".to_owned());
    }
    Ok(Qemu::new(program, made))
}

/// Ports that lead into a guest, as HOST:GUEST.
fn forwards(name: &str, settings: &values::Settings) -> Result<Vec<(u16, u16)>, InvalidValue> {
    let pair = |text: String| {
        let ports = text.split_once(':').and_then(|(host, guest)| Some((host.parse().ok()?, guest.parse().ok()?)));
        let what = || format!("forwards in [environments.{name}]: '{text}' is not a pair of ports");
        ports.ok_or_else(|| InvalidValue::new(what(), "write ports as \"HOST:GUEST\", such as \"8080:80\""))
    };
    words(settings, "forwards").into_iter().map(pair).collect()
}

/// The files of a guest.
fn files(settings: &values::Settings) -> Files {
    match word(settings, "rootfs") {
        Some(HOST) => Files::OfThisMachine,
        _ => Files::None(|package| format!("write rootfs = \"host\" with {package} installed here")),
    }
}
