//! What was written to a file and is not synced: whole pages in memory over the stored file, and what a sync changes of that.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a page.
const PAGE: usize = 4096;
const PAGE_BYTES: u64 = PAGE as u64;

/// What a sync changes of a stored file: it is cut to `floor` bytes, runs of bytes are written, and it has `size` bytes then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) floor: u64,
    pub(crate) size: u64,
    /// Offsets with what is written there.
    pub(crate) runs: Vec<(u64, Vec<u8>)>,
}

impl Changes {
    /// Makes them to the stored file.
    pub(crate) fn apply(&self, stored: &File) -> io::Result<()> {
        let length = stored.metadata()?.len();
        if self.floor < length {
            stored.set_len(self.floor)?;
        }
        for (offset, bytes) in &self.runs {
            stored.write_all_at(bytes, *offset)?;
        }
        stored.set_len(self.size)
    }
}

/// The state of a file that differs from what is stored.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The length of the stored file.
    stored: u64,
    /// Its length.
    size: u64,
    /// Stored bytes from here on do not count: the file was cut.
    floor: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
}

impl Pending {
    /// A file of `stored` bytes of which nothing is pending.
    pub(crate) fn of(stored: u64) -> Pending {
        Pending { stored, size: stored, floor: stored, pages: BTreeMap::new() }
    }

    /// The length of the file.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Whether nothing is pending.
    pub(crate) fn is_stored(&self) -> bool {
        self.pages.is_empty() && self.floor == self.stored && self.size == self.stored
    }

    /// Bytes from `offset` on, at most `length`, up to the end of the file.
    pub(crate) fn read(&self, stored: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let end = self.size.min(offset.saturating_add(length as u64));
        if end <= offset {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; within(end - offset)];
        let kept = within(self.floor.min(end).saturating_sub(offset));
        read_stored(stored, &mut bytes[..kept], offset)?;
        for (number, page) in self.pages.range(offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)) {
            let start = number * PAGE_BYTES;
            let (from, to) = (start.max(offset), (start + PAGE_BYTES).min(end));
            bytes[within(from - offset)..within(to - offset)]
                .copy_from_slice(&page[within(from - start)..within(to - start)]);
        }
        Ok(bytes)
    }

    /// Writes bytes at `offset`.
    pub(crate) fn write(&mut self, stored: &File, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset + data.len() as u64;
        let mut at = offset;
        while at < end {
            let (number, start) = (at / PAGE_BYTES, at / PAGE_BYTES * PAGE_BYTES);
            let to = (start + PAGE_BYTES).min(end);
            if !self.pages.contains_key(&number) {
                let page = self.stored_page(stored, start)?;
                self.pages.insert(number, page);
            }
            if let Some(page) = self.pages.get_mut(&number) {
                page[within(at - start)..within(to - start)]
                    .copy_from_slice(&data[within(at - offset)..within(to - offset)]);
            }
            at = to;
        }
        self.size = self.size.max(end);
        Ok(())
    }

    /// Gives the file another length; what is added is zero.
    pub(crate) fn resize(&mut self, size: u64) {
        if size < self.size {
            self.floor = self.floor.min(size);
            self.pages.split_off(&size.div_ceil(PAGE_BYTES));
            if let Some(page) = self.pages.get_mut(&(size / PAGE_BYTES)) {
                page[within(size % PAGE_BYTES)..].fill(0);
            }
        }
        self.size = size;
    }

    /// Stores everything that is pending, and returns what that has changed.
    pub(crate) fn sync(&mut self, stored: &File) -> io::Result<Changes> {
        let changes = self.changes();
        changes.apply(stored)?;
        *self = Pending::of(self.size);
        Ok(changes)
    }

    fn changes(&self) -> Changes {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (number, page) in &self.pages {
            let start = number * PAGE_BYTES;
            let bytes = &page[..within(self.size.saturating_sub(start)).min(PAGE)];
            match runs.last_mut() {
                Some((offset, run)) if *offset + run.len() as u64 == start => run.extend_from_slice(bytes),
                _ => runs.push((start, bytes.to_vec())),
            }
        }
        Changes { floor: self.floor, size: self.size, runs }
    }

    fn stored_page(&self, stored: &File, start: u64) -> io::Result<Box<[u8; PAGE]>> {
        let mut page = Box::new([0; PAGE]);
        let kept = within(self.floor.min(self.size).saturating_sub(start)).min(PAGE);
        read_stored(stored, &mut page[..kept], start)?;
        Ok(page)
    }
}

/// Reads what the stored file has; the rest stays zero.
fn read_stored(stored: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match stored.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// A length in memory.
fn within(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A pseudo-random number below `below`.
    fn draw(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    #[test]
    fn a_file_that_was_cut_is_pending_until_it_is_synced() {
        let mut pending = Pending::of(9000);
        assert!(pending.is_stored());
        pending.resize(100);
        assert!(!pending.is_stored());
        pending.resize(9000);
        assert!(!pending.is_stored());
    }

    /// Any sequence of writes, cuts and syncs: reads give what was written, the stored file what was synced.
    #[test]
    fn reads_give_what_was_written_and_the_file_has_what_was_synced() {
        let folder = tempfile::tempdir().expect("a folder");
        for seed in 0..50 {
            let path = folder.path().join(seed.to_string());
            fs::write(&path, vec![7; 9000]).expect("a file");
            let file = File::options().read(true).write(true).open(&path).expect("it is there");
            let (mut pending, mut model, mut synced) = (Pending::of(9000), vec![7_u8; 9000], vec![7_u8; 9000]);
            let mut state = seed;
            for step in 0..60_u8 {
                match draw(&mut state, 6) {
                    0 => {
                        let size = draw(&mut state, 20_000);
                        pending.resize(size);
                        model.resize(within(size), 0);
                    }
                    1 => {
                        pending.sync(&file).expect("it can be written");
                        synced.clone_from(&model);
                    }
                    _ => {
                        let (offset, length) = (draw(&mut state, 15_000), within(draw(&mut state, 9000) + 1));
                        pending.write(&file, offset, &vec![step; length]).expect("it can be read");
                        model.resize(model.len().max(within(offset) + length), 0);
                        model[within(offset)..within(offset) + length].fill(step);
                    }
                }
                let (offset, length) = (draw(&mut state, 25_000), within(draw(&mut state, 30_000)));
                let end = (within(offset) + length).min(model.len());
                let expected = model.get(within(offset)..end).unwrap_or_default();
                assert_eq!(pending.read(&file, offset, length).expect("it can be read"), expected, "seed {seed}");
                assert_eq!(pending.size(), model.len() as u64);
                assert_eq!(fs::read(&path).expect("it is there"), synced, "seed {seed}");
            }
        }
    }
}
