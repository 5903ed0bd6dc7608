//! The checksums of the rows that belong to a run, over all that is in them.

use crate::checksum::Checksum;
use crate::run_id::RunId;

/// Of a trial: place, block, cell, start, duration; status and specification; result.
pub(crate) fn trial(run: &RunId, numbers: [i64; 5], texts: [&str; 2], result: Option<&str>) -> u32 {
    let sum = numbers.into_iter().fold(Checksum::of("trial").text(run.as_str()), Checksum::number);
    texts.into_iter().fold(sum, Checksum::text).maybe_text(result).done()
}

/// Of a look: place, blocks, independence; half-width; decision.
pub(crate) fn look(run: &RunId, numbers: [i64; 3], half_width: Option<f64>, decision: &str) -> u32 {
    let sum = numbers.into_iter().fold(Checksum::of("look").text(run.as_str()), Checksum::number);
    sum.maybe_real(half_width).text(decision).done()
}

/// Of what was imported.
pub(crate) fn imported(run: &RunId, seq: i64, program: &str, data: &str) -> u32 {
    Checksum::of("imported").text(run.as_str()).number(seq).text(program).text(data).done()
}

/// Of a second of a load.
pub(crate) fn second(run: &RunId, seq: i64, row: &str) -> u32 {
    Checksum::of("second").text(run.as_str()).number(seq).text(row).done()
}

/// Of a document.
pub(crate) fn document(owner: &RunId, part: &str, text: &str) -> u32 {
    Checksum::of("document").text(owner.as_str()).text(part).text(text).done()
}
