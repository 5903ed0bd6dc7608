//! The secondary: a process that keeps a copy of a program's memory, by processes and pages.
//!
//! A checkpoint is applied when all of it has arrived, and acknowledged after that, so that the copy is always one of an epoch's end.

use crate::encoding::{digest, put, read, take, take_bytes};
use baremark_sys::dirty_pages::PAGE;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

/// Bytes of an acknowledgement.
pub const ANSWER: usize = 24;
/// In place of a number of mapped ranges: they are as they were.
pub(crate) const UNCHANGED: u64 = u64::MAX;

/// What a secondary says of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The epoch that it has applied.
    pub epoch: u64,
    /// Pages that it holds.
    pub pages: u64,
    /// Of the pages that were to be compared: the sum of their digests.
    pub digest: u64,
}

impl Answer {
    pub(crate) fn of(bytes: &[u8; ANSWER]) -> Answer {
        let number = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        Answer { epoch: number(0), pages: number(8), digest: number(16) }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ANSWER);
        [self.epoch, self.pages, self.digest].into_iter().for_each(|number| put(&mut bytes, number));
        bytes
    }
}

type Page = Box<[u8]>;

/// The copy.
#[derive(Debug, Default)]
pub(crate) struct Copy {
    processes: HashMap<u64, HashMap<u64, Page>>,
}

/// Says on standard output where it listens, serves one primary, and ends with it or with standard input.
///
/// # Errors
/// What sockets give; `InvalidData` for what is no checkpoint.
pub fn serve() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut output = io::stdout().lock();
    writeln!(output, "{}", listener.local_addr()?)?;
    output.flush()?;
    drop(output);
    let address = listener.local_addr()?;
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        // Nothing is ever written there: it is the end that counts.
        drop(io::stdin().lock().read_to_end(&mut Vec::new()));
        drop(stop);
        // Wakes one that nobody has connected to.
        drop(TcpStream::connect(address));
    });
    let (stream, _) = listener.accept()?;
    if let Err(std::sync::mpsc::TryRecvError::Disconnected) = stopped.try_recv() {
        return Ok(());
    }
    stream.set_nodelay(true)?;
    follow(stream)
}

fn follow(mut primary: TcpStream) -> io::Result<()> {
    let mut copy = Copy::default();
    let mut message = Vec::new();
    while read(&mut primary, &mut message)? {
        let answer = copy.apply(&message)?;
        primary.write_all(&answer.bytes())?;
    }
    Ok(())
}

impl Copy {
    /// Applies a checkpoint: its epoch, then of each process its number, what is mapped, the ranges that were written with their bytes,
    /// and the ranges to be compared. Processes that are not named are gone.
    pub(crate) fn apply(&mut self, mut message: &[u8]) -> io::Result<Answer> {
        let message = &mut message;
        let epoch = take(message)?;
        let mut sum = 0_u64;
        let mut processes = HashMap::new();
        for _ in 0..take(message)? {
            let id = take(message)?;
            let mut pages = self.processes.remove(&id).unwrap_or_default();
            let mapped = take(message)?;
            if mapped != UNCHANGED {
                let mapped = ranges(message, mapped)?;
                pages.retain(|page, _| is_in(&mapped, *page));
            }
            let written = take(message)?;
            for (start, end) in ranges(message, written)? {
                let bytes = take_bytes(message, end - start)?;
                for (address, page) in (start..end).step_by(4096).zip(bytes.chunks_exact(4096)) {
                    pages.entry(address).or_insert_with(|| vec![0; 4096].into()).copy_from_slice(page);
                }
            }
            let compared = take(message)?;
            for (start, end) in ranges(message, compared)? {
                let digests = (start..end).step_by(4096).map(|at| pages.get(&at).map_or(0, |page| digest(at, page)));
                sum = digests.fold(sum, u64::wrapping_add);
            }
            processes.insert(id, pages);
        }
        self.processes = processes;
        let pages = self.processes.values().map(|pages| pages.len() as u64).sum();
        Ok(Answer { epoch, pages, digest: sum })
    }

    /// Forgets the pages of all processes that are not in these ranges, which are in order.
    pub(crate) fn keep(&mut self, ranges: &[(u64, u64)]) {
        self.processes.values_mut().for_each(|pages| pages.retain(|page, _| is_in(ranges, *page)));
    }

    /// All pages in the order of their addresses.
    pub(crate) fn pages(&self) -> Vec<(u64, &[u8])> {
        let pages = self.processes.values().flatten();
        let mut pages: Vec<(u64, &[u8])> = pages.map(|(address, page)| (*address, &**page)).collect();
        pages.sort_unstable_by_key(|(address, _)| *address);
        pages
    }
}

fn ranges(message: &mut &[u8], count: u64) -> io::Result<Vec<(u64, u64)>> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "a checkpoint with pages that end before they start");
    let mut ranges = Vec::new();
    for _ in 0..count {
        let (start, end) = (take(message)?, take(message)?);
        if start >= end || start % PAGE != 0 || end % PAGE != 0 {
            return Err(invalid());
        }
        ranges.push((start, end));
    }
    Ok(ranges)
}

/// Whether an address is in one of the ranges, which are in order.
fn is_in(ranges: &[(u64, u64)], address: u64) -> bool {
    let after = ranges.partition_point(|(start, _)| *start <= address);
    after.checked_sub(1).is_some_and(|at| address < ranges[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkpoint of one process: what is mapped, one written page of this byte, and a range to be compared.
    fn checkpoint(epoch: u64, mapped: &[(u64, u64)], written: u64, byte: u8, compared: (u64, u64)) -> Vec<u8> {
        let mut message = Vec::new();
        [epoch, 1, 42, mapped.len() as u64].into_iter().for_each(|number| put(&mut message, number));
        mapped.iter().flat_map(|(start, end)| [*start, *end]).for_each(|number| put(&mut message, number));
        [1, written, written + PAGE].into_iter().for_each(|number| put(&mut message, number));
        message.extend_from_slice(&[byte; 4096]);
        [1, compared.0, compared.1].into_iter().for_each(|number| put(&mut message, number));
        message
    }

    #[test]
    fn the_copy_has_the_last_contents_of_each_page_and_none_of_what_was_unmapped() {
        let mut copy = Copy::default();
        let both = [(4096, 3 * 4096)];
        let first = copy.apply(&checkpoint(1, &both, 4096, 7, (4096, 8192))).expect("a value");
        assert_eq!(first, Answer { epoch: 1, pages: 1, digest: digest(4096, &[7; 4096]) });
        let second = copy.apply(&checkpoint(2, &both, 8192, 9, (4096, 12288))).expect("a value");
        let both_digests = digest(4096, &[7; 4096]).wrapping_add(digest(8192, &[9; 4096]));
        assert_eq!(second, Answer { epoch: 2, pages: 2, digest: both_digests });
        let third = copy.apply(&checkpoint(3, &[(8192, 12288)], 8192, 1, (4096, 12288))).expect("a value");
        assert_eq!(third, Answer { epoch: 3, pages: 1, digest: digest(8192, &[1; 4096]) });
        assert_eq!(Answer::of(third.bytes().as_slice().try_into().expect("a value")), third);
    }

    #[test]
    fn what_is_no_checkpoint_is_refused() {
        let whole = checkpoint(1, &[(4096, 8192)], 4096, 7, (4096, 8192));
        for length in 0..whole.len() {
            Copy::default().apply(&whole[..length]).expect_err("a torn checkpoint");
        }
        let backwards = checkpoint(1, &[(8192, 4096)], 4096, 7, (4096, 8192));
        assert_eq!(Copy::default().apply(&backwards).expect_err("an error").kind(), io::ErrorKind::InvalidData);
    }
}
