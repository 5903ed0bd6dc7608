//! `baremark static`: one web server of the workload `web-farm`.

use crate::exit::{Exit, Refusal};
use baremark_consolidation::static_server::StaticServer;
use std::net::SocketAddr;

/// What it takes.
#[derive(clap::Args)]
pub struct StaticArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
}

/// Serves until it is ended.
pub fn run(args: &StaticArgs) -> Result<(String, Exit), Refusal> {
    let cannot = |what: &str, why: std::io::Error| Refusal::failure(format!("{what} {}: {why}", args.listen));
    let server = StaticServer::bind(args.listen).map_err(|why| cannot("listening on", why))?;
    server.serve().map_err(|why| cannot("accepting on", why))?;
    Ok((String::new(), Exit::Success))
}
