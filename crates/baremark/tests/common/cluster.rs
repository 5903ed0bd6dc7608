//! A real Slurm cluster of one node on this machine, of a test's own: own key, own ports, own folder, gone with the test.

use super::bench::{lives, signal};
use super::sites::{free_port, wait_for_at_most};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(90);
const PROGRAMS: &[&str] = &["munged", "slurmctld", "slurmd", "srun", "sbatch"];

pub struct Cluster {
    folder: TempDir,
    munged: Child,
    slurmctld: Child,
    pub slurmd: Child,
}

impl Cluster {
    /// Starts one; where it cannot be, a line that is counted, or a failure where the gate demands it.
    pub fn start() -> Option<Self> {
        if let Some(program) = PROGRAMS.iter().find(|program| installed(program).is_none()) {
            assert!(std::env::var_os("BAREMARK_REQUIRE_ENVIRONMENTS").is_none(), "{program} is demanded");
            eprintln!("skipped: no {program}");
            return None;
        }
        if fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta)).unwrap() != 0 {
            eprintln!("skipped: a Slurm cluster of one's own needs root");
            return None;
        }
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["state", "spool", "batch"] {
            fs::create_dir(path(name)).unwrap();
        }
        let mut key = vec![0; 128];
        std::io::Read::read_exact(&mut fs::File::open("/dev/urandom").unwrap(), &mut key).unwrap();
        fs::write(path("munge.key"), key).unwrap();
        fs::set_permissions(path("munge.key"), fs::Permissions::from_mode(0o400)).unwrap();
        fs::write(path("slurm.conf"), configuration(folder.path())).unwrap();
        let mut munged = Command::new(installed("munged").unwrap());
        munged.args(["--foreground", "--force", "--num-threads=2"]);
        for (option, file) in [("key-file", "munge.key"), ("socket", "munge.socket"), ("pid-file", "munged.pid")] {
            munged.arg(format!("--{option}={}", path(file).display()));
        }
        for (option, file) in [("log-file", "munged.log"), ("seed-file", "munge.seed")] {
            munged.arg(format!("--{option}={}", path(file).display()));
        }
        let munged = daemon(&mut munged);
        wait_for_at_most(PATIENCE, || path("munge.socket").exists().then_some(()));
        let of_slurm = |name: &str| {
            let mut command = Command::new(installed(name).unwrap());
            command.arg("-D").env("SLURM_CONF", path("slurm.conf"));
            command
        };
        let slurmctld = daemon(&mut of_slurm("slurmctld"));
        let slurmd = daemon(of_slurm("slurmd").args(["-N", "node"]));
        let cluster = Cluster { folder, munged, slurmctld, slurmd };
        wait_for_at_most(PATIENCE, || (cluster.ask("sinfo", &["-h", "-o", "%T"]).contains("idle")).then_some(()));
        Some(cluster)
    }

    pub fn config(&self) -> PathBuf {
        self.folder.path().join("slurm.conf")
    }

    /// A folder that all of its nodes see.
    pub fn shared(&self) -> PathBuf {
        self.folder.path().join("batch")
    }

    /// What one of Slurm's commands says.
    pub fn ask(&self, name: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(installed(name).unwrap());
        let output = command.args(arguments).env("SLURM_CONF", self.config()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Jobs that have not ended, in words.
    pub fn jobs(&self) -> Vec<String> {
        self.ask("squeue", &["-h", "-o", "job %i %j %T"]).lines().map(str::to_owned).collect()
    }

    /// Slurm's own process of each step of a job: no child of its daemon, whose log it has open.
    pub fn steps(&self) -> Vec<u32> {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_step = |process: &u32| {
            fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.starts_with("slurmstepd"))
                && has_open_below(*process, self.folder.path())
        };
        numbers.filter(is_step).collect()
    }

    /// The number of the first job that runs.
    pub fn running(&self) -> Option<String> {
        let listed = self.ask("squeue", &["-h", "-t", "RUNNING", "-o", "%i"]);
        listed.lines().next().map(str::to_owned)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.ask("scancel", &["--quiet", "--state=PENDING"]);
        self.ask("scancel", &["--quiet", "--state=RUNNING"]);
        // Each step reports its end to the controller, which must be there until then. Without a daemon on the node nothing ends.
        let deadline = Instant::now() + PATIENCE;
        let ends = matches!(self.slurmd.try_wait(), Ok(None));
        while ends && !(self.jobs().is_empty() && self.steps().is_empty()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        for child in [&mut self.slurmd, &mut self.slurmctld, &mut self.munged] {
            signal(child.id(), libc::SIGTERM);
            let mut waits = 0;
            while matches!(child.try_wait(), Ok(None)) && waits < 500 {
                std::thread::sleep(Duration::from_millis(20));
                waits += 1;
            }
            drop(child.kill());
            drop(child.wait());
        }
        // A step whose controller is gone tries for minutes to report its end.
        for step in self.steps() {
            signal(step, libc::SIGKILL);
            wait_for_at_most(PATIENCE, || (!lives(step)).then_some(()));
        }
    }
}

fn has_open_below(process: u32, folder: &Path) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target.starts_with(folder)))
}

fn installed(program: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
    folders.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.exists())
}

/// A child that dies with the thread that started it.
fn daemon(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: prctl takes numbers here and is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    };
    command.spawn().unwrap()
}

fn configuration(folder: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (host, folder) = (host.trim(), folder.display());
    let cpus = std::thread::available_parallelism().unwrap();
    let [ctld, slurmd] = [free_port(), free_port()];
    format!(
        "ClusterName=baremark\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={folder}/munge.socket\n\
         SlurmctldPort={ctld}\nSlurmdPort={slurmd}\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n\
         SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nReturnToService=2\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSchedulerParameters=batch_sched_delay=0\n\
         AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\n\
         SlurmctldTimeout=30\nSlurmdTimeout=15\nKillWait=5\n\
         PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n\
         NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=512 State=UNKNOWN\n\
         PartitionName=work Nodes=node Default=YES MaxTime=60 State=UP PriorityTier=1\n\
         PartitionName=urgent Nodes=node MaxTime=60 State=UP PriorityTier=10\n\
         PartitionName=closed Nodes=node MaxTime=60 State=DOWN\n"
    )
}
