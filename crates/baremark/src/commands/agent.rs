//! `baremark agent`: the program as its own agent. Started by environments, not by people.

use crate::exit::{Exit, Refusal};
use std::io::stdin;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How often an agent whose lab is gone looks whether it is still working for it.
const GLANCE: Duration = Duration::from_millis(50);

/// Serves the lab at the other end of standard input and output.
pub fn run() -> Result<Exit, Refusal> {
    // From here on whatever prints to standard output lands in the log; only frames go to the lab.
    let frames = baremark_sys::process::take_stdout()
        .map_err(|why| Refusal::failure(format!("setting standard output apart for frames: {why}")))?;
    // The lab takes the end of this stream for the end of the agent; it must not come before the last words in the log.
    let mut frames = ManuallyDrop::new(frames);
    let busy = Arc::new(AtomicBool::new(false));
    leave_with_the_lab(Arc::clone(&busy))?;
    baremark_agent::serve::serve(&mut stdin().lock(), &mut *frames, &busy).map_err(Refusal::failure)?;
    Ok(Exit::Success)
}

/// Serves the lab at the other end of a serial port, as the first process of a guest; then the guest is switched off.
pub fn run_guest(port: &Path) -> Result<Exit, Refusal> {
    if std::process::id() != 1 {
        return Err(Refusal::bad_input("--guest is for the first process of a guest; this is not one"));
    }
    match baremark_agent::guest::serve(port) {
        Ok(0) => {}
        Ok(status) => eprintln!("error: the agent ended with status {status}"),
        Err(why) => eprintln!("error: {why}"),
    }
    baremark_sys::guest::power_off().map_err(|why| Refusal::failure(format!("switching the guest off: {why}")))?;
    Ok(Exit::Success)
}

/// Ends this process when the lab is gone and a trial is still running, which nobody can ask for any more. Between trials
/// the end of the input says the same. A lab on this machine also has the kernel do it; one elsewhere cannot.
fn leave_with_the_lab(busy: Arc<AtomicBool>) -> Result<(), Refusal> {
    let watch = move || {
        if baremark_sys::process::wait_for_hang_up_of_stdin().is_err() {
            return;
        }
        while !busy.load(Ordering::Acquire) {
            thread::sleep(GLANCE);
        }
        eprintln!("error: the lab is gone in the middle of a trial");
        #[expect(clippy::exit, reason = "the trial holds the other threads, and there is nobody to return to")]
        std::process::exit(1);
    };
    let started = thread::Builder::new().name("hang-up".to_owned()).spawn(watch);
    started.map(drop).map_err(|why| Refusal::failure(format!("watching for the lab's end: {why}")))
}
