//! A value that is set, recorded before that, and undone: here of a file of our own in place of one of /proc/sys.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_journal::Journal;
use baremark_journal::value::{self, Values};
use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().canonicalize()?.join("busy_read");
    fs::write(&file, "10\n")?;
    // `Values::system()` for values below /proc/sys and /sys.
    let values = Values::within(folder.path().canonicalize()?);
    let journal = Journal::open(folder.path().join("journal"), vec![Box::new(values)])?;
    journal.recover()?; // what dead owners left
    let held = value::set(&journal, &file, "50")?;
    println!("set: {}", fs::read_to_string(&file)?.trim());
    println!("undone: {:?}", held.undo()?); // or dropped, or by the next start after a kill
    println!("now: {}", fs::read_to_string(&file)?.trim());
    Ok(())
}
