//! `baremark setup`: fetches what environments need and this program cannot carry.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch::say;
use baremark_sys::user_folder;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark setup guest-kernel";

/// Downloads and unpacks a Debian package; takes the folder to fill.
const FETCH_KERNEL: &str = include_str!("../../../../scripts/fetch-kernel");

/// What is fetched.
#[derive(clap::Subcommand)]
pub enum Setup {
    /// Download Debian's kernel for virtual machines, which guests of the environment qemu boot; nothing is installed
    ///
    /// Runs apt-get download and dpkg-deb. A folder that has a kernel already stays as it is.
    #[command(after_help = EXAMPLES)]
    GuestKernel {
        /// Folder to fill [default: baremark/kernel in $XDG_DATA_HOME or ~/.local/share]
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
    },
}

/// Fetches it and prints where it is.
pub fn run(context: &Context, setup: &Setup) -> Result<(String, Exit), Refusal> {
    let Setup::GuestKernel { to } = setup;
    let no_home = || Refusal::bad_input("neither XDG_DATA_HOME nor HOME is set; name the folder with --to FOLDER");
    let folder = to.clone().or_else(user_folder::guest_kernel).ok_or_else(no_home)?;
    let kernel = folder.join("vmlinuz");
    let fetched = !kernel.exists();
    if fetched {
        say(format_args!(
            "Downloading Debian's kernel for virtual machines (apt-get, about 40 MB) to {}",
            folder.display()
        ));
        fetch(&folder)?;
    }
    let kernel = kernel.display();
    let text = match (context.json, fetched) {
        (true, _) => {
            let document = serde_json::json!({
                "format": "baremark-setup/1", "kernel": kernel.to_string(), "downloaded": fetched,
            });
            format!("{document:#}\n")
        }
        (false, true) => format!("Guest kernel: {kernel}\n"),
        (false, false) => format!("Guest kernel: {kernel} (was there already)\n"),
    };
    Ok((text, Exit::Success))
}

fn fetch(folder: &Path) -> Result<(), Refusal> {
    let failed = |what: String| Refusal::failure(format!("fetching a kernel for guests: {what}"));
    // What it says goes to standard error: standard output is the result's.
    let ran = Command::new("sh")
        .args(["-c", &format!("{{ {FETCH_KERNEL}\n}} >&2"), "fetch-kernel"])
        .arg(folder)
        .stdin(Stdio::null())
        .status()
        .map_err(|why| failed(format!("sh: {why}")))?;
    match ran.success() && folder.join("vmlinuz").exists() {
        true => Ok(()),
        false => Err(failed(format!(
            "{ran}; put a bzImage at {} and its modules into modules/ in the same folder, or set kernel = \"FILE\" in [environments.qemu]",
            folder.join("vmlinuz").display()
        ))),
    }
}
