//! What is asked of Slurm, and how its commands are called.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// How long one of Slurm's commands may take to answer.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// By which of Slurm's commands jobs are submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Launcher {
    /// Interactively: the agent's streams are srun's.
    #[default]
    Srun,
    /// As a batch job, which speaks by files.
    Sbatch,
}

/// What is asked of Slurm; what is `None` is left to its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How jobs are submitted.
    pub launcher: Launcher,
    /// The cluster's slurm.conf.
    pub config: Option<PathBuf>,
    /// The partition.
    pub partition: Option<String>,
    /// Nodes of the job.
    pub nodes: usize,
    /// Tasks of the job; the agent is the first.
    pub ntasks: usize,
    /// CPUs of each task.
    pub cpus: Option<usize>,
    /// The job's time limit; Slurm rounds it up to minutes.
    pub time: Option<Duration>,
    /// Further arguments for the launcher, as they are.
    pub arguments: Vec<String>,
    /// Where batch jobs find their files; all nodes must see it. The working directory when `None`.
    pub folder: Option<PathBuf>,
    /// How long a job may wait in the queue.
    pub pending_limit: Duration,
    /// How long a job may run before its agent is there.
    pub start_limit: Duration,
    /// How long a batch job goes on without a sign of life from the lab.
    pub silence_limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            launcher: Launcher::Srun,
            config: None,
            partition: None,
            nodes: 1,
            ntasks: 1,
            cpus: None,
            time: None,
            arguments: Vec::new(),
            folder: None,
            pending_limit: Duration::from_secs(600),
            start_limit: Duration::from_secs(60),
            silence_limit: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// One of Slurm's commands, outside of any allocation that the lab itself may run in.
    pub(super) fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env_remove("SLURM_JOB_ID").env_remove("SLURM_JOBID");
        if let Some(config) = &self.config {
            command.env("SLURM_CONF", config);
        }
        command
    }

    /// What srun and sbatch are both told.
    pub(super) fn ask(&self, command: &mut Command, job: &str) {
        command.arg(format!("--job-name={job}"));
        command.arg(format!("--nodes={}", self.nodes)).arg(format!("--ntasks={}", self.ntasks));
        if let Some(partition) = &self.partition {
            command.arg(format!("--partition={partition}"));
        }
        if let Some(cpus) = self.cpus {
            command.arg(format!("--cpus-per-task={cpus}"));
        }
        if let Some(time) = self.time {
            command.arg(format!("--time={}", time.as_secs().div_ceil(60)));
        }
        command.args(&self.arguments);
    }
}
