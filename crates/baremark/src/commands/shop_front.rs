//! `baremark shop-front`: the web front of the workload `dvd-store`, whose order comes by standard input.

use crate::exit::{Exit, Refusal};
use baremark_databases::dvd_store::browser::{FAILED, LISTENING};
use baremark_databases::dvd_store::front;
use std::io::{BufRead as _, Write as _};

/// Serves until standard input ends.
pub fn run() -> Result<(String, Exit), Refusal> {
    let mut order = String::new();
    std::io::stdin().lock().read_line(&mut order).map_err(Refusal::failure)?;
    let said = match front::serve(&order) {
        Ok(address) => format!("{LISTENING}{address}\n"),
        // Whoever starts it reads its output alone.
        Err(why) => return Ok((format!("{FAILED}{why}\n"), Exit::Failure)),
    };
    std::io::stdout().write_all(said.as_bytes()).map_err(Refusal::failure)?;
    baremark_sys::process::wait_for_hang_up_of_stdin().map_err(Refusal::failure)?;
    Ok((String::new(), Exit::Success))
}
