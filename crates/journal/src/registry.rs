//! What crates below this one make outside of the process, recorded as changes: [`baremark_sys::registry`] leads here.

use crate::error::MakeError;
use crate::journal::{Held, Journal};
use crate::{file, group, suspended};
use baremark_sys::registry::{Made, Record};
use std::convert::Infallible;
use std::io;

impl Record for Held {
    fn gone(self: Box<Self>) {
        // What cannot be written is found absent by the next recovery.
        drop(Held::gone(*self));
    }
}

impl Journal {
    /// Records what is about to be made.
    ///
    /// # Errors
    /// When it has a name that baremark does not make, or cannot be recorded, as [`JournalError`](crate::JournalError) says.
    pub fn record(&self, made: Made<'_>) -> io::Result<Box<dyn Record>> {
        let change = match made {
            Made::Folder(path) => file::change(path)?,
            Made::Group { path, offers_memory } => group::change(path, offers_memory)?,
            Made::Suspended { processes, namespace } => suspended::change(processes, namespace)?,
        };
        match self.make(change, || Ok::<_, Infallible>(())) {
            Ok(((), held)) => Ok(Box::new(held)),
            Err(MakeError::Journal(why)) => Err(why.into()),
            Err(MakeError::Change(never)) => match never {},
        }
    }
}
