//! A result document as people read it: `show-document FILE`, a file that `baremark run --json` wrote.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_model::document::Document;
use baremark_report::{Style, check_document, summary};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: show-document FILE")?;
    let document: Document = serde_json::from_slice(&std::fs::read(path)?)?;
    print!("{}", summary::render(&document, &Style::default()));
    for violation in check_document::check_exact(&document) {
        println!("{violation}");
    }
    Ok(())
}
