//! The model against published measurements: `cargo run --release -p baremark-mmu --example validate`.
#![allow(clippy::print_stdout, clippy::allow_attributes, reason = "an example prints")]

use baremark_mmu::predict::Effort;
use baremark_mmu::show;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", show::validation(Effort::VALIDATION)?.text);
    Ok(())
}
