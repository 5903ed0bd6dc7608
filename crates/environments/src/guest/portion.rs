//! What one guest of several that run at once gets.

use baremark_model::site::{Environment, Missing};

/// The least memory with which a guest boots.
const LEAST_MEMORY: u64 = 128 << 20;

/// The environment of one guest of several, made of its own settings; `None` where those are the whole's.
pub(crate) fn environment<S: PartialEq, E: Environment + 'static>(
    whole: &S,
    own: S,
    with: impl FnOnce(S) -> E,
) -> Option<Box<dyn Environment>> {
    (own != *whole).then(|| Box::new(with(own)) as Box<dyn Environment>)
}

/// An equal part of a number of things.
///
/// # Errors
/// That it cannot be divided so, with the remedy.
pub(crate) fn part(what: &str, whole: usize, of: usize) -> Result<usize, Missing> {
    if whole.is_multiple_of(of) {
        return Ok(whole / of);
    }
    let remedy = format!("write a multiple of {of}, or leave {what} out");
    Err(Missing { what: format!("{what} = {whole} cannot be divided among {of} guests"), remedy })
}

/// Its part of a list.
///
/// # Errors
/// That it cannot be divided so, with the remedy.
pub(crate) fn chunk<T: Clone>(what: &str, all: &[T], (index, of): (usize, usize)) -> Result<Vec<T>, Missing> {
    let each = part(what, all.len(), of)?;
    Ok(all[index * each..(index + 1) * each].to_vec())
}

/// Its part of the memory, in bytes.
///
/// # Errors
/// That it is too little for a guest, with the remedy.
pub(crate) fn memory(whole_bytes: u64, of: usize) -> Result<u64, Missing> {
    let bytes = whole_bytes / of as u64;
    if bytes >= LEAST_MEMORY {
        return Ok(bytes);
    }
    let what = format!("memory divided over {of} guests leaves each {} MiB", bytes >> 20);
    Err(Missing { what, remedy: format!("write {} MiB at least", (LEAST_MEMORY >> 20) * of as u64) })
}
