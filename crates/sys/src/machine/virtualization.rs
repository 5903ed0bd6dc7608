//! Where the machine stands, and what it can host.

use super::tree::Tree;
use crate::namespace::FIRST_PROCESSES;
use baremark_model::machine::VirtualizationFacts;

pub fn facts(tree: &Tree) -> VirtualizationFacts {
    let cpuinfo = tree.text("proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    let modules = tree.names("sys/module").into_iter().filter(|name| name == "kvm" || name.starts_with("kvm_"));
    VirtualizationFacts {
        hypervisor: flags.map(|(_, flags)| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor")),
        hypervisor_vendor: None,
        product: product(tree),
        container_hints: container_hints(tree),
        own_processes: tree.link("proc/self/ns/pid").map(|link| link != FIRST_PROCESSES),
        kvm_modules: modules.map(|name| (name.clone(), tree.texts(&format!("sys/module/{name}/parameters")))).collect(),
        kvm_device: tree.exists("dev/kvm"),
    }
}

/// Maker and name by the firmware's tables.
fn product(tree: &Tree) -> Option<String> {
    let part = |name: &str| tree.text(&format!("sys/class/dmi/id/{name}"));
    match (part("sys_vendor"), part("product_name")) {
        (Some(vendor), Some(name)) => Some(format!("{vendor} {name}")),
        (vendor, name) => vendor.or(name),
    }
}

/// What the first process was told by whoever started it, by convention of container managers (podman, LXC, systemd-nspawn).
fn manager_of_first_process(tree: &Tree) -> Option<String> {
    let environment = tree.text("proc/1/environ")?;
    environment.split('\0').find_map(|variable| variable.strip_prefix("container=")).map(str::to_owned)
}

/// What container managers leave behind. No single sign is sure, so each is named.
fn container_hints(tree: &Tree) -> Vec<String> {
    let mut hints = Vec::new();
    for file in [".dockerenv", "run/.containerenv"] {
        if tree.exists(file) {
            hints.push(format!("/{file} exists"));
        }
    }
    // The first process of a container is started by its manager, which sets this by convention.
    if let Some(manager) = tree.text("run/systemd/container") {
        hints.push(format!("/run/systemd/container says {manager}"));
    }
    if let Some(manager) = manager_of_first_process(tree) {
        hints.push(format!("process 1 has container={manager} in its environment"));
    }
    if tree.exists("run/secrets/kubernetes.io/serviceaccount")
        || tree.exists("var/run/secrets/kubernetes.io/serviceaccount")
    {
        hints.push("a service account of Kubernetes is mounted".to_owned());
    }
    let groups = tree.text("proc/1/cgroup").unwrap_or_default();
    for word in ["docker", "kubepods", "libpod", "lxc"] {
        if groups.contains(word) {
            hints.push(format!("process 1 is in a control group of {word}"));
        }
    }
    hints
}
