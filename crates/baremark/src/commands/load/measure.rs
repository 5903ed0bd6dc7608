//! A load in this process, or at sites: prepared, measured, and told.

use crate::exit::Refusal;
use baremark_load::load::LoadError;
use baremark_model::problem::chain;

/// A load that was refused is bad input; one that broke is a failure.
pub(super) fn failed(why: LoadError) -> Refusal {
    let broke = matches!(why, LoadError::Thread(_) | LoadError::Loop(_) | LoadError::Panicked | LoadError::Merge(_));
    if broke { Refusal::failure(chain(&why)) } else { Refusal::bad_input(chain(&why)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use std::io;

    #[test]
    fn what_breaks_is_a_failure_and_what_is_refused_is_bad_input() {
        let refused = LoadError::Refused { what: "0 threads".to_owned(), remedy: "use 1 to 4096" };
        assert_eq!(failed(refused).exit, Exit::BadInput);
        for broken in [LoadError::Loop(io::Error::other("no more")), LoadError::Thread(io::Error::other("no more"))] {
            let told = failed(broken);
            assert_eq!(told.exit, Exit::Failure);
            assert!(told.message.ends_with(": no more"), "{}", told.message);
        }
    }
}
