//! What another program measured: `read-results FILE [FORMAT]`, such as a file of `hyperfine --export-json`.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_import::{FORMATS, Options, read};
use std::error::Error;
use std::time::SystemTime;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = words.first() else {
        FORMATS.iter().for_each(|format| println!("{:20} {}", format.name, format.help));
        return Ok(());
    };
    let now_unix_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let options = Options { format: words.get(1).map(String::as_str), columns: &[], now_unix_s };
    let imported = read(&mut std::fs::File::open(path)?, &options)?;
    println!("{} by {}", imported.format, imported.program);
    for of in &imported.measured {
        println!("{} {} in {}: {} values", of.benchmark, of.metric.key, of.metric.unit, of.values.len());
    }
    imported.notes.iter().for_each(|note| println!("note: {note}"));
    Ok(())
}
