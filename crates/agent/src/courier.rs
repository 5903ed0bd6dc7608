//! The agent in a batch job: its frames go by files, as `model::courier` says.
//!
//! The courier is the agent's parent. While the agent measures, it looks at one file ten times a second. It ends the agent
//! when the lab has ended: when its sign of life has not changed for too long, or the folder has been removed.

use baremark_model::courier::{FROM_AGENT, Grown, LAB, TO_AGENT};
use baremark_model::flow_control::READY;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How often the courier looks for something to carry.
const GLANCE: Duration = Duration::from_millis(100);
/// How often it looks for the lab's sign of life.
const PULSE: Duration = Duration::from_secs(1);

/// How the agent in a batch job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Status(i32),
    /// With its lab; the folder is gone as well.
    Abandoned,
}

/// Runs `program agent` and carries its frames by files in `folder` until it ends, or the lab gives no sign of life for
/// `silence`.
///
/// # Errors
/// When the files cannot be opened or the agent cannot be started.
pub fn serve(folder: &Path, silence: Duration) -> io::Result<Ended> {
    let mut answers = File::options().append(true).open(folder.join(FROM_AGENT))?;
    let mut command = Command::new("/proc/self/exe");
    let mut agent = command.arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(to_agent), Some(mut from_agent)) = (agent.stdin.take(), agent.stdout.take()) else {
        return Err(io::Error::from(io::ErrorKind::NotConnected));
    };
    answers.write_all(READY)?;
    let carrier = thread::spawn(move || io::copy(&mut from_agent, &mut answers));
    let asked = Grown::new(folder.join(TO_AGENT));
    thread::spawn(move || carry(asked, to_agent));
    let mut lab = Lab::new(folder.join(LAB));
    loop {
        if let Some(status) = agent.try_wait()? {
            drop(carrier.join());
            return Ok(Ended::Status(status.code().unwrap_or(-1)));
        }
        if lab.silent_for() > silence {
            agent.kill()?;
            agent.wait()?;
            remove(folder);
            return Ok(Ended::Abandoned);
        }
        thread::sleep(GLANCE);
    }
}

/// Removes the folder that the lab made for this job and, around it, that with the lab's lock; what cannot be removed is left
/// to its owner.
fn remove(folder: &Path) {
    drop(fs::remove_dir_all(folder));
    let name = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("baremark-slurm-"));
    if let Some(around) = folder.parent().filter(|around| name(around)) {
        drop(fs::remove_dir_all(around));
    }
}

/// Hands what the lab writes to the agent until either is gone.
fn carry(mut asked: Grown, mut to_agent: ChildStdin) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = asked.read(&mut buffer) {
        if count == 0 {
            thread::sleep(GLANCE);
        } else if to_agent.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

/// The lab's sign of life as it was last seen.
struct Lab {
    file: PathBuf,
    seen: Vec<u8>,
    changed: Instant,
    looked: Instant,
}

impl Lab {
    fn new(file: PathBuf) -> Self {
        Lab { file, seen: Vec::new(), changed: Instant::now(), looked: Instant::now() }
    }

    /// How long the sign has been the same; a sign that is not there does not change either.
    fn silent_for(&mut self) -> Duration {
        if self.looked.elapsed() >= PULSE {
            self.looked = Instant::now();
            match fs::read(&self.file) {
                Ok(sign) if sign != self.seen => {
                    self.seen = sign;
                    self.changed = Instant::now();
                }
                _ => {}
            }
        }
        self.changed.elapsed()
    }
}
