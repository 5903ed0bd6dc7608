//! `baremark echo`: the other end of the workload `ping-pong`, at another site.

use crate::exit::{Exit, Refusal};
use baremark_model::peer::LISTENING;
use baremark_programs::echo::Echo;
use std::net::SocketAddr;

/// What it takes.
#[derive(clap::Args)]
pub struct EchoArgs {
    /// Where to listen, TCP and UDP; port 0 takes a free one. Other machines reach only an address that is theirs to reach
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until it is ended; says first where.
pub fn run(args: &EchoArgs) -> Result<(String, Exit), Refusal> {
    let cannot = |what: &str, why: std::io::Error| Refusal::failure(format!("{what} {}: {why}", args.listen));
    let server = Echo::bind(args.listen).map_err(|why| cannot("listening on", why))?;
    println!("{LISTENING}{}", server.address().map_err(|why| cannot("asking for", why))?);
    server.serve().map_err(|why| cannot("accepting on", why))?;
    Ok((String::new(), Exit::Success))
}
