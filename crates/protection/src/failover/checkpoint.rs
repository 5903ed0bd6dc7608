//! A checkpoint as it travels, and as the secondary keeps it.

use super::control::Release;
use crate::encoding::{put, take, take_bytes};
use crate::secondary::{Answer, Copy};
use baremark_guest_program::image::{self, Description};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;

/// A connection that the program has, or a standard stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    pub channel: u64,
    /// Addresses, as the program knows them.
    pub server: String,
    pub client: String,
    /// Bytes that the program has read and written.
    pub consumed: u64,
    pub produced: u64,
    /// Whether the program will send no more.
    pub ended: bool,
}

/// Everything but registers, output and pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub release: Release,
    pub description: Description,
    pub connections: Vec<Connection>,
    /// Ranges that hold something; pages elsewhere are zeros.
    pub present: Vec<(u64, u64)>,
}

/// Writes what comes before the pages.
///
/// # Errors
/// None that is known: all fields are numbers, texts and lists of them.
pub fn write(message: &mut Vec<u8>, head: &Head, registers: &[u8], output: &[u8]) -> io::Result<()> {
    let json = serde_json::to_vec(head)?;
    for part in [json.as_slice(), registers, output] {
        put(message, part.len() as u64);
        message.extend_from_slice(part);
    }
    Ok(())
}

/// The last checkpoint.
#[derive(Debug, Default)]
pub struct Saved {
    pub head: Head,
    registers: Vec<u8>,
    copy: Copy,
}

impl Saved {
    /// Applies a checkpoint; gives the answer to it and its output.
    ///
    /// # Errors
    /// What is no checkpoint.
    pub fn apply<'m>(&mut self, mut message: &'m [u8]) -> io::Result<(Answer, &'m [u8])> {
        let mut part = || {
            let length = take(&mut message)?;
            take_bytes(&mut message, length)
        };
        let (json, registers, output) = (part()?, part()?, part()?);
        let head: Head = serde_json::from_slice(json)?;
        let answer = self.copy.apply(message)?;
        self.copy.keep(&head.present);
        (self.head, self.registers) = (head, registers.to_vec());
        Ok((answer, output))
    }

    /// Writes an image from which a runner continues; `inherited` are the program's ends of its connections.
    ///
    /// # Errors
    /// What writing gives.
    pub fn write_image(&self, file: &File, inherited: Vec<(u64, i32)>) -> io::Result<()> {
        let description = Description { inherited, ..self.head.description.clone() };
        image::write(file, &description, &self.registers, &self.copy.pages())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkpoint of one page with this byte, of which only `present` hold something.
    fn checkpoint(epoch: u64, byte: u8, present: &[(u64, u64)]) -> Vec<u8> {
        let mut message = Vec::new();
        let release = Release { epoch, ..Release::default() };
        let head = Head { release, present: present.to_vec(), ..Head::default() };
        write(&mut message, &head, b"registers", b"out").expect("numbers");
        let mapped = [epoch, 1, 0, 1, 4096, 12288, 1, 4096 * u64::from(byte), 4096 * (u64::from(byte) + 1)];
        mapped.into_iter().for_each(|number| put(&mut message, number));
        message.extend_from_slice(&[byte; 4096]);
        put(&mut message, 0);
        message
    }

    #[test]
    fn the_last_whole_checkpoint_stays_and_given_back_pages_are_forgotten() {
        let mut saved = Saved::default();
        let first = checkpoint(1, 1, &[(4096, 8192)]);
        let (answer, output) = saved.apply(&first).expect("a checkpoint");
        assert_eq!((answer.epoch, output, saved.copy.pages().len()), (1, b"out".as_slice(), 1));
        let second = checkpoint(2, 2, &[(8192, 12288)]);
        saved.apply(&second[..second.len() - 4200]).expect_err("torn");
        saved.apply(&second).expect("a checkpoint");
        assert_eq!((saved.head.release.epoch, saved.registers.as_slice()), (2, b"registers".as_slice()));
        let pages = saved.copy.pages();
        assert_eq!(pages.iter().map(|(address, page)| (*address, page[0])).collect::<Vec<_>>(), [(8192, 2)]);
    }
}
