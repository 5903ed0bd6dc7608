//! A run as one file, and what becomes of a file that somebody has changed.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_bundle::{Bundle, BundleError, NAMES, REDERIVE, Redactor, pack, unpack};

fn main() -> Result<(), BundleError> {
    let mut redactor = Redactor::new(&["db17".to_owned()]);
    let report = redactor.text("measured on db17, data in /home/ada/data, peer 192.0.2.7");
    println!("redacted: {report}");
    let [run, trials, result] = ["{}", "[]", "{}"].map(|text| text.as_bytes().to_vec());
    let bundle = Bundle { script: REDERIVE.into(), run, trials, result, report: report.into_bytes(), signature: None };
    let packed = pack(&bundle)?;
    println!("{} files, {} bytes", NAMES.len(), packed.len());
    println!("unpacked as it was: {}", unpack(packed.as_slice())? == bundle);
    if let Err(why) = unpack(&packed[..packed.len() / 2]) {
        println!("refused: {why}");
    }
    Ok(())
}
