//! Guests of Cloud Hypervisor, which a process of this suite plays: it speaks the API on its socket, and runs the agent on this machine in the
//! place of a guest. No kernel boots here; what was tried with the real program is in docs/cloud-hypervisor.md.

use crate::bench::{Bench, kvm, lives, signal, unbroken};
use crate::scripts::Scripts;
use crate::sites::{NEVER, Program, as_lab, cpu, lab, temporary, trial_of, wait_for};
use crate::trials::{self, accounted};
use baremark_environments::cloud_hypervisor::{CloudHypervisor, Disks, GuestKernel, Settings};
use baremark_environments::conformance::{Place, conformance};
use baremark_model::flow_control::{self, READY};
use baremark_model::site::{Environment, Link};
use baremark_model::wire::FromAgent;
use baremark_sys::affinity::pin_current_thread;
use baremark_sys::process::die_with;
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Where the process that plays finds what it is to do, and its arguments.
const FOLDER: &str = "BAREMARK_PLAYED_HYPERVISOR";
const ARGUMENTS: &str = "BAREMARK_PLAYED_ARGUMENTS";
const KERNEL: &str = "a kernel that nobody boots";

/// A folder with the program that is played, what it does, and what it was asked.
struct Played {
    scripts: Scripts,
    program: Program,
}

impl Played {
    fn new() -> Self {
        let own = std::env::current_exe().unwrap();
        let script = format!(
            "#!/bin/sh\nfolder=$(dirname \"$0\")\nif [ \"$1\" = --version ]; then\n    cat \"$folder/version\"\n    exit\nfi\n\
             {FOLDER}=$folder {ARGUMENTS}=\"$*\" exec '{}' --exact --ignored --nocapture cloud_hypervisor::a_process_that_plays\n",
            own.display()
        );
        let played = Played { scripts: Scripts::new(&[("cloud-hypervisor", &script)]), program: Program::new() };
        played.write("version", "cloud-hypervisor v49.0\nMigration Protocol Versions: 0\n");
        played.write("kernel", KERNEL);
        played.write("kvm", "");
        played.write("program", &played.program.path().display().to_string());
        played.behave("");
        played
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scripts.path(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    /// What the next ones do; nothing wrong where this is empty.
    fn behave(&self, how: &str) {
        self.write("behaviour", how);
    }

    fn settings(&self) -> Settings {
        Settings {
            program: self.path("cloud-hypervisor"),
            device: self.path("kvm"),
            kernel: GuestKernel::File(self.path("kernel")),
            answer_limit: Duration::from_secs(60),
            ..Settings::default()
        }
    }

    fn environment(&self, settings: Settings) -> CloudHypervisor {
        CloudHypervisor::new(self.program.path(), settings)
    }

    /// Why a guest that behaves so does not become a site; nothing of it is left.
    fn refusal(&self, how: &str, settings: Settings) -> String {
        self.behave(how);
        let why = self.environment(settings).start(&NEVER).err().unwrap().to_string();
        // Its agent dies with the process that plays, which nobody waits for.
        wait_for(|| self.left().is_empty().then_some(()));
        why
    }

    /// The processes that have played, by number, and what each was asked.
    fn asked(&self) -> Vec<(u32, Vec<(String, Value)>)> {
        let listed = fs::read_dir(self.path("temporary")).unwrap().flatten();
        let mut all: Vec<_> = listed
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.strip_prefix("asked-")?.parse().ok()?;
                let requests = fs::read_to_string(entry.path()).unwrap();
                let request = |line: &str| {
                    let (what, body) = line.split_once('\t').unwrap();
                    (what.to_owned(), if body.is_empty() { Value::Null } else { serde_json::from_str(body).unwrap() })
                };
                Some((pid, requests.lines().map(request).collect()))
            })
            .collect();
        all.sort_unstable_by_key(|(pid, _): &(u32, _)| *pid);
        all
    }

    /// What is left of guests: processes, agents, folders.
    fn left(&self) -> Vec<String> {
        let played = self.asked().into_iter().map(|(pid, _)| pid).filter(|pid| lives(*pid));
        let folders = temporary().into_iter().filter(|name| name.starts_with("baremark-cloud-hypervisor-"));
        played.map(|pid| format!("process {pid}")).chain(self.program.processes()).chain(folders).collect()
    }
}

#[test]
fn a_guest_conforms_and_is_asked_for_by_exactly_these_requests() {
    let played = Played::new();
    let environment = played.environment(played.settings());
    let place = Place { cpu: cpu(), patience: Duration::from_secs(60), residue: &|| played.left() };
    assert_eq!(conformance(&environment, &place), Ok(()));
    let all = played.asked();
    assert!(all.len() >= 5, "a site for each part of the suite: {}", all.len());
    for (_, requests) in all {
        let names: Vec<&str> = requests.iter().map(|(what, _)| what.as_str()).collect();
        let expected = ["vmm.ping", "vm.create", "vm.boot", "vm.info"].map(|name| {
            format!("{} /api/v1/{name}", if ["vmm.ping", "vm.info"].contains(&name) { "GET" } else { "PUT" })
        });
        assert_eq!(names, expected);
        assert!(requests.iter().all(|(what, body)| what.ends_with("vm.create") != body.is_null()), "{requests:?}");
        let mut config = requests[1].1.clone();
        let initial = config["payload"]["initramfs"].take();
        let descriptor = format!("/proc/{}/fd/", std::process::id());
        assert!(initial.as_str().unwrap().starts_with(&descriptor), "{initial}");
        let expected = json!({
            "cpus": {
                "boot_vcpus": 1,
                "max_vcpus": 1,
                "topology": { "threads_per_core": 1, "cores_per_die": 1, "dies_per_package": 1, "packages": 1 },
            },
            "memory": { "size": 512 << 20 },
            "payload": {
                "kernel": played.path("kernel"),
                "initramfs": null,
                "cmdline": "console=ttyS0 quiet panic=-1 BAREMARK_OWN_ROOT=1 -- agent --guest vsock:1024",
            },
            "serial": { "mode": "File", "file": "/dev/stderr" },
            "console": { "mode": "Off" },
            "vsock": { "cid": 3, "socket": "vsock" },
        });
        assert_eq!(config, expected);
    }
    let calls = fs::read_to_string(played.path("calls")).unwrap();
    for call in calls.lines() {
        let descriptor = call.strip_prefix("--api-socket path=api --event-monitor fd=").unwrap();
        assert!(descriptor.parse::<i32>().is_ok(), "{call}");
    }
}

#[test]
fn a_guest_is_pinned_and_has_disks_and_what_is_not_so_is_told() {
    let played = Played::new();
    let disk = played.path("disk");
    fs::write(&disk, [0; 512]).unwrap();
    let disks = Disks { paths: vec![disk.clone()], cached: true, queues: Some(1), block_devices: false };
    let settings = Settings { pin: vec![cpu()], disks, ..played.settings() };
    let mut site = played.environment(settings.clone()).start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    assert!(matches!(trial_of(&mut link, cpu(), 1 << 20), Ok(FromAgent::TrialDone(_))));
    let created = played.asked()[0].1[1].1.clone();
    assert_eq!(created["cpus"]["affinity"], json!([{ "vcpu": 0, "host_cpus": [cpu()] }]));
    assert_eq!(created["disks"], json!([{ "path": disk, "image_type": "Raw", "direct": false, "num_queues": 1 }]));
    drop(site);
    wait_for(|| played.left().is_empty().then_some(()));
    // A thread of another name is as good as one that is not pinned.
    let why = played.refusal("nameless", settings.clone());
    assert!(why.starts_with(&format!("vCPU 0 is not pinned to CPU {}; its CPUs are none", cpu())), "{why}");
    let why = played.refusal("short", settings);
    assert!(why.starts_with("the guest has 7 of its 1 vCPUs"), "{why}");
}

#[test]
fn a_guest_whose_agent_leaves_is_switched_off() {
    let played = Played::new();
    let mut site = played.environment(played.settings()).start(&NEVER).unwrap();
    let Link { mut from_agent, mut to_agent } = site.link().unwrap();
    baremark_model::wire::write_frame(&mut to_agent, &baremark_model::wire::ToAgent::Goodbye).unwrap();
    assert_eq!(from_agent.read(&mut [0]).unwrap(), 0, "the stream ends");
    wait_for(|| played.left().is_empty().then_some(()));
    site.kill();
    assert_eq!(site.log(), ["guest: Linux version 6.1"]);
}

#[test]
fn a_guest_that_hangs_in_boot_is_given_up_with_the_consoles_last_lines() {
    let played = Played::new();
    let why = played.refusal("hang", Settings { boot_limit: Duration::from_secs(1), ..played.settings() });
    let expected =
        "the agent did not connect within 1 s of the start of its guest; its last words:\n    guest: Linux version 6.1";
    assert_eq!(why, expected);
    // Its agent connects, and is never ready.
    let why = played.refusal("mute", Settings { boot_limit: Duration::from_secs(1), ..played.settings() });
    assert_eq!(why, expected);
}

#[test]
fn a_guest_that_panics_restarts_and_is_given_up_at_once() {
    let played = Played::new();
    let settings = Settings { boot_limit: Duration::from_secs(3600), ..played.settings() };
    let why = played.refusal("panic", settings);
    let expected = "the guest restarted itself, as it does when its kernel panics; its last words:\n    guest: Linux version 6.1\n    \
                    guest: Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)";
    assert_eq!(why, expected);
}

#[test]
fn a_guest_that_panics_later_says_so_in_the_sites_log() {
    let played = Played::new();
    played.behave("panic later");
    let mut site = played.environment(played.settings()).start(&NEVER).unwrap();
    let mut link = site.link().unwrap();
    fs::remove_file(played.path("behaviour")).unwrap();
    assert_eq!(link.from_agent.read(&mut [0]).unwrap(), 0, "the stream ends with the guest's socket");
    wait_for(|| site.log().iter().any(|line| line.contains("restarted itself")).then_some(()));
    site.kill();
    let log = site.log().join("\n");
    assert!(log.contains("Kernel panic - not syncing") && log.ends_with("as it does when its kernel panics"), "{log}");
    wait_for(|| played.left().is_empty().then_some(()));
}

#[test]
fn one_that_ends_or_answers_an_error_or_nothing_says_so() {
    let played = Played::new();
    let why = played.refusal("die", played.settings());
    let expected = "Cloud Hypervisor ended before the guest's agent was there; its last words:\n    Error: no memory";
    assert_eq!(why, expected);
    let why = played.refusal("refuse vm.create", played.settings());
    assert_eq!(why, "Cloud Hypervisor refused vm.create with status 500: Error from API: it is not possible");
    let why = played.refusal("refuse vm.boot", played.settings());
    assert_eq!(why, "Cloud Hypervisor refused vm.boot with status 500: Error from API: it is not possible");
    let soon = Settings { answer_limit: Duration::from_secs(1), ..played.settings() };
    let why = played.refusal("no socket", soon.clone());
    assert!(why.starts_with("Cloud Hypervisor made no API socket within 1 s: No such file or directory"), "{why}");
    let why = played.refusal("silent", soon);
    // A machine that is so busy that the socket comes later than in a second has no request that could be answered.
    let ways = ["Cloud Hypervisor did not answer vmm.ping within ", "Cloud Hypervisor made no API socket within 1 s"];
    assert!(ways.iter().any(|way| why.starts_with(way)), "{why}");
}

/// Interrupts what a scope waits for, also where an assertion in it has failed.
struct InterruptedAtEnd<'i>(&'i AtomicBool);

impl Drop for InterruptedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Starts a guest that hangs in boot, does this while its agent is waited for, and interrupts that; nothing is left.
fn interrupted_in_boot(meanwhile: impl FnOnce()) {
    let played = Played::new();
    played.behave("hang");
    let interrupt = AtomicBool::new(false);
    let environment = played.environment(Settings { boot_limit: Duration::from_secs(3600), ..played.settings() });
    thread::scope(|scope| {
        let _ended = InterruptedAtEnd(&interrupt);
        let started = scope.spawn(|| environment.start(&interrupt).err().unwrap().to_string());
        // A request is logged before it is carried out.
        let answered = || fs::read_to_string(played.path("answered")).is_ok_and(|name| name == "vm.boot");
        wait_for(|| answered().then_some(()));
        meanwhile();
        interrupt.store(true, Ordering::Relaxed);
        assert_eq!(started.join().unwrap(), "interrupted");
    });
    wait_for(|| played.left().is_empty().then_some(()));
}

#[test]
fn an_interrupt_ends_the_wait_and_the_guest() {
    interrupted_in_boot(|| ());
}

#[test]
fn its_folder_is_private_while_it_boots() {
    interrupted_in_boot(|| {
        let folder = temporary().into_iter().find(|name| name.starts_with("baremark-cloud-hypervisor-")).unwrap();
        let folder = std::env::temp_dir().join(folder);
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        for socket in ["api", "vsock", "vsock_1024"] {
            let found = fs::metadata(folder.join("site").join(socket)).unwrap();
            assert!(found.file_type().is_socket(), "{socket}");
        }
    });
}

#[test]
fn a_killed_lab_takes_its_guest_with_it_and_the_next_one_removes_its_folder() {
    let played = Played::new();
    let told = |program: &Program| lab("cloud_hypervisor::a_lab_to_be_killed", program, &[(FOLDER, &played.path(""))]);
    let gone = || {
        let folders = temporary().into_iter().filter(|name| name.starts_with("baremark-cloud-hypervisor-")).count();
        wait_for(|| (played.left().len() == folders).then_some(()));
        folders
    };
    // One that was killed while its guest ran leaves nothing.
    let mut first = told(&played.program);
    wait_for(|| played.asked().iter().any(|(_, requests)| requests.len() == 4).then_some(()));
    wait_for(|| (played.left().len() == 2).then_some(()));
    signal(first.id(), libc::SIGKILL);
    first.wait().unwrap();
    assert_eq!(gone(), 0);
    // One that was killed before leaves its folder, which the next start removes.
    played.behave("hang");
    let mut second = told(&played.program);
    wait_for(|| played.asked().iter().any(|(_, requests)| requests.len() == 3).then_some(()));
    signal(second.id(), libc::SIGKILL);
    second.wait().unwrap();
    assert_eq!(gone(), 1);
    played.behave("");
    drop(played.environment(played.settings()).start(&NEVER).unwrap());
    wait_for(|| played.left().is_empty().then_some(()));
}

/// No test: what the test above runs as a process of its own.
#[test]
#[ignore = "run by another test"]
fn a_lab_to_be_killed() {
    as_lab(|program| {
        let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
        let settings = Settings {
            program: folder.join("cloud-hypervisor"),
            device: folder.join("kvm"),
            kernel: GuestKernel::File(folder.join("kernel")),
            answer_limit: Duration::from_secs(60),
            ..Settings::default()
        };
        CloudHypervisor::new(program, settings).start(&NEVER).unwrap()
    });
}

#[test]
fn what_is_missing_is_named_with_a_remedy() {
    let played = Played::new();
    let why = |settings| played.environment(settings).probe().unwrap_err().to_string();
    assert!(played.environment(played.settings()).probe().is_ok());
    let device = why(Settings { device: played.path("nowhere"), ..played.settings() });
    assert!(
        device.contains("nowhere cannot be opened: No such file") && device.contains("; load kvm_intel"),
        "{device}"
    );
    let kernel = why(Settings { kernel: GuestKernel::File(played.path("nowhere")), ..played.settings() });
    assert!(kernel.starts_with("a file of the guest's kernel, ") && kernel.contains("setup guest-kernel"), "{kernel}");
    let disks = Disks { paths: vec![played.path("nowhere")], ..Disks::default() };
    let disk = why(Settings { disks, ..played.settings() });
    assert!(disk.contains("cannot be used: No such file"), "{disk}");
    played.write("version", "cloud-hypervisor v38.0\n");
    let old = why(played.settings());
    assert_eq!(old, "cloud-hypervisor v38.0 boots no bzImage; install version 39 or a later one");
    assert_eq!(played.environment(played.settings()).found().len(), 0);
}

/// The whole program, as a user runs it.
#[test]
fn a_study_compares_a_guest_with_native_and_records_the_version() {
    if !kvm() {
        return;
    }
    let (played, bench) = (Played::new(), Bench::new());
    let study = format!(
        "[study]\ntitle = \"a guest\"\n[workload]\nkind = \"random-access\"\ntable = \"1 MiB\"\n\
         [factors]\nenvironment = [\"native\", \"cloud-hypervisor\"]\nranks = 1\n\
         [environments.cloud-hypervisor]\nkernel = {:?}\nmemory = \"256 MiB\"\nfresh = \"run\"\nstart_limit = \"10 min\"\n\
         [design]\nphase = \"20 ms\"\nquads = 1\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"10 min\"\n",
        played.path("kernel")
    );
    let study = bench.write("study.toml", study);
    let path = played.scripts.search_path();
    let document = played.program.document_with(&bench, &study, &[("PATH", &path)]);
    assert_eq!(document["absent"].as_array().unwrap().len(), 0, "{}", document["absent"]);
    for place in ["native", "cloud-hypervisor"] {
        accounted(&trials::of(&document, place), 4);
    }
    let used = &document["run"]["environments"][0];
    assert_eq!(
        (&used["name"], &used["settings"]["version"]),
        (&json!("cloud-hypervisor"), &json!("cloud-hypervisor v49.0"))
    );
    wait_for(|| played.left().is_empty().then_some(()));
    fs::remove_file(played.path("kernel")).unwrap();
    let mut command = bench.command(&["plan", study.to_str().unwrap()]);
    let output = command.env("PATH", &path).output().unwrap();
    let said = unbroken(&[output.stdout, output.stderr].concat());
    assert!(said.contains("a file of the guest's kernel, ") && said.contains("cannot be read"), "{said}");
    let named = fs::read_to_string(&study).unwrap().replace("fresh = ", "executable = \"/nowhere/ch\"\nfresh = ");
    let named = bench.write("named.toml", named);
    let output = bench.command(&["plan", named.to_str().unwrap()]).env("PATH", &path).output().unwrap();
    let said = unbroken(&[output.stdout, output.stderr].concat());
    assert!(said.contains("/nowhere/ch does not run"), "{said}");
}

// ---- the process that plays

/// No test: Cloud Hypervisor with a guest, as far as the lab sees both.
#[test]
#[ignore = "run by another test"]
fn a_process_that_plays() {
    let (Some(folder), Ok(arguments)) = (std::env::var_os(FOLDER), std::env::var(ARGUMENTS)) else { return };
    Hypervisor::of(PathBuf::from(folder), &arguments).serve();
}

struct Hypervisor {
    folder: PathBuf,
    behaviour: String,
    events: Arc<Mutex<File>>,
    config: Value,
}

impl Hypervisor {
    fn of(folder: PathBuf, arguments: &str) -> Self {
        let append = |name: &str| OpenOptions::new().append(true).create(true).open(folder.join(name)).unwrap();
        writeln!(append("calls"), "{arguments}").unwrap();
        let behaviour = fs::read_to_string(folder.join("behaviour")).unwrap();
        let words: Vec<&str> = arguments.split(' ').collect();
        assert_eq!(words[..3], ["--api-socket", "path=api", "--event-monitor"]);
        let descriptor: u32 = words[3].strip_prefix("fd=").unwrap().parse().unwrap();
        let events = OpenOptions::new().write(true).open(format!("/proc/self/fd/{descriptor}")).unwrap();
        Hypervisor { folder, behaviour, events: Arc::new(Mutex::new(events)), config: Value::Null }
    }

    /// Answers requests on the API's socket until it is killed.
    fn serve(mut self) {
        let asked = self.folder.join("temporary").join(format!("asked-{}", std::process::id()));
        let mut asked = File::create(asked).unwrap();
        match self.behaviour.as_str() {
            "no socket" => forever(),
            "die" => {
                eprintln!("Error: no memory");
                std::process::exit(1);
            }
            _ => {}
        }
        let (connection, _) = UnixListener::bind("api").unwrap().accept().unwrap();
        let mut requests = BufReader::new(connection.try_clone().unwrap());
        while let Some((what, body)) = read_request(&mut requests) {
            asked.write_all(format!("{what}\t{body}\n").as_bytes()).unwrap();
            let name = what.rsplit('/').next().unwrap();
            let answer = match self.behaviour.strip_prefix("refuse ") {
                Some(refused) if refused == name => Err("[\"Error from API\",\"it is not possible\"]"),
                _ => Ok(self.carry_out(name, &body)),
            };
            let head = "Server: Cloud Hypervisor API\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n";
            let with = |status: u32, body: &str| {
                format!("HTTP/1.1 {status} \r\n{head}Content-Length: {}\r\n\r\n{body}", body.len())
            };
            let text = match answer {
                Ok(None) => format!("HTTP/1.1 204 \r\n{head}\r\n"),
                Ok(Some(body)) => with(200, &body.to_string()),
                Err(body) => with(500, body),
            };
            (&connection).write_all(text.as_bytes()).unwrap();
            fs::write(self.folder.join("answered"), name).unwrap();
        }
        // A lab that keeps no connection continues with its guest.
        forever();
    }

    fn carry_out(&mut self, name: &str, body: &str) -> Option<Value> {
        match name {
            "vmm.ping" if self.behaviour == "silent" => forever(),
            "vmm.ping" => Some(json!({ "build_version": "v49.0", "version": "49.0.0", "pid": std::process::id() })),
            "vm.create" => {
                self.config = serde_json::from_str(body).unwrap();
                None
            }
            "vm.boot" => {
                self.boot();
                None
            }
            "vm.info" => {
                let mut config = self.config.clone();
                if self.behaviour == "short" {
                    config["cpus"]["boot_vcpus"] = json!(7);
                }
                Some(json!({ "config": config, "state": "Running", "memory_actual_size": config["memory"]["size"] }))
            }
            other => panic!("asked for {other}"),
        }
    }

    fn boot(&self) {
        self.event("vm", "booting");
        let payload = &self.config["payload"];
        assert_eq!(fs::read_to_string(payload["kernel"].as_str().unwrap()).unwrap(), KERNEL);
        let mut magic = [0; 6];
        File::open(payload["initramfs"].as_str().unwrap()).unwrap().read_exact(&mut magic).unwrap();
        assert_eq!(&magic, b"070701", "an archive of cpio(1)");
        // Where the guest connects from its own side.
        std::mem::forget(UnixListener::bind(self.config["vsock"]["socket"].as_str().unwrap()).unwrap());
        for vcpu in 0..self.config["cpus"]["boot_vcpus"].as_u64().unwrap() {
            let pinned =
                self.config["cpus"]["affinity"].as_array().into_iter().flatten().find(|one| one["vcpu"] == vcpu);
            let pinned = pinned.map(|one| one["host_cpus"][0].as_u64().unwrap() as usize);
            let name = if self.behaviour == "nameless" { "other".to_owned() } else { format!("vcpu{vcpu}") };
            let (ready, is_ready) = std::sync::mpsc::channel();
            let run = move || {
                pinned.into_iter().for_each(|cpu| pin_current_thread(cpu).unwrap());
                ready.send(()).unwrap();
                forever()
            };
            thread::Builder::new().name(name).spawn(run).unwrap();
            is_ready.recv().unwrap();
        }
        assert_eq!(self.config["serial"]["mode"], "File");
        let mut console = File::create(self.config["serial"]["file"].as_str().unwrap()).unwrap();
        writeln!(console, "guest: Linux version 6.1").unwrap();
        let (folder, behaviour, config) = (self.folder.clone(), self.behaviour.clone(), self.config.clone());
        let events = Arc::clone(&self.events);
        thread::spawn(move || run_guest((&folder, &behaviour), &config, console, &events));
        self.event("vm", "booted");
    }

    fn event(&self, source: &str, event: &str) {
        send_event(&self.events, source, event);
    }
}

/// As Cloud Hypervisor writes events.
fn send_event(events: &Mutex<File>, source: &str, event: &str) {
    let event = json!({ "timestamp": { "secs": 0, "nanos": 1 }, "source": source, "event": event, "properties": null });
    write!(events.lock().unwrap(), "{event:#}\n\n").unwrap();
}

/// A request's method with its path, and its body.
fn read_request(from: &mut impl BufRead) -> Option<(String, String)> {
    let mut line = || {
        let mut line = String::new();
        (from.read_line(&mut line).unwrap() > 0).then(|| line.trim_end().to_owned())
    };
    let what = line()?.strip_suffix(" HTTP/1.1").unwrap().to_owned();
    let headers: Vec<String> = std::iter::from_fn(|| line().filter(|line| !line.is_empty())).collect();
    assert!(headers.contains(&"Host: localhost".to_owned()), "{headers:?}");
    let length = headers.iter().find_map(|header| header.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    from.read_exact(&mut body).unwrap();
    Some((what, String::from_utf8(body).unwrap()))
}

/// The guest: what its first process does, on this machine.
#[allow(clippy::exit, reason = "the end of a guest is that of its hypervisor")]
fn run_guest((folder, behaviour): (&Path, &str), config: &Value, mut console: File, events: &Mutex<File>) {
    let mut panics = || {
        let why = "VFS: Unable to mount root fs on unknown-block(0,0)";
        writeln!(console, "guest: Kernel panic - not syncing: {why}").unwrap();
        send_event(events, "vm", "rebooting");
    };
    match behaviour {
        "hang" => forever(),
        "panic" => {
            panics();
            forever()
        }
        _ => {}
    }
    let line = config["payload"]["cmdline"].as_str().unwrap();
    let port = line.split_once(" -- agent --guest vsock:").unwrap().1;
    let socket = format!("{}_{port}", config["vsock"]["socket"].as_str().unwrap());
    let port_in = UnixStream::connect(socket).unwrap();
    if behaviour == "mute" {
        forever();
    }
    let mut port_out = port_in.try_clone().unwrap();
    let program = fs::read_to_string(folder.join("program")).unwrap();
    let own = std::process::id();
    let mut command = Command::new(program);
    command.arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped());
    // SAFETY: it is made for this place between fork and exec.
    unsafe { command.pre_exec(move || die_with(own, libc::SIGKILL)) };
    let mut agent = command.spawn().unwrap();
    port_out.write_all(READY).unwrap();
    if behaviour == "panic later" {
        // Once the site is there.
        wait_for(|| (!folder.join("behaviour").exists()).then_some(()));
        agent.kill().unwrap();
        panics();
        port_in.shutdown(std::net::Shutdown::Both).unwrap();
        forever();
    }
    let (to_agent, from_agent) = (agent.stdin.take().unwrap(), agent.stdout.take().unwrap());
    let port_out = Arc::new(Mutex::new(File::from(OwnedFd::from(port_out))));
    let granting = Arc::clone(&port_out);
    thread::spawn(move || flow_control::guest_in(port_in, to_agent, &granting));
    let sending = Arc::clone(&port_out);
    let sender = thread::spawn(move || flow_control::guest_out(from_agent, &sending));
    agent.wait().unwrap();
    drop(sender.join());
    baremark_sys::guest::drain(&port_out.lock().unwrap()).unwrap();
    // The guest is switched off, and its hypervisor ends.
    std::process::exit(0);
}

fn forever() -> ! {
    loop {
        thread::park();
    }
}
