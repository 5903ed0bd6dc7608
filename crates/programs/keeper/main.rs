//! The keeper alone, and what it is started as besides: for tests.

use baremark_programs::{desktop, keeper};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "desktop" => Ok(desktop::main(Path::new("/proc/self/exe"), rest)?),
        _ => Ok(keeper::keep()?),
    }
}
