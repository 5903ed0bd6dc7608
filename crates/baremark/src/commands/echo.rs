//! `baremark echo`: the other end of the workload `ping-pong`, at another site.

use crate::exit::{Exit, Refusal};
use baremark_model::peer::LISTENING;
use baremark_programs::echo::Echo;
use baremark_programs::small_server::{ANSWERED, ASK, BEGAN, Client, UNANSWERED};
use baremark_sys::clock::monotonic_ns;
use baremark_sys::guest;
use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::thread;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark echo --listen 192.0.2.7:7000";

/// What it takes.
#[derive(clap::Args)]
pub struct EchoArgs {
    /// Address to listen on, TCP and UDP; port 0 takes a free one. Name an address of this machine that the other reaches
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Print the clock first, and end when standard input does (the workload start-up starts it so)
    #[arg(long, hide = true)]
    while_input: bool,
    /// Run as the first process of a guest whose console is the standard input and output
    #[arg(long, hide = true, requires = "while_input")]
    guest: bool,
}

/// Serves until it is ended; says first where.
pub fn run(args: &EchoArgs) -> Result<(String, Exit), Refusal> {
    if args.while_input {
        println!("{BEGAN}{}", monotonic_ns());
    }
    if args.guest {
        set_up_guest().map_err(|why| Refusal::failure(format!("setting up the guest: {why}")))?;
    }
    let cannot = |what: &str, why: io::Error| Refusal::failure(format!("{what} {}: {why}", args.listen));
    let server = Echo::bind(args.listen).map_err(|why| cannot("listening on", why))?;
    let address = server.address().map_err(|why| cannot("asking for", why))?;
    println!("{LISTENING}{address}");
    if args.while_input {
        thread::spawn(move || server.serve());
        // Whatever ends the input or the output, an error too, ends the server.
        drop(ask_itself(address));
        return Ok((String::new(), Exit::Success));
    }
    server.serve()
}

/// The loopback interface is up, and the console passes bytes as they are.
fn set_up_guest() -> io::Result<()> {
    guest::set_up_interface("lo", Ipv4Addr::LOCALHOST, 8)?;
    guest::open_raw(Path::new("/dev/console")).map(drop)
}

/// For each line that asks for it, makes a request to this server and prints its answer's number.
fn ask_itself(address: SocketAddr) -> io::Result<()> {
    let mut client = None;
    let mut request = || {
        let client = match &mut client {
            Some(client) => client,
            none => none.insert(Client::open(address)?),
        };
        client.request()
    };
    for line in io::stdin().lock().lines() {
        if line?.trim() == ASK {
            let answer =
                request().map_or_else(|why| format!("{UNANSWERED}{why}"), |number| format!("{ANSWERED}{number}"));
            writeln!(io::stdout(), "{answer}")?;
        }
    }
    Ok(())
}
