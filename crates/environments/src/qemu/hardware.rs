//! What the guest's machine is made of: processors, memory, disks, network, as settings and as QEMU's arguments.

use super::root;
use super::settings::{Backing, Disks, Net, Root, Settings};
use crate::guest::{disks as guest_disks, memory, mmu};
use baremark_model::site::Missing;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

/// The least memory of a NUMA node: below it a kernel has no use for one.
const LEAST_NODE: u64 = 64 << 20;

/// Says what of the settings cannot be on this machine.
pub fn check(settings: &Settings) -> Result<(), Missing> {
    // How many vCPUs there will be is not known before a site's ranks are.
    if !settings.vcpus_as_ranks {
        settings.topology.check(settings.vcpus, &settings.pin, settings.disks.queues)?;
    }
    memory::check(settings.backing, settings.memory_bytes)?;
    if settings.backing == Backing::Huge && settings.root == Root::Host && !shared_huge_pages() {
        let what = "rootfs = host shares the guest's memory, and this machine makes no shared memory of huge pages";
        let remedy = "write advise into /sys/kernel/mm/transparent_hugepage/shmem_enabled, or take backing = hugetlb";
        return Err(Missing { what: what.to_owned(), remedy: remedy.to_owned() });
    }
    let nodes = settings.guest_nodes.unwrap_or(1);
    if settings.memory_bytes / (nodes as u64) < LEAST_NODE {
        let what = format!("{nodes} NUMA nodes of {} MiB in all are too small", settings.memory_bytes >> 20);
        return Err(Missing { what, remedy: format!("give the guest {} MiB", (LEAST_NODE >> 20) * nodes as u64) });
    }
    mmu::check(settings.mmu)?;
    disks(&settings.disks)?;
    if let Net::Tap { device, vhost } = &settings.net {
        let there = |path: &str| Path::new(path).exists();
        if device.is_empty() || device.contains(',') || !there(&format!("/sys/class/net/{device}/tun_flags")) {
            let what = format!("'{device}' is not a tap device of this machine");
            return Err(Missing { what, remedy: "make it: ip tuntap add dev NAME mode tap".to_owned() });
        }
        if *vhost && !there("/dev/vhost-net") {
            let what = "this machine has no /dev/vhost-net".to_owned();
            return Err(Missing { what, remedy: "load vhost_net, or write vhost = false".to_owned() });
        }
    }
    Ok(())
}

/// Whether shared memory that asks for huge pages gets them.
fn shared_huge_pages() -> bool {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    ["[always]", "[advise]", "[within_size]", "[force]"].iter().any(|word| text.contains(word))
}

fn disks(disks: &Disks) -> Result<(), Missing> {
    guest_disks::check(&disks.paths, disks.block_devices)?;
    if disks.aio == "native" && !["none", "directsync"].contains(&cache(disks)) {
        let what = format!("disk_aio = native does not go with disk_cache = {}", cache(disks));
        return Err(Missing { what, remedy: "write disk_cache = \"none\" or \"directsync\"".to_owned() });
    }
    Ok(())
}

fn cache(disks: &Disks) -> &str {
    if disks.cache.is_empty() { "none" } else { &disks.cache }
}

/// What that word says of writes that wait for no flush, of this machine's page cache that is passed by, and of flushes
/// that are ignored (qemu-system-x86_64(1), `-drive cache=`).
pub fn caching(disks: &Disks) -> [bool; 3] {
    match cache(disks) {
        "writeback" => [true, false, false],
        "writethrough" => [false, false, false],
        "directsync" => [false, true, false],
        "unsafe" => [true, false, true],
        _ => [true, true, false],
    }
}

/// QEMU's name of the device of a disk.
pub fn device_id(place: usize) -> String {
    format!("blk{place}")
}

/// QEMU's name of the thread of a disk, where it has one of its own.
pub fn iothread_id(place: usize) -> String {
    format!("iothread{place}")
}

/// Modules of Debian's kernel that the settings need in the guest.
pub fn drivers(settings: &Settings) -> Vec<String> {
    let mut names = Vec::new();
    if !settings.disks.paths.is_empty() {
        names.extend(["virtio_pci", "virtio_blk"]);
    }
    if settings.net != Net::None {
        names.extend(["virtio_pci", "virtio_net"]);
    }
    names.extend(root::drivers(settings.root));
    names.into_iter().map(str::to_owned).collect()
}

/// Processors, memory, disks and network.
pub fn tell(settings: &Settings, command: &mut Command) -> Result<(), Missing> {
    let [sockets, cores, threads] = settings.topology.of(settings.vcpus)?;
    command.arg("-smp").arg(format!("{},sockets={sockets},cores={cores},threads={threads}", settings.vcpus));
    let megabytes = settings.memory_bytes.div_ceil(1 << 20);
    command.arg("-m").arg(format!("{megabytes}M"));
    memory_objects(settings, (megabytes, &nodes(settings, Path::new("/sys/devices/system/node"))), command);
    memory::hold_to(settings.backing, command);
    for (place, path) in settings.disks.paths.iter().enumerate() {
        let aio = if settings.disks.aio.is_empty() { "threads" } else { &settings.disks.aio };
        let cache = cache(&settings.disks);
        let mut drive =
            std::ffi::OsString::from(format!("if=none,format=raw,id=disk{place},cache={cache},aio={aio},file="));
        // QEMU takes two commas for one.
        drive.push(path.to_string_lossy().replace(',', ",,"));
        command.arg("-drive").arg(drive);
        let mut device = format!("virtio-blk-pci,drive=disk{place},id={}", device_id(place));
        if settings.disks.iothread {
            command.arg("-object").arg(format!("iothread,id={}", iothread_id(place)));
            device.push_str(&format!(",iothread={}", iothread_id(place)));
        }
        if let Some(queues) = settings.disks.queues {
            device.push_str(&format!(",num-queues={queues}"));
        }
        command.arg("-device").arg(device);
    }
    network(settings, command);
    Ok(())
}

/// The node of this machine on which each of the guest's lies; none where the guest sees none.
fn nodes(settings: &Settings, folder: &Path) -> Vec<usize> {
    if !settings.guest_numa {
        return Vec::new();
    }
    let hosts = host_nodes(folder);
    let count = settings.guest_nodes.unwrap_or(hosts.len());
    (0..count).map(|place| hosts[place * hosts.len() / count]).collect()
}

/// Memory of so many megabytes: in one piece, or in one for each of the guest's nodes, which lies on this one of the machine's.
fn memory_objects(settings: &Settings, (megabytes, nodes): (u64, &[usize]), command: &mut Command) {
    // Whoever serves the guest's files reads and writes its memory.
    let shared = settings.root == Root::Host;
    let kind = match settings.backing {
        Backing::AsIs if !settings.guest_numa && !shared => return,
        Backing::AsIs | Backing::Small if shared => "memory-backend-memfd,share=on,prealloc=off",
        Backing::AsIs | Backing::Small => "memory-backend-ram,prealloc=off",
        Backing::Huge if shared => "memory-backend-memfd,share=on,prealloc=on",
        Backing::Huge => "memory-backend-ram,prealloc=on",
        Backing::Reserved => "memory-backend-memfd,share=on,hugetlb=on,hugetlbsize=2M,prealloc=on",
    };
    if nodes.is_empty() {
        command.arg("-object").arg(format!("{kind},id=memory0,size={megabytes}M"));
        command.args(["-machine", "memory-backend=memory0"]);
        return;
    }
    let count = nodes.len();
    // Each has whole huge pages, the first what is left.
    let share = (megabytes / count as u64) & !1;
    let mut first = 0;
    for (place, host) in nodes.iter().enumerate() {
        let size = if place == 0 { megabytes - share * (count as u64 - 1) } else { share };
        let object = format!("{kind},id=memory{place},size={size}M,host-nodes={host},policy=bind");
        command.arg("-object").arg(object);
        let next = settings.vcpus * (place + 1) / count;
        let mut numa = format!("node,nodeid={place},memdev=memory{place}");
        if next > first {
            numa.push_str(&format!(",cpus={first}-{}", next - 1));
        }
        command.arg("-numa").arg(numa);
        first = next;
    }
}

/// The numbers of this machine's NUMA nodes that have memory, at least one.
fn host_nodes(folder: &Path) -> Vec<usize> {
    let text = fs::read_to_string(folder.join("has_memory")).unwrap_or_else(|_| "0".to_owned());
    let mut nodes = Vec::new();
    for span in text.trim().split(',') {
        let (first, last) = span.split_once('-').unwrap_or((span, span));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            nodes.extend(first..=last);
        }
    }
    if nodes.is_empty() { vec![0] } else { nodes }
}

fn network(settings: &Settings, command: &mut Command) {
    let netdev = match &settings.net {
        // One of the lab is a tap by the time a guest starts.
        Net::None | Net::Lab(_) => return,
        Net::User(forwards) => {
            let forward = |(host, guest): &(u16, u16)| format!(",hostfwd=tcp:127.0.0.1:{host}-:{guest}");
            format!("user,id=net0{}", forwards.iter().map(forward).collect::<String>())
        }
        Net::Tap { device, vhost } => {
            let vhost = if *vhost { "on" } else { "off" };
            format!("tap,id=net0,ifname={device},script=no,downscript=no,vhost={vhost}")
        }
    };
    command.arg("-netdev").arg(netdev);
    let mut device = "virtio-net-pci,netdev=net0,romfile=".to_owned();
    if let (Net::Tap { .. }, Some(mac)) = (&settings.net, settings.address.as_deref().and_then(mac_of)) {
        device.push_str(&format!(",mac={mac}"));
    }
    if !settings.offloads {
        for word in
            ["csum", "gso", "guest_csum", "guest_tso4", "guest_tso6", "guest_ufo", "host_tso4", "host_tso6", "host_ufo"]
        {
            device.push_str(&format!(",{word}=off"));
        }
    }
    command.arg("-device").arg(device);
}

/// A hardware address that differs where the guest's address does: QEMU gives all guests the same.
fn mac_of(address: &str) -> Option<String> {
    let address: Ipv4Addr = address.split('/').next()?.parse().ok()?;
    let [a, b, c, d] = address.octets();
    Some(format!("06:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_sees_the_nodes_has_a_piece_of_memory_and_its_processors_on_each() {
        let told = |settings: &Settings, nodes: &[usize]| {
            let mut command = Command::new("qemu");
            memory_objects(settings, (1000, nodes), &mut command);
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let exposed = Settings { vcpus: 4, guest_numa: true, backing: Backing::Huge, ..Settings::default() };
        let piece = |place: usize, size: usize, node: usize| {
            let kind = "memory-backend-ram,prealloc=on";
            format!("{kind},id=memory{place},size={size}M,host-nodes={node},policy=bind")
        };
        let node = |place: usize, cpus: &str| format!("node,nodeid={place},memdev=memory{place},cpus={cpus}");
        let expected = [
            ["-object".to_owned(), piece(0, 336, 0), "-numa".to_owned(), node(0, "0-0")],
            ["-object".to_owned(), piece(1, 332, 2), "-numa".to_owned(), node(1, "1-1")],
            ["-object".to_owned(), piece(2, 332, 5), "-numa".to_owned(), node(2, "2-3")],
        ];
        assert_eq!(told(&exposed, &[0, 2, 5]), expected.concat());
        let folder = std::env::temp_dir().join(format!("baremark-nodes-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("it can be made");
        fs::write(folder.join("has_memory"), "0,2-3\n").expect("it can be written");
        assert_eq!(nodes(&exposed, &folder), [0, 2, 3]);
        let four = Settings { guest_nodes: Some(4), ..exposed.clone() };
        assert_eq!(nodes(&four, &folder), [0, 0, 2, 3], "as many as requested, spread over the machine's");
        fs::remove_dir_all(&folder).expect("it is ours");
        let hidden = Settings { guest_numa: false, ..exposed };
        assert_eq!(nodes(&hidden, &folder), [0; 0]);
        let whole = ["-object", "memory-backend-ram,prealloc=on,id=memory0,size=1000M"];
        assert_eq!(told(&hidden, &[]), [whole[0], whole[1], "-machine", "memory-backend=memory0"]);
    }
}
