//! `baremark protect`: a program under protection by checkpoints, and the processes that belong to that.

use crate::exit::{Exit, Refusal};
use baremark_protection::failover::{self, conductor, replica};
use baremark_protection::link::Link;
use baremark_protection::primary::{self, Order, ProtectionError};
use baremark_protection::writer::{self, Writes};
use baremark_protection::{End, costs, secondary};
use clap::Args;
use std::ffi::{CString, OsString};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args)]
pub struct ProtectArgs {
    /// Length of an epoch in microseconds; 0 for no protection
    #[arg(long, value_name = "TIME", default_value_t = 20_000)]
    epoch_us: u64,
    /// Rate of the link to the secondary in 10^6 bit/s [default: as sockets give]
    #[arg(long, value_name = "RATE")]
    link_mbit: Option<u64>,
    /// One-way delay of the link in microseconds
    #[arg(long, value_name = "TIME", default_value_t = 0)]
    link_delay_us: u64,
    /// CPUs of the program, such as 0,1 [default: any]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Write what was counted to this file as JSON when the program has ended; - for standard output
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Accept clients here and hold the server's output back until its epoch is acknowledged
    #[arg(long, value_name = "ADDRESS:PORT", requires = "server")]
    listen: Option<SocketAddr>,
    /// Where the program serves
    #[arg(long, value_name = "ADDRESS:PORT", requires = "listen")]
    server: Option<SocketAddr>,
    /// Compare the secondary's copy with the program's memory at each checkpoint
    #[arg(long)]
    compare: bool,
    /// Run the program in the microVM, and continue it from the last acknowledged epoch when its process is lost
    #[arg(long, conflicts_with_all = ["listen", "compare"])]
    failover: bool,
    /// With --failover: replace a primary or secondary that is silent for so many milliseconds; 0 for never [default: 50 epochs, at least 1000]
    #[arg(long, value_name = "TIME", requires = "failover")]
    heartbeat_ms: Option<u64>,
    /// Instead: be a primary or a secondary with failover
    #[arg(long, hide = true)]
    replica: bool,
    /// Instead: be the secondary
    #[arg(long)]
    secondary: bool,
    /// Instead: measure what pages and checkpoints cost here, as JSON; with programs in the microVM by -- baremark guest --
    #[arg(long)]
    costs: bool,
    /// Instead: write so many pages again and again, by each worker
    #[arg(long, value_name = "PAGES")]
    write: Option<usize>,
    /// With --write: pages that were never written before in each pass
    #[arg(long, requires = "write")]
    new: bool,
    /// With --write: further pages, of which each pass reads a byte
    #[arg(long, value_name = "PAGES", default_value_t = 0)]
    held: usize,
    /// With --write: start so many processes first, which wait until the end
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    waiting: usize,
    /// Instead: start so many processes by each worker, one after the other, which end at once
    #[arg(long, value_name = "COUNT")]
    start: Option<u64>,
    /// Instead: wait until standard input ends
    #[arg(long)]
    wait: bool,
    /// With --write: how often
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    passes: u64,
    /// Instead: answer requests here until standard input ends
    #[arg(long, value_name = "ADDRESS:PORT")]
    answer: Option<SocketAddr>,
    /// Instead: keep orders in memory for clients that connect here
    #[arg(long, value_name = "ADDRESS:PORT")]
    count: Option<SocketAddr>,
    /// With --count: threads that serve a client each; with --write, --start and --costs: threads that work
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    workers: usize,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Runs the program, or what is there instead.
pub fn run(args: &ProtectArgs) -> Result<(String, Exit), Refusal> {
    let done = || (String::new(), Exit::Success);
    if args.secondary {
        return secondary::serve().map(|()| done()).map_err(Refusal::failure);
    }
    if args.replica {
        return replica::serve().map(|()| done()).map_err(Refusal::failure);
    }
    if let Some(address) = args.count {
        return writer::count(address, args.workers).map(|()| done()).map_err(Refusal::failure);
    }
    if let Some(pages) = args.write {
        let writes = Writes { pages, passes: args.passes, new: args.new, held: args.held };
        return writer::write(writes, args.workers, args.waiting).map(|()| done()).map_err(Refusal::failure);
    }
    if let Some(count) = args.start {
        return writer::start(count, args.workers).map(|()| done()).map_err(Refusal::failure);
    }
    if args.wait {
        return writer::wait().map(|()| done()).map_err(Refusal::failure);
    }
    if let Some(address) = args.answer {
        return writer::answer(address).map(|()| done()).map_err(Refusal::failure);
    }
    let baremark = std::env::current_exe().map_err(Refusal::failure)?;
    if args.costs {
        let missing = |why: std::io::Error| Refusal { exit: Exit::Missing, message: why.to_string() };
        let costs = costs::measure(&baremark, &args.cpus, args.workers, &args.program).map_err(missing)?;
        return Ok((serde_json::to_string(&costs).map_err(Refusal::failure)? + "\n", Exit::Success));
    }
    if args.failover { fail_over(args, &baremark) } else { protect(args, baremark) }
}

/// Runs the program in the microVM with failover. What happens is reported on standard error.
fn fail_over(args: &ProtectArgs, baremark: &Path) -> Result<(String, Exit), Refusal> {
    if args.program.is_empty() {
        return Err(Refusal::bad_input("no program: name one after --"));
    }
    if args.epoch_us == 0 {
        return Err(Refusal::bad_input("--epoch-us: 0; failover needs epochs, such as 20000"));
    }
    let default = failover::Order::default_heartbeat_ms(args.epoch_us, args.link_delay_us);
    let heartbeat_ms = args.heartbeat_ms.unwrap_or(default);
    let fewest_us = args.epoch_us.saturating_mul(failover::Order::FEWEST_EPOCHS);
    if (1..fewest_us.div_ceil(1000)).contains(&heartbeat_ms) {
        let why = format!("--heartbeat-ms: {heartbeat_ms}; must be at least two epochs, such as {default}");
        return Err(Refusal::bad_input(why));
    }
    let order = failover::Order {
        program: args.program.clone(),
        epoch_us: args.epoch_us,
        link_mbit: args.link_mbit,
        link_delay_us: args.link_delay_us,
        cpus: args.cpus.clone(),
        heartbeat_ms,
    };
    let (code, report) = conductor::run(&order, baremark, &mut |event| eprintln!("{event}"))
        .map_err(|why| Refusal { exit: Exit::Missing, message: why.to_string() })?;
    let json = serde_json::to_string(&report).map_err(Refusal::failure)? + "\n";
    with_stats(args, json, Exit::Program(code))
}

fn protect(args: &ProtectArgs, baremark: PathBuf) -> Result<(String, Exit), Refusal> {
    let word = |word: &OsString| CString::new(word.clone().into_vec()).map_err(Refusal::bad_input);
    let argv = args.program.iter().map(word).collect::<Result<Vec<_>, _>>()?;
    if argv.is_empty() {
        return Err(Refusal::bad_input("no program: name one after --"));
    }
    let order = Order {
        argv,
        cpus: args.cpus.clone(),
        baremark,
        epoch: (args.epoch_us > 0).then(|| Duration::from_micros(args.epoch_us)),
        link: Link { rate_mbit: args.link_mbit, delay: Duration::from_micros(args.link_delay_us), limit: None },
        forward: args.listen.zip(args.server),
        compare: args.compare,
    };
    let (end, report) = primary::run(&order).map_err(|why| match why {
        ProtectionError::Tracking(_) => Refusal { exit: Exit::Missing, message: why.to_string() },
        why => Refusal::failure(why),
    })?;
    let json = serde_json::to_string(&report).map_err(Refusal::failure)? + "\n";
    let exit = Exit::Program(match end {
        End::Exited(code) => code,
        End::Killed(signal) => 128 + signal,
    });
    with_stats(args, json, exit)
}

/// Writes what was counted to the file of `--stats`.
fn with_stats(args: &ProtectArgs, json: String, exit: Exit) -> Result<(String, Exit), Refusal> {
    match &args.stats {
        Some(file) if file.as_os_str() == "-" => return Ok((json, exit)),
        Some(file) => {
            std::fs::write(file, json).map_err(|why| Refusal::failure(format!("writing {}: {why}", file.display())))?
        }
        None => {}
    }
    Ok((String::new(), exit))
}
