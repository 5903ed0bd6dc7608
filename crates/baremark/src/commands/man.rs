//! `baremark man`: the manual pages, written from the same table as the command line.

use crate::exit::{Exit, Refusal};
use clap::Command;
use clap_mangen::Man;
use std::path::Path;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark man                          # the page of all
  baremark man --to /usr/share/man/man1";

/// The page of the whole program as roff; with `folder`, one page there for each command as well, and their names.
pub fn run(mut command: Command, folder: Option<&Path>) -> Result<(String, Exit), Refusal> {
    command.build();
    let Some(folder) = folder else {
        return Ok((page(&command)?, Exit::Success));
    };
    let mut written = String::new();
    let commands = command.get_subcommands().filter(|of| !of.is_hide_set() && of.get_name() != "help");
    for of in std::iter::once(&command).chain(commands) {
        let name = of.get_display_name().unwrap_or_else(|| of.get_name());
        let file = folder.join(format!("{name}.1"));
        std::fs::write(&file, page(of)?)
            .map_err(|why| Refusal::failure(format!("writing {}: {why}", file.display())))?;
        written.push_str(&format!("{}\n", file.display()));
    }
    Ok((written, Exit::Success))
}

fn page(command: &Command) -> Result<String, Refusal> {
    let mut roff = Vec::new();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    Man::new(command.clone()).title(name).render(&mut roff).map_err(Refusal::failure)?;
    String::from_utf8(roff).map_err(Refusal::failure)
}
