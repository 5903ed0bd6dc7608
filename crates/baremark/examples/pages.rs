//! Writes the page of each stored document of tests/golden/kinds, of which `scripts/screenshots` makes pictures: `pages FOLDER`.

use baremark_model::document::Document;
use baremark_report::html;
use flate2::read::GzDecoder;
use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let into = PathBuf::from(std::env::args().nth(1).ok_or("usage: pages FOLDER")?);
    fs::create_dir_all(&into)?;
    let kinds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kinds");
    for entry in fs::read_dir(kinds)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().replace(".json.gz", ".html");
        let document: Document = serde_json::from_reader(GzDecoder::new(File::open(&path)?))?;
        fs::write(into.join(name), html::render(&document))?;
    }
    Ok(())
}
