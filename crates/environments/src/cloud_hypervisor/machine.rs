//! The guest's machine: what of the settings cannot be, the configuration that Cloud Hypervisor is given, and what became of it.

use super::settings::{GuestKernel, Settings};
use crate::guest::difference::Difference;
use crate::guest::memory::Backing;
use crate::guest::portion::{chunk, memory, part};
use crate::guest::{disks, kernel, memory as guest_memory, mmu};
use baremark_model::flow_control::VSOCK;
use baremark_model::site::{Missing, OWN_ROOT, Portion};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf, absolute};

/// The guest's own context identifier. It is seen by the guest alone: the socket is in Cloud Hypervisor's process, so that
/// all guests have the same.
const CID: u64 = 3;
/// The port of the lab on the guest's socket.
const PORT: u32 = 1024;
/// Cloud Hypervisor's socket for connections into the guest, in its working folder. Those from the guest go to the
/// socket of that name with the port after it.
const VSOCK_SOCKET: &str = "vsock";
/// Where its console goes: to Cloud Hypervisor's standard error, which is the site's log.
const CONSOLE: &str = "/dev/stderr";
const HUGE_PAGE: u64 = 2 << 20;
/// The drivers of a virtio socket, which distributions' kernels have as modules.
const DRIVERS: &[&str] = &["virtio_pci", "vmw_vsock_virtio_transport"];
const DISK_DRIVER: &str = "virtio_blk";

/// The name, in Cloud Hypervisor's working folder, of the socket to which the guest's agent connects.
pub fn agent_socket() -> String {
    format!("{VSOCK_SOCKET}_{PORT}")
}

/// Says what of the settings cannot be on this machine.
///
/// # Errors
/// The first such thing, with the remedy.
pub fn check(settings: &Settings) -> Result<(), Missing> {
    kernel::are_words(&settings.kernel_options)?;
    // How many vCPUs there will be is not known before a site's ranks are.
    if !settings.vcpus_as_ranks {
        settings.topology.check(settings.vcpus, &settings.pin, settings.disks.queues)?;
    }
    guest_memory::check(settings.backing, settings.memory_bytes)?;
    mmu::check(settings.mmu)?;
    disks::check(&settings.disks.paths, settings.disks.block_devices)?;
    kernel::are_readable(std::iter::once(kernel_file(settings)).chain(module_files(settings)?))
}

/// The kernel's file.
fn kernel_file(settings: &Settings) -> PathBuf {
    match &settings.kernel {
        GuestKernel::OfThisMachine => kernel::of_this_machine(),
        GuestKernel::Fetched(folder) => folder.join("vmlinuz"),
        GuestKernel::File(file) => file.clone(),
    }
}

/// All modules that the guest loads, in order. A kernel that is a file of its own has the drivers built in.
///
/// # Errors
/// Which module is not there.
pub fn module_files(settings: &Settings) -> Result<Vec<PathBuf>, Missing> {
    let mut names: Vec<&str> = match settings.kernel {
        GuestKernel::File(_) => Vec::new(),
        GuestKernel::OfThisMachine | GuestKernel::Fetched(_) => DRIVERS.to_vec(),
    };
    if !names.is_empty() && !settings.disks.paths.is_empty() {
        names.push(DISK_DRIVER);
    }
    let names: Vec<String> = names.into_iter().map(str::to_owned).chain(settings.module_names.clone()).collect();
    let folder = match &settings.kernel {
        GuestKernel::Fetched(folder) => Some(folder.join("modules")),
        GuestKernel::OfThisMachine | GuestKernel::File(_) => None,
    };
    kernel::module_files(&[], &names, folder.as_deref())
}

/// The settings of one guest of several.
///
/// # Errors
/// What cannot be divided so.
pub fn portion(settings: &Settings, portion: Portion) -> Result<Settings, Missing> {
    let Portion { index, of, ranks } = portion;
    let mut own = settings.clone();
    own.vcpus = if settings.vcpus_as_ranks { ranks } else { part("vcpus", settings.vcpus, of)? };
    own.vcpus_as_ranks = false;
    if of > 1 {
        own.memory_bytes = memory(settings.memory_bytes, of)?;
        own.pin = chunk("pin", &settings.pin, (index, of))?;
        own.disks.paths = chunk("disks", &settings.disks.paths, (index, of))?;
    }
    Ok(own)
}

/// The guest's configuration, as `vm.create` takes it; `initial` is its initial file system.
///
/// # Errors
/// Which path is not UTF-8, or why vCPUs do not fit the topology.
pub fn config(settings: &Settings, initial: &Path) -> Result<Value, Missing> {
    let vcpus = settings.vcpus;
    let [packages, cores, threads] = settings.topology.of(vcpus)?;
    let mut cpus = json!({
        "boot_vcpus": vcpus,
        "max_vcpus": vcpus,
        "topology": {
            "threads_per_core": threads, "cores_per_die": cores, "dies_per_package": 1, "packages": packages,
        },
    });
    if !settings.pin.is_empty() {
        let one = |(vcpu, cpu): (usize, &usize)| json!({ "vcpu": vcpu, "host_cpus": [cpu] });
        cpus["affinity"] = settings.pin.iter().enumerate().map(one).collect();
    }
    let mut config = json!({
        "cpus": cpus,
        "memory": memory_config(settings),
        "payload": {
            "kernel": text(&kernel_file(settings))?,
            "initramfs": text(initial)?,
            "cmdline": command_line(settings),
        },
        "serial": { "mode": "File", "file": CONSOLE },
        "console": { "mode": "Off" },
        "vsock": { "cid": CID, "socket": VSOCK_SOCKET },
    });
    let disks = settings.disks.paths.iter().map(|path| disk(settings, path)).collect::<Result<Vec<_>, _>>()?;
    if !disks.is_empty() {
        config["disks"] = disks.into();
    }
    Ok(config)
}

/// The guest's memory, in bytes: whole huge pages.
pub fn memory_bytes(settings: &Settings) -> u64 {
    settings.memory_bytes.next_multiple_of(HUGE_PAGE)
}

fn memory_config(settings: &Settings) -> Value {
    let mut memory = json!({ "size": memory_bytes(settings) });
    let more = match settings.backing {
        Backing::AsIs => json!({}),
        Backing::Small => json!({ "thp": false }),
        Backing::Huge => json!({ "thp": true, "prefault": true }),
        Backing::Reserved => json!({ "hugepages": true, "hugepage_size": HUGE_PAGE, "prefault": true }),
    };
    if let (Some(memory), Value::Object(more)) = (memory.as_object_mut(), more) {
        memory.extend(more);
    }
    memory
}

fn disk(settings: &Settings, path: &Path) -> Result<Value, Missing> {
    let mut disk = json!({ "path": text(path)?, "image_type": "Raw", "direct": !settings.disks.cached });
    if let Some(queues) = settings.disks.queues {
        disk["num_queues"] = queues.into();
    }
    Ok(disk)
}

/// A path as Cloud Hypervisor finds it from its own working folder.
fn text(path: &Path) -> Result<String, Missing> {
    let missing = |why: &str| Missing {
        what: format!("the path {} cannot be given to Cloud Hypervisor: {why}", path.display()),
        remedy: "give one of plain text".to_owned(),
    };
    let whole = absolute(path).map_err(|why| missing(&why.to_string()))?;
    whole.to_str().map(str::to_owned).ok_or_else(|| missing("it is not UTF-8"))
}

/// The kernel's command line. A kernel that panics restarts the guest at once, of which the lab hears.
fn command_line(settings: &Settings) -> String {
    // What the kernel does not know it hands to its first process as a variable.
    let own_root = format!("{OWN_ROOT}=1");
    let port = format!("{VSOCK}{PORT}");
    let mut words = vec!["console=ttyS0", "quiet", "panic=-1", &own_root];
    words.extend(settings.kernel_options.iter().map(String::as_str));
    words.extend(["--", "agent", "--guest", &port]);
    words.join(" ")
}

/// Says what of the running guest is not as requested, by Cloud Hypervisor's own account and by the kernel's of
/// its process.
///
/// # Errors
/// The first such thing.
pub(crate) fn is_as_requested(settings: &Settings, info: &Value, pid: u32) -> Result<(), Difference> {
    if info["state"] != "Running" {
        return Err(Difference::State(info["state"].clone()));
    }
    let vcpus = &info["config"]["cpus"]["boot_vcpus"];
    if vcpus.as_u64() != Some(settings.vcpus as u64) {
        return Err(Difference::Vcpus { found: vcpus.clone(), wanted: settings.vcpus });
    }
    for (vcpu, cpu) in settings.pin.iter().enumerate() {
        let found = cpus_of(pid, &format!("vcpu{vcpu}"));
        if found.as_deref() != Some(&cpu.to_string()) {
            let found = found.unwrap_or_else(|| "none: it has no such thread".to_owned());
            return Err(Difference::Pinned { vcpu, cpu: *cpu, found });
        }
    }
    guest_memory::backing_is(settings.backing, settings.memory_bytes, pid)
}

/// The CPUs that a thread of a process may use, as the kernel lists them; the thread is known by its name.
fn cpus_of(pid: u32, thread: &str) -> Option<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let status = tasks.flatten().find_map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        (name.trim_end() == thread).then(|| fs::read_to_string(task.path().join("status")).ok())?
    })?;
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud_hypervisor::settings::Disks;
    use crate::guest::topology::Topology;

    fn plain() -> Settings {
        Settings { kernel: GuestKernel::File(PathBuf::from("/k/vmlinux")), ..Settings::default() }
    }

    #[test]
    fn a_plain_guest_is_a_kernel_a_console_and_a_socket() {
        let expected = json!({
            "cpus": {
                "boot_vcpus": 1,
                "max_vcpus": 1,
                "topology": { "threads_per_core": 1, "cores_per_die": 1, "dies_per_package": 1, "packages": 1 },
            },
            "memory": { "size": 536_870_912 },
            "payload": {
                "kernel": "/k/vmlinux",
                "initramfs": "/proc/1/fd/3",
                "cmdline": "console=ttyS0 quiet panic=-1 BAREMARK_OWN_ROOT=1 -- agent --guest vsock:1024",
            },
            "serial": { "mode": "File", "file": "/dev/stderr" },
            "console": { "mode": "Off" },
            "vsock": { "cid": 3, "socket": "vsock" },
        });
        assert_eq!(config(&plain(), Path::new("/proc/1/fd/3")), Ok(expected));
        assert_eq!(agent_socket(), "vsock_1024");
    }

    #[test]
    fn settings_become_the_configuration() {
        let settings = Settings {
            vcpus: 4,
            topology: Topology { threads: Some(2), ..Topology::default() },
            pin: vec![2, 3, 6, 7],
            memory_bytes: (1 << 30) + 1,
            kernel_options: vec!["transparent_hugepage=never".to_owned(), "mitigations=off".to_owned()],
            disks: Disks { paths: vec![PathBuf::from("/d/one,two")], queues: Some(2), ..Disks::default() },
            ..plain()
        };
        let found = config(&settings, Path::new("/i")).expect("a configuration");
        assert_eq!(found["cpus"]["topology"]["cores_per_die"], 2);
        assert_eq!(found["cpus"]["affinity"][3], json!({ "vcpu": 3, "host_cpus": [7] }));
        assert_eq!(found["memory"], json!({ "size": (1 << 30) + (2 << 20) }), "whole huge pages");
        let line = found["payload"]["cmdline"].as_str().expect("a text");
        assert!(line.contains(" transparent_hugepage=never mitigations=off -- agent "), "{line}");
        let disk = json!({ "path": "/d/one,two", "image_type": "Raw", "direct": true, "num_queues": 2 });
        assert_eq!(found["disks"], json!([disk]));
        let memory = |backing| memory_config(&Settings { backing, ..plain() });
        assert_eq!(memory(Backing::Small), json!({ "size": 512 << 20, "thp": false }));
        assert_eq!(memory(Backing::Huge), json!({ "size": 512 << 20, "thp": true, "prefault": true }));
        let reserved = json!({ "size": 512 << 20, "hugepages": true, "hugepage_size": 2 << 20, "prefault": true });
        assert_eq!(memory(Backing::Reserved), reserved);
        let relative = config(&Settings { kernel: GuestKernel::File("vmlinux".into()), ..settings }, Path::new("/i"));
        let here = std::env::current_dir().expect("a folder").join("vmlinux");
        assert_eq!(relative.expect("made absolute")["payload"]["kernel"].as_str(), here.to_str());
    }

    #[test]
    fn a_kernel_of_a_folder_has_its_modules_and_one_of_its_own_has_them_built_in() {
        assert_eq!(module_files(&plain()), Ok(Vec::new()));
        let folder = std::env::temp_dir().join(format!("baremark-ch-kernel-{}", std::process::id()));
        let modules = folder.join("modules/kernel");
        fs::create_dir_all(&modules).expect("it can be made");
        let fetched = Settings { kernel: GuestKernel::Fetched(folder.clone()), ..plain() };
        let why = module_files(&fetched).expect_err("it is empty").to_string();
        assert!(why.starts_with("the guest's kernel has no module virtio_pci (looked under "), "{why}");
        for (name, needs) in
            [("virtio_pci", ""), ("vsock", ""), ("vmw_vsock_virtio_transport", "vsock"), ("virtio_blk", "")]
        {
            let content = format!("ELF\0depends={needs}\0");
            fs::write(modules.join(format!("{name}.ko")), content).expect("it can be written");
        }
        let names = |settings: &Settings| -> Vec<String> {
            let files = module_files(settings).expect("all are there");
            files.iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect()
        };
        assert_eq!(names(&fetched), ["virtio_pci", "vsock", "vmw_vsock_virtio_transport"]);
        let disks = Disks { paths: vec![PathBuf::from("/d")], ..Disks::default() };
        assert_eq!(names(&Settings { disks, ..fetched })[3], "virtio_blk");
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        let why = |settings: Settings| check(&settings).expect_err("refused").to_string();
        let pin = why(Settings { pin: vec![1], vcpus: 2, ..plain() });
        assert_eq!(pin, "pin names 1 CPUs for 2 vCPUs; name one for each");
        let disks = Disks { queues: Some(2), ..Disks::default() };
        assert!(why(Settings { disks, ..plain() }).starts_with("disk_queues = 2 are more than the guest's 1 vCPUs"));
        let word = why(Settings { kernel_options: vec!["a b".to_owned()], ..plain() });
        assert!(word.starts_with("'a b' is not one word of a kernel's command line"), "{word}");
        let kernel = why(plain());
        assert!(kernel.starts_with("a file of the guest's kernel, /k/vmlinux, cannot be read: "), "{kernel}");
    }

    #[test]
    fn a_guest_gets_its_part() {
        let whole = Settings { vcpus: 4, memory_bytes: 1 << 30, pin: vec![0, 1, 2, 3], ..plain() };
        let of = |index, of| portion(&whole, Portion { index, of, ranks: 1 });
        assert_eq!(of(0, 1), Ok(whole.clone()), "one guest is the whole");
        let second = of(1, 2).expect("two halves");
        assert_eq!((second.vcpus, second.memory_bytes, second.pin), (2, 512 << 20, vec![2, 3]));
        assert!(of(0, 3).expect_err("indivisible").to_string().starts_with("vcpus = 4 cannot be divided among 3"));
    }

    #[test]
    fn a_guest_that_is_not_as_requested_is_told() {
        let info = json!({ "state": "Running", "config": { "cpus": { "boot_vcpus": 1 } } });
        let own = std::process::id();
        is_as_requested(&plain(), &info, own).expect("as requested");
        let difference = |settings: Settings, info: &Value| {
            is_as_requested(&settings, info, own).expect_err("it is not as requested").to_string()
        };
        assert_eq!(difference(Settings { vcpus: 2, ..plain() }, &info), "the guest has 1 of its 2 vCPUs");
        let why = difference(Settings { pin: vec![7], ..plain() }, &info);
        assert_eq!(why, "vCPU 0 is not pinned to CPU 7; its CPUs are none: it has no such thread");
        let why = difference(plain(), &json!({ "state": "Paused" }));
        assert!(why.contains("the state \"Paused\" of a guest"), "{why}");
    }
}
