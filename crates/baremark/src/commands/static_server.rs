//! `baremark static`: one web server of the workload `web-farm`.

use super::tend::user_and_group;
use crate::exit::{Exit, Refusal};
use baremark_consolidation::static_server::StaticServer;
use baremark_sys::confine;
use std::io;
use std::net::SocketAddr;

/// What it takes.
#[derive(clap::Args)]
pub struct StaticArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Serve as this user and group
    #[arg(long, value_name = "USER:GROUP", value_parser = user_and_group)]
    user: Option<(u32, u32)>,
}

/// Serves until it is ended. All that it needs is in its memory by then, so that it can be another user, who gets to no file of this one's.
pub fn run(args: &StaticArgs) -> Result<(String, Exit), Refusal> {
    let cannot = |what: &str, why: io::Error| Refusal::failure(format!("{what} {}: {why}", args.listen));
    let server = StaticServer::bind(args.listen).map_err(|why| cannot("listening on", why))?;
    args.user.map_or(Ok(()), confine::become_user).map_err(|why| cannot("giving up the superuser's rights at", why))?;
    server.serve().map_err(|why| cannot("accepting on", why))?;
    Ok((String::new(), Exit::Success))
}
