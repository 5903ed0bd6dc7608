//! Reads nothing: what observing costs when nothing is observed.

use baremark_model::observer::{Absence, Observer, Readings};

pub(crate) struct Null;

impl Observer for Null {
    fn start(&mut self) -> Result<(), Absence> {
        Ok(())
    }

    fn read(&mut self, _into: &mut Readings) -> Result<(), Absence> {
        Ok(())
    }
}
