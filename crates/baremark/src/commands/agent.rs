//! `baremark agent`: the program as its own agent. Started by environments, not by people.

use crate::exit::{Exit, Refusal};
use baremark_agent::courier::Ended;
use baremark_agent::guest::Guest;
use baremark_agent::interrupt::Interrupt;
use baremark_agent::serve::{Means, serve};
use baremark_model::flow_control::READY;
use std::fs::File;
use std::io::{BufReader, Write, stdin};
use std::mem::ManuallyDrop;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Where launchers say which of their processes one is; the nearest launcher first, for Open MPI may run inside Slurm.
const RANKS: &[&str] = &["OMPI_COMM_WORLD_RANK", "SLURM_PROCID"];
/// How long a job whose lab is gone may take to stop and remove what it has made.
const CLEAN_UP_LIMIT: Duration = Duration::from_secs(15);

/// Serves the lab at the other end of standard input and output; says so first where others may speak there too. With a socket the lab listens at that, unless nobody
/// can be reached through it.
pub fn run(announce: bool, socket: Option<&Path>) -> Result<Exit, Refusal> {
    if announce && rank() > 0 {
        return Ok(Exit::Success);
    }
    let connected = socket.map(UnixStream::connect).and_then(Result::ok);
    let announce = announce || (socket.is_some() && connected.is_none());
    // From here on whatever prints to standard output lands in the log; only frames go to the lab.
    let frames = baremark_sys::process::take_stdout()
        .map_err(|why| Refusal::failure(format!("reserving standard output for frames: {why}")))?;
    let (input, frames) = match connected {
        None => (stdin().as_fd().try_clone_to_owned(), frames),
        Some(socket) => (socket.try_clone().map(OwnedFd::from), File::from(OwnedFd::from(socket))),
    };
    let input = input.map_err(|why| Refusal::failure(format!("reading frames: {why}")))?;
    // The lab takes the end of this stream for the end of the agent; it must not come before the last words in the log.
    let mut frames = ManuallyDrop::new(frames);
    if announce {
        let said = frames.write_all(READY).and_then(|()| frames.flush());
        said.map_err(|why| Refusal::failure(format!("telling the lab that the agent is there: {why}")))?;
    }
    // At a site elsewhere no other command of this program may ever be started.
    crate::changes::recover_in_passing();
    let interrupt = Arc::new(Interrupt::default());
    leave_with_the_lab(Arc::clone(&interrupt))?;
    let means =
        Means { runners: crate::kinds::RUNNERS, interrupt: &interrupt, tender: Some(Path::new("/proc/self/exe")) };
    serve(&mut BufReader::new(File::from(input)), &mut *frames, means).map_err(Refusal::failure)?;
    Ok(Exit::Success)
}

/// Serves the lab at the other end of a serial port, as the first process of a guest; then the guest is switched off.
pub fn run_guest(port: &Path, address: Option<&str>, host_files: Option<&str>) -> Result<Exit, Refusal> {
    is_first_process()?;
    let address = address.map(parsed).transpose()?;
    match baremark_agent::guest::serve(port, Guest { address, host_files }) {
        Ok(0) => {}
        Ok(status) => eprintln!("error: the agent ended with status {status}"),
        Err(why) => eprintln!("error: {why}"),
    }
    power_off()
}

/// Says over a port that the guest works, as its first process, until something fails; then the guest is switched off.
pub fn run_beating(port: &Path, dirty_per_s: u64, disk: Option<&Path>) -> Result<Exit, Refusal> {
    is_first_process()?;
    if let Err(why) = baremark_agent::guest::beat(port, dirty_per_s, disk) {
        eprintln!("error: {why}");
    }
    power_off()
}

fn is_first_process() -> Result<(), Refusal> {
    if std::process::id() == 1 {
        return Ok(());
    }
    Err(Refusal::bad_input("--guest is for the first process of a guest; this is not one"))
}

fn power_off() -> Result<Exit, Refusal> {
    baremark_sys::guest::power_off().map_err(|why| Refusal::failure(format!("switching the guest off: {why}")))?;
    Ok(Exit::Success)
}

/// An address and its prefix length.
fn parsed(text: &str) -> Result<(Ipv4Addr, u32), Refusal> {
    let parts = text.split_once('/').and_then(|(address, prefix)| Some((address.parse().ok()?, prefix.parse().ok()?)));
    let parts = parts.filter(|(_, prefix)| *prefix <= 32);
    parts.ok_or_else(|| {
        Refusal::bad_input(format!("'{text}' is not an address with a prefix length, such as 10.0.2.15/24"))
    })
}

/// This process's place among all that one launcher has started.
fn rank() -> u64 {
    let told = |name| std::env::var(name).ok()?.parse().ok();
    RANKS.iter().find_map(told).unwrap_or(0)
}

/// Serves the lab by files, in a batch job.
pub fn run_courier(folder: &Path, silence: Duration) -> Result<Exit, Refusal> {
    match baremark_agent::courier::serve(folder, silence) {
        Ok(Ended::Status(0)) => Ok(Exit::Success),
        Ok(Ended::Status(status)) => Err(Refusal::failure(format!("the agent ended with status {status}"))),
        Ok(Ended::Abandoned) => {
            Err(Refusal::failure(format!("the lab has given no sign of life for {} s", silence.as_secs())))
        }
        Err(why) => Err(Refusal::failure(format!("serving by files in {}: {why}", folder.display()))),
    }
}

/// Ends this process when the lab has ended and a trial is still running, which nobody can ask for any more; a job that cleans up
/// has time to do so. Between trials the end of the input says the same. A lab on this machine also has the kernel do it; one elsewhere cannot.
fn leave_with_the_lab(interrupt: Arc<Interrupt>) -> Result<(), Refusal> {
    let watch = move || {
        if baremark_sys::process::wait_for_hang_up_of_stdin().is_err() {
            return;
        }
        interrupt.wait_for_a_trial_that_goes_on(CLEAN_UP_LIMIT);
        eprintln!("error: the lab ended during a trial");
        #[expect(clippy::exit, reason = "other threads are inside the trial and no caller is left")]
        std::process::exit(1);
    };
    let started = thread::Builder::new().name("hang-up".to_owned()).spawn(watch);
    started.map(drop).map_err(|why| Refusal::failure(format!("watching for the lab's end: {why}")))
}
