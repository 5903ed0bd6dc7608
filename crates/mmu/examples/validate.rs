//! The model against published measurements: `cargo run --release -p baremark-mmu --example validate`, with a seed after `--`.
#![allow(clippy::print_stdout, clippy::allow_attributes, reason = "an example prints")]

use baremark_mmu::predict::Effort;
use baremark_mmu::show;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(1), |word| word.parse())?;
    print!("{}", show::validation(Effort { seed, ..Effort::VALIDATION })?.text);
    Ok(())
}
