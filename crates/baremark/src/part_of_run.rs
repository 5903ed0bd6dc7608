//! Commands that a run starts, for each of its sites, trials or programs: processes of their own that handle their signals.

use crate::commands::{agent, desktop, guest, keep, nodes, protect, sandbox, shop_front, static_server, supervise};
use crate::exit::{Exit, Refusal};
use clap::Subcommand;
use std::path::PathBuf;
use std::time::Duration;

/// One of them. Help shows `guest` alone, which users start, too.
#[derive(Subcommand)]
pub enum PartOfRun {
    /// Run a command on a node, as ssh does (programs of `nodes` start this)
    #[command(hide = true)]
    Enter(nodes::EnterArgs),
    /// Be one web server of the workload web-farm
    #[command(hide = true)]
    Static(static_server::StaticArgs),
    /// Be the web front of the workload dvd-store
    #[command(hide = true)]
    ShopFront,
    /// Start a container and remove it when it ends or whoever started this does (environments start this)
    #[command(hide = true)]
    Supervise(supervise::SuperviseArgs),
    /// Run a program in a sandbox of this machine's files and end it when whoever started this does (environments start this)
    #[command(hide = true)]
    Sandbox(sandbox::SandboxArgs),
    /// Serve a lab over standard input and output (environments start this)
    #[command(hide = true)]
    Agent {
        /// Be the first process of a guest and serve the lab over this port, a device or vsock:NUMBER
        #[arg(long, value_name = "PORT")]
        guest: Option<PathBuf>,
        /// With --guest: the address of the guest's network card, such as 10.0.2.15/24
        #[arg(long, value_name = "ADDRESS")]
        address: Option<String>,
        /// With --guest: take the root of the host, which the virtio file system of this tag shares
        #[arg(long, value_name = "TAG")]
        host_files: Option<String>,
        /// With --guest: serve no lab, but report about every 10 ms that the guest works, and write so many bytes of its memory each second
        #[arg(long, value_name = "BYTES")]
        beat: Option<u64>,
        /// With --beat: write numbered records to this disk
        #[arg(long, value_name = "DISK")]
        disk: Option<PathBuf>,
        /// Say a line before the first frame, so that what a launcher says is distinguished from it
        #[arg(long)]
        announce: bool,
        /// Serve the lab at this socket, or over standard input and output where it cannot be connected to
        #[arg(long, value_name = "SOCKET", conflicts_with_all = ["guest", "courier"])]
        frames: Option<PathBuf>,
        /// Serve the lab by files in this folder
        #[arg(long, value_name = "FOLDER")]
        courier: Option<PathBuf>,
        /// With --courier: leave when the lab has given no sign of life for so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        silence_limit: u64,
    },
    /// Keep the programs of a workload for the agent at standard input and output (agents start this)
    #[command(hide = true)]
    Keep,
    /// Run a program in the microVM, with the host's kernel behind it
    #[command(after_help = guest::EXAMPLES)]
    Guest(guest::GuestArgs),
    /// Run a program under protection by checkpoints (the workload protection starts this)
    #[command(hide = true)]
    Protect(Box<protect::ProtectArgs>),
    /// Be the users of the workload sessions (agents start this)
    #[command(hide = true)]
    Desktop {
        /// What to be, and with what
        arguments: Vec<String>,
    },
}

impl PartOfRun {
    /// Does its work to the end.
    pub fn run(&self) -> Result<(String, Exit), Refusal> {
        let silent = |exit| (String::new(), exit);
        match self {
            PartOfRun::Agent { guest, address, host_files, beat, disk, announce, frames, courier, silence_limit } => {
                match (guest, beat, courier) {
                    (Some(port), Some(dirty), _) => agent::run_beating(port, *dirty, disk.as_deref()),
                    (Some(port), None, _) => agent::run_guest(port, address.as_deref(), host_files.as_deref()),
                    (None, _, Some(folder)) => agent::run_courier(folder, Duration::from_secs(*silence_limit)),
                    (None, _, None) => agent::run(*announce, frames.as_deref()),
                }
                .map(silent)
            }
            PartOfRun::Keep => keep::run().map(silent),
            PartOfRun::Desktop { arguments } => desktop::run(arguments).map(silent),
            PartOfRun::Guest(args) if args.costs => guest::costs(args),
            PartOfRun::Guest(args) => guest::run(args).map(silent),
            PartOfRun::Protect(args) => protect::run(args),
            PartOfRun::Static(args) => static_server::run(args),
            PartOfRun::ShopFront => shop_front::run(),
            PartOfRun::Enter(args) => nodes::enter(args),
            PartOfRun::Supervise(args) => supervise::run(args),
            PartOfRun::Sandbox(args) => sandbox::run(args),
        }
    }
}
