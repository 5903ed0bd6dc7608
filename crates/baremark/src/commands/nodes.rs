//! `baremark nodes`: a program over several network namespaces, as over the machines of a cluster.
//!
//! Every link between them runs through the delay of this process, or through netem, zero included, so that runs with and without an added delay
//! differ by it alone. The round trip is measured before the program starts. `baremark enter` is what programs call in place of ssh.

use super::tend;
use crate::changes;
use crate::exit::{Exit, Refusal};
use crate::watch;
use baremark_delay::{Delay, Links};
use baremark_model::units::Nanos;
use baremark_networks::round_trip::{self, RoundTrip};
use baremark_networks::{Network, Node};
use baremark_sys::confine::{self, Limits, SIGKILL};
use baremark_sys::supervisor::{self, Half};
use baremark_sys::{namespace, subreaper};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub const EXAMPLES: &str = "\
Examples:
  baremark nodes -- iperf3 -c {host2}
  baremark nodes --count 4 --round-trip 500us -- mpirun --host {hosts} ./prog";

/// The nodes in the environment of their programs: addresses and files of namespaces.
const NODES: &str = "BAREMARK_NODES";
/// Exchanges that are measured before the program.
const EXCHANGES: usize = 200;
const GLANCE: Duration = Duration::from_millis(5);
/// How long processes that were killed may take to be gone.
const END_LIMIT: Duration = Duration::from_secs(8);

/// What it takes.
#[derive(clap::Args)]
pub struct NodesArgs {
    /// Number of namespaces
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=200))]
    count: u32,
    /// Round trip to add between any two of them, half of it in each direction
    #[arg(long, value_name = "TIME", default_value = "0s")]
    round_trip: Nanos,
    /// Draw the delay in each direction evenly from half of the round trip ± TIME
    #[arg(long, value_name = "TIME", default_value = "0s")]
    jitter: Nanos,
    /// What delays the links: this program, or the kernel's netem
    #[arg(long, value_enum, value_name = "WHAT", default_value = "program")]
    delay_by: DelayBy,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    program: Vec<String>,
}

/// What delays links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DelayBy {
    /// A thread of this program
    Program,
    /// netem, a queueing discipline of the kernel
    Netem,
}

/// What `enter` takes.
#[derive(clap::Args)]
pub struct EnterArgs {
    /// Address of the node
    node: Ipv4Addr,
    /// The command, for a shell
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

/// Nodes and what carries their frames, which ends before them; netem carries them in the kernel.
struct Cluster {
    links: Option<Links>,
    nodes: Vec<Node>,
    network: Network,
    requested: Duration,
}

/// Runs the program and ends as it ended.
pub fn run(args: &NodesArgs, interrupt: &AtomicBool) -> Result<(String, Exit), Refusal> {
    let most = Nanos(args.round_trip.0 / 2);
    if args.jitter.0 > most.0 {
        let what = format!("--jitter {} is more than half of --round-trip {}", args.jitter, args.round_trip);
        return Err(Refusal::bad_input(format!("{what}; write at most {most}")));
    }
    let guard = match supervisor::divide().map_err(Refusal::failure)? {
        Half::Guard(status) => return tend::end_as(status),
        Half::Worker(guard) => guard,
    };
    let alone = Arc::new(AtomicBool::new(false));
    let by_guard = Arc::clone(&alone);
    thread::spawn(move || {
        guard.wait_for_its_end();
        by_guard.store(true, Ordering::Relaxed);
    });
    changes::recover_and_say()?;
    let cluster = Cluster::new(args).map_err(|message| Refusal { exit: Exit::Missing, message })?;
    let first = &cluster.nodes[0];
    let measured = round_trip::measure(first, &cluster.nodes[1], EXCHANGES).map_err(Refusal::failure)?;
    let command = || cluster.command(&args.program);
    let ended = first.namespace.run(|| carried_out(command()?, interrupt, &alone)).map_err(Refusal::failure)?;
    subreaper::end_all_but(&[], END_LIMIT)
        .map_err(|why| Refusal::failure(format!("ending remaining processes: {why}")))?;
    watch::say(cluster.report(&measured));
    let status = ended?;
    Ok((String::new(), Exit::Program(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))))
}

impl Cluster {
    fn new(args: &NodesArgs) -> Result<Cluster, String> {
        let journal = changes::journal().map_err(|why| why.to_string())?;
        let network = Network::with_room(&journal, args.count).map_err(|why| why.to_string())?;
        let requested = Duration::from_nanos(args.round_trip.0);
        let delay = Delay { one_way: requested / 2, jitter: Duration::from_nanos(args.jitter.0), ..Delay::default() };
        let count = usize::try_from(args.count).map_err(|why| why.to_string())?;
        let made = match args.delay_by {
            DelayBy::Program => network.delayed_namespaces(count, delay).map(|(nodes, links)| (nodes, Some(links))),
            DelayBy::Netem => network.netem_namespaces(count, delay).map(|nodes| (nodes, None)),
        };
        let (nodes, links) = made.map_err(|why| why.to_string())?;
        Ok(Cluster { links, nodes, network, requested })
    }

    /// The program with its placeholders filled.
    fn command(&self, program: &[String]) -> Result<Command, Refusal> {
        let own = std::env::current_exe().map_err(|why| Refusal::failure(format!("finding this program: {why}")))?;
        let hosts: Vec<String> = self.nodes.iter().map(|node| node.address.to_string()).collect();
        let mut given = vec![
            ("{hosts}".to_owned(), hosts.join(",")),
            ("{subnet}".to_owned(), self.network.subnet()),
            ("{launch}".to_owned(), format!("{} enter", own.display())),
        ];
        given.extend((1..).zip(&hosts).map(|(number, host)| (format!("{{host{number}}}"), host.clone())));
        let fill = |word: &String| given.iter().fold(word.clone(), |word, (name, text)| word.replace(name, text));
        let mut words = program.iter().map(fill);
        let mut command =
            Command::new(words.next().ok_or_else(|| Refusal::bad_input("no program: name one after --"))?);
        let entry = |node: &Node| format!("{}={}", node.address, node.namespace.path().display());
        let nodes: Vec<String> = self.nodes.iter().map(entry).collect();
        command.args(words).env(NODES, nodes.join(" "));
        Ok(command)
    }

    fn report(&self, measured: &RoundTrip) -> String {
        let us = |time: Duration| format!("{:.1} us", time.as_secs_f64() * 1e6);
        let carried = self.links.as_ref().map_or_else(
            || "delayed by netem".to_owned(),
            |links| {
                let carried = links.report();
                let held =
                    carried.median.map_or_else(String::new, |median| format!(", held for {} (median)", us(median)));
                format!("{} frames carried{held}, {} lost", carried.chunks, carried.dropped)
            },
        );
        format!(
            "round trip between nodes: {} measured (median of {}; p90 {}), {} added on request; {carried}",
            us(measured.median),
            measured.count,
            us(measured.p90),
            us(self.requested),
        )
    }
}

/// Runs the program from this thread, in whose namespace it is, and waits for its end. An interrupt is handed on; it is killed when this process is
/// alone, without its guard.
fn carried_out(mut command: Command, interrupt: &AtomicBool, alone: &AtomicBool) -> Result<ExitStatus, Refusal> {
    let _held = confine::hold(&mut command, &Limits::default(), SIGKILL).map_err(Refusal::failure)?;
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child =
        subreaper::start(&mut command).map_err(|why| Refusal::failure(format!("starting {name}: {why}")))?;
    tend::wait_for(&mut child, (interrupt, alone), GLANCE)
}

/// Becomes a shell with the command on a node.
pub fn enter(args: &EnterArgs) -> Result<(String, Exit), Refusal> {
    let nodes = std::env::var(NODES).unwrap_or_default();
    let wanted = format!("{}=", args.node);
    let path = nodes.split(' ').find_map(|node| node.strip_prefix(&wanted)).ok_or_else(|| {
        Refusal::bad_input(format!("no node {}; `enter` runs below `baremark nodes` alone", args.node))
    })?;
    let entered = File::open(path).and_then(namespace::enter_network);
    entered.map_err(|why| Refusal::failure(format!("entering the network of {path}: {why}")))?;
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(args.command.join(" "));
    Err(Refusal::failure(format!("starting sh: {}", shell.exec())))
}
