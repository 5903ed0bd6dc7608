//! `baremark echo`: the other end of the workload `ping-pong`, at another site.

use crate::exit::{Exit, Refusal};
use baremark_model::peer::LISTENING;
use baremark_programs::echo::Echo;
use baremark_programs::small_server::BEGAN;
use baremark_sys::clock::monotonic_ns;
use std::io;
use std::net::SocketAddr;
use std::thread;

/// What it takes.
#[derive(clap::Args)]
pub struct EchoArgs {
    /// Where to listen, TCP and UDP; port 0 takes a free one. Other machines reach only an address that is theirs to reach
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Print the clock first, and end when standard input does (the workload start-up starts it so)
    #[arg(long, hide = true)]
    while_input: bool,
}

/// Serves until it is ended; says first where.
pub fn run(args: &EchoArgs) -> Result<(String, Exit), Refusal> {
    if args.while_input {
        println!("{BEGAN}{}", monotonic_ns());
    }
    let cannot = |what: &str, why: std::io::Error| Refusal::failure(format!("{what} {}: {why}", args.listen));
    let server = Echo::bind(args.listen).map_err(|why| cannot("listening on", why))?;
    println!("{LISTENING}{}", server.address().map_err(|why| cannot("asking for", why))?);
    if args.while_input {
        thread::spawn(move || server.serve());
        // Whatever ends the input, an error too, ends the server.
        drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
        return Ok((String::new(), Exit::Success));
    }
    server.serve().map_err(|why| cannot("accepting on", why))?;
    Ok((String::new(), Exit::Success))
}
