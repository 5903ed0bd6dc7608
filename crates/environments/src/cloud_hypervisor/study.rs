//! A guest, of the settings that a study gives.

use super::settings::{Disks, GuestKernel, Settings};
use super::{Backing, CloudHypervisor, Mmu, NAME, Topology};
use crate::adapter::{Adapter, Files, MakeArguments};
use crate::values::{bytes, count, numbers, own_cpus, switched, time, word, words};
use baremark_model::knob::InvalidValue;
use std::path::PathBuf;

/// Its line in the list of adapters.
pub(crate) const ADAPTER: Adapter = Adapter {
    name: NAME,
    make: |request| Ok(Box::new(made(request)?)),
    files: |_| {
        Files::None(|package| {
            format!(
                "install {package} here and take the environment qemu with rootfs = \"host\", or another with this machine's files"
            )
        })
    },
};

fn made(request: MakeArguments<'_>) -> Result<CloudHypervisor, InvalidValue> {
    let MakeArguments { name, settings, program, .. } = request;
    let usual = Settings::default();
    let mut kernel_options: Vec<String> =
        word(settings, "guest_pages").map(|pages| format!("transparent_hugepage={pages}")).into_iter().collect();
    kernel_options.extend(words(settings, "kernel_options"));
    let made = Settings {
        program: word(settings, "executable").map_or(usual.program, PathBuf::from),
        device: usual.device,
        kernel: GuestKernel::named(word(settings, "kernel").map(PathBuf::from)),
        module_names: words(settings, "modules"),
        kernel_options,
        vcpus: count(settings, "vcpus").unwrap_or_else(own_cpus),
        vcpus_as_ranks: count(settings, "vcpus").is_none(),
        topology: Topology {
            sockets: count(settings, "sockets"),
            cores: count(settings, "cores"),
            threads: count(settings, "threads"),
        },
        pin: numbers(settings, name, "pin")?,
        memory_bytes: bytes(settings, "memory").unwrap_or(usual.memory_bytes),
        backing: Backing::of_word(word(settings, "backing")),
        mmu: Mmu::of_word(word(settings, "mmu")),
        disks: Disks {
            paths: words(settings, "disks").into_iter().map(PathBuf::from).collect(),
            cached: word(settings, "disk_cache") == Some("writeback"),
            queues: count(settings, "disk_queues"),
            block_devices: switched(settings, "block_devices", true),
        },
        boot_limit: time(settings, "start_limit").unwrap_or(usual.boot_limit),
        answer_limit: usual.answer_limit,
    };
    Ok(CloudHypervisor::new(program, made))
}
