//! Batch jobs, which have no streams: the agent speaks by files.
//!
//! A folder that all nodes see holds the program, a script of one line, two files that only grow (one each way), the job's
//! log and the lab's sign of life. A courier in the job carries the files' bytes from and to the agent; it ends the agent
//! when the lab gives no sign of life for too long, and removes the folder. Files are opened anew for every look, so that a
//! network file system shows what the other side has written.

use super::job::{Job, Watched};
use super::{NotThere, Settings, Slurm};
use crate::child;
use crate::folder::Folder;
use crate::ready_line::agent_in;
use baremark_model::courier::{FROM_AGENT, Grown, LAB, TO_AGENT};
use baremark_model::site::{Link, Site, SiteError};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The whole batch script: its arguments are the program and what it is told, so that nothing is ever quoted.
const SCRIPT: &str = "#!/bin/sh\nexec \"$@\"\n";
/// How long the submission may take.
const SUBMIT_LIMIT: Duration = Duration::from_secs(30);
/// How often the lab gives a sign of life.
const BEAT: Duration = Duration::from_secs(1);
/// How often the lab looks for new bytes.
const GLANCE: Duration = Duration::from_millis(20);
/// How long nothing may come before the queue is asked whether the job has ended.
const QUIET: Duration = Duration::from_secs(3);
/// Lines of the log that are shown.
const LOG_LINES: usize = 20;
/// Bytes of the log that are read for them.
const LOG_BYTES: u64 = 16 << 10;

impl Slurm {
    pub(super) fn batch(&self, interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        let settings = &self.settings;
        let parent = match &settings.folder {
            Some(folder) => folder.clone(),
            None => std::env::current_dir().map_err(SiteError::io("asking for the working directory"))?,
        };
        let folder = Folder::create_in(&parent, "slurm")?;
        let inner = folder.inner();
        self.fill(&inner).map_err(SiteError::io(format!("preparing {}", inner.display())))?;
        let heart = Heart::beat(inner.join(LAB));
        let job = Arc::new(Job::new(settings));
        self.submit(&job, &inner)?;
        let stopped = Arc::new(AtomicBool::new(false));
        let from = FromJob {
            grown: Grown::new(inner.join(FROM_AGENT)),
            job: Arc::clone(&job),
            watched: Watched::default(),
            stopped: Arc::clone(&stopped),
            last: Instant::now(),
        };
        let mut site = BatchSite { job, stopped, link: None, said: Vec::new(), gone: false, _heart: heart, folder };
        match self.wait_for_agent(&site.job, &agent_in(from), interrupt) {
            Ok(from_agent) => {
                let to_agent = File::options()
                    .append(true)
                    .open(inner.join(TO_AGENT))
                    .map_err(SiteError::io("opening the file to the agent"))?;
                site.link = Some(Link { from_agent, to_agent: Box::new(to_agent) });
                Ok(Box::new(site))
            }
            Err(NotThere::Other(why)) => Err(why),
            Err(NotThere::Because(what)) => {
                site.kill();
                Err(SiteError::NotReady { what, log: site.log() })
            }
        }
    }

    fn fill(&self, folder: &Path) -> io::Result<()> {
        fs::copy(&self.program, folder.join("baremark"))?;
        fs::write(folder.join("script"), SCRIPT)?;
        fs::set_permissions(folder.join("baremark"), fs::Permissions::from_mode(0o700))?;
        File::create(folder.join(TO_AGENT))?;
        File::create(folder.join(FROM_AGENT))?;
        Ok(())
    }

    fn submit(&self, job: &Job, folder: &Path) -> Result<(), SiteError> {
        let settings: &Settings = &self.settings;
        let mut sbatch = settings.tool("sbatch");
        sbatch.args(["--quiet", "--no-requeue", "--input=/dev/null", "--open-mode=append"]);
        let mut log = std::ffi::OsString::from("--output=");
        log.push(folder.join("log"));
        sbatch.arg(log);
        settings.ask(&mut sbatch, job.name());
        sbatch.arg(folder.join("script")).arg(folder.join("baremark"));
        sbatch.args(["agent", "--courier"]).arg(folder);
        sbatch.arg(format!("--silence-limit={}", settings.silence_limit.as_secs()));
        let ran = child::run(&mut sbatch, SUBMIT_LIMIT)?;
        if ran.well() {
            return Ok(());
        }
        Err(SiteError::NotReady { what: "sbatch refused the job".to_owned(), log: ran.said })
    }
}

/// The lab's sign of life, on a thread of its own; it stops with this.
struct Heart {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    fn beat(file: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let new = file.with_extension("new");
            for count in 0_u64.. {
                // A beat that a full disk swallows is made good by the next.
                drop(fs::write(&new, count.to_string()).and_then(|()| fs::rename(&new, &file)));
                let until = Instant::now() + BEAT;
                while Instant::now() < until {
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    thread::sleep(GLANCE);
                }
            }
        });
        Heart { stop, thread: Some(thread) }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// What the job writes, until it has ended and nothing more is there.
struct FromJob {
    grown: Grown,
    job: Arc<Job>,
    watched: Watched,
    stopped: Arc<AtomicBool>,
    last: Instant,
}

impl Read for FromJob {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // Asked before the last look at the file, so that a job's last words are not missed.
            let stopped = self.stopped.load(Ordering::Relaxed);
            let ended = self.last.elapsed() > QUIET && {
                self.last = Instant::now();
                let look = self.job.look();
                self.watched.has_ended(look.as_ref(), self.last)
            };
            match self.grown.read(buffer) {
                Ok(0) if stopped || ended => return Ok(0),
                Ok(0) => thread::sleep(GLANCE),
                Ok(count) => {
                    self.last = Instant::now();
                    return Ok(count);
                }
                Err(why) if stopped && why.kind() == io::ErrorKind::NotFound => return Ok(0),
                Err(why) => return Err(why),
            }
        }
    }
}

struct BatchSite {
    job: Arc<Job>,
    stopped: Arc<AtomicBool>,
    link: Option<Link>,
    said: Vec<String>,
    gone: bool,
    _heart: Heart,
    folder: Folder,
}

impl Site for BatchSite {
    fn link(&mut self) -> Option<Link> {
        self.link.take()
    }

    fn kill(&mut self) {
        if self.gone {
            return;
        }
        self.gone = true;
        let look = self.job.look();
        if look.as_ref().is_none_or(|look| !look.ended()) {
            self.job.cancel();
            self.job.wait_until_gone();
        }
        self.said = self.log();
        self.said.extend(look.map(|look| format!("Slurm says: {look}")));
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn log(&self) -> Vec<String> {
        if self.said.is_empty() { last_lines(&self.folder.inner().join("log")) } else { self.said.clone() }
    }
}

impl Drop for BatchSite {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a file, of which only the end is read.
fn last_lines(file: &Path) -> Vec<String> {
    let read = || {
        let mut file = File::open(file)?;
        let length = file.metadata()?.len();
        io::Seek::seek(&mut file, io::SeekFrom::Start(length.saturating_sub(LOG_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES).read_to_end(&mut bytes)?;
        io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| (*line).to_owned()).collect()
}
