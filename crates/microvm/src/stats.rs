//! KVM's own counters, read from its statistics descriptors.
//!
//! `KVM_GET_STATS_FD` on a VM or a vCPU gives a file: a header, an id, one descriptor per statistic with its name, and a
//! block of 64-bit data (Documentation/virt/kvm/api.rst, 4.133). Names and offsets are read once; a reading is then one
//! `pread` into memory made ready beforehand, which is allowed where allocation is not: in the exit handler. Histograms
//! are left out. Statistics that a kernel does not have are absent, never 0.

use kvm_bindings::{kvm_stats_desc, kvm_stats_header};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

/// `_IO(KVMIO, 0xce)`.
const KVM_GET_STATS_FD: libc::c_ulong = 0xaece;
/// The bits of a descriptor's flags that give its type, and the first type that is a histogram.
const TYPE_MASK: u32 = 0xf;
const FIRST_HISTOGRAM: u32 = 3;
/// More than any kernel has; a file that claims more is not what we think it is.
const MOST_BYTES: usize = 1 << 20;

/// Which words of a statistics file's data are which counters.
#[derive(Debug, PartialEq, Eq)]
struct Fields {
    data_offset: u64,
    words: usize,
    names: Vec<(String, usize)>,
}

/// The statistics of one VM or vCPU.
#[derive(Debug)]
pub(crate) struct Source {
    file: File,
    fields: Fields,
}

impl Source {
    /// The statistics of the VM or vCPU behind `fd`; `None` where the kernel has none (before Linux 5.14).
    pub(crate) fn open(fd: &impl AsRawFd) -> io::Result<Option<Self>> {
        // SAFETY: KVM_GET_STATS_FD takes no argument and makes a new descriptor or fails.
        let stats = unsafe { libc::ioctl(fd.as_raw_fd(), KVM_GET_STATS_FD) };
        if stats < 0 {
            let error = io::Error::last_os_error();
            return if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) {
                Ok(None)
            } else {
                Err(error)
            };
        }
        // SAFETY: the descriptor was made above and nobody else owns it.
        let file = unsafe { File::from_raw_fd(stats) };
        let fields = Fields::read(|bytes, offset| file.read_exact_at(bytes, offset))?;
        Ok(Some(Source { file, fields }))
    }

    /// Words that a reading needs.
    pub(crate) fn words(&self) -> usize {
        self.fields.words
    }

    /// Reads all counters into `words`, which has [`Source::words`] of them. Allocates nothing.
    pub(crate) fn read(&self, words: &mut [u64]) -> io::Result<()> {
        // SAFETY: 64-bit words may be seen and written as bytes; the slice covers exactly the same memory.
        let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), mem::size_of_val(words)) };
        self.file.read_exact_at(bytes, self.fields.data_offset)
    }

    /// The counters as they stand, added to those of the same name in `into`.
    pub(crate) fn add_now(&self, into: &mut BTreeMap<String, u64>) -> io::Result<()> {
        let mut words = vec![0; self.words()];
        self.read(&mut words)?;
        self.add(&words, into);
        Ok(())
    }

    /// Adds the counters in `words` to those of the same name in `into`.
    pub(crate) fn add(&self, words: &[u64], into: &mut BTreeMap<String, u64>) {
        for (name, at) in &self.fields.names {
            let Some(value) = words.get(*at) else { continue };
            let sum = into.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*value);
        }
    }
}

/// A source with room for two readings, the begin and the end of a region.
#[derive(Debug)]
pub(crate) struct Meter {
    source: std::sync::Arc<Source>,
    begin: Vec<u64>,
    end: Vec<u64>,
}

impl Meter {
    /// A meter that has read nothing yet.
    pub(crate) fn new(source: std::sync::Arc<Source>) -> Self {
        let words = source.words();
        Meter { source, begin: vec![0; words], end: vec![0; words] }
    }

    /// The reading before. Allocates nothing; a failed read leaves zeros, which growth shows as no growth.
    pub(crate) fn begin(&mut self) {
        if self.source.read(&mut self.begin).is_err() {
            self.begin.fill(0);
        }
        self.end.copy_from_slice(&self.begin);
    }

    /// The reading after.
    pub(crate) fn end(&mut self) {
        if self.source.read(&mut self.end).is_err() {
            self.end.copy_from_slice(&self.begin);
        }
    }

    /// Adds what grew between the two. What shrank (`pages_4k` can) counts as no growth.
    pub(crate) fn add_growth(&self, into: &mut BTreeMap<String, u64>) {
        let growth: Vec<u64> =
            self.end.iter().zip(&self.begin).map(|(end, begin)| end.saturating_sub(*begin)).collect();
        self.source.add(&growth, into);
    }
}

impl Fields {
    /// Reads header and descriptors through `read_at(bytes, offset)`.
    fn read(read_at: impl Fn(&mut [u8], u64) -> io::Result<()>) -> io::Result<Self> {
        let mut header = [0; mem::size_of::<kvm_stats_header>()];
        read_at(&mut header, 0)?;
        let [_, name_size, count, _, desc_offset, data_offset] = words_of::<6>(&header);
        let stride = mem::size_of::<kvm_stats_desc>() + name_size as usize;
        let bytes = stride.checked_mul(count as usize).filter(|bytes| *bytes <= MOST_BYTES).ok_or_else(garbled)?;
        let mut descriptors = vec![0; bytes];
        read_at(&mut descriptors, u64::from(desc_offset))?;
        let mut fields = Fields { data_offset: u64::from(data_offset), words: 0, names: Vec::new() };
        for descriptor in descriptors.chunks_exact(stride) {
            fields.add(descriptor)?;
        }
        Ok(fields)
    }

    /// One descriptor: flags, exponent and size (16 bits each), offset, bucket size, name.
    fn add(&mut self, descriptor: &[u8]) -> io::Result<()> {
        let (fixed, name) = descriptor.split_at(mem::size_of::<kvm_stats_desc>());
        let [flags, sizes, offset, _] = words_of::<4>(fixed);
        let items = (sizes >> 16) as usize;
        let first = offset as usize / 8;
        if !offset.is_multiple_of(8) || first + items > MOST_BYTES / 8 {
            return Err(garbled());
        }
        self.words = self.words.max(first + items);
        if flags & TYPE_MASK < FIRST_HISTOGRAM && items == 1 {
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            self.names.push((String::from_utf8_lossy(&name[..end]).into_owned(), first));
        }
        Ok(())
    }
}

/// The first `N` 32-bit words of `bytes`, in the machine's order.
fn words_of<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_ne_bytes(*chunk);
    }
    words
}

fn garbled() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "KVM's statistics descriptors are not in the documented format")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (flags, items, offset, name), as the kernel would lay them out, with names of 16 bytes.
    fn image(descriptors: &[(u32, u16, u32, &str)]) -> Vec<u8> {
        let count = u32::try_from(descriptors.len()).expect("few");
        let mut bytes = Vec::new();
        for word in [0, 16, count, 24, 40, 40 + 32 * count] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([b'i'; 16]);
        for (flags, items, offset, name) in descriptors {
            bytes.extend(flags.to_ne_bytes());
            bytes.extend(0i16.to_ne_bytes());
            bytes.extend(items.to_ne_bytes());
            bytes.extend(offset.to_ne_bytes());
            bytes.extend(0u32.to_ne_bytes());
            let mut field = [0; 16];
            field[..name.len()].copy_from_slice(name.as_bytes());
            bytes.extend(field);
        }
        bytes
    }

    fn parse(image: &[u8]) -> io::Result<Fields> {
        Fields::read(|bytes, offset| {
            let from = usize::try_from(offset).expect("small");
            let part = image.get(from..from + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            bytes.copy_from_slice(part);
            Ok(())
        })
    }

    #[test]
    fn scalars_are_named_and_histograms_left_out() {
        let fields = parse(&image(&[(0, 1, 0, "exits"), (0x24, 32, 8, "halt_wait_hist"), (1, 1, 264, "pages_4k")]));
        let fields = fields.expect("well formed");
        assert_eq!(fields.names, [("exits".to_owned(), 0), ("pages_4k".to_owned(), 33)]);
        assert_eq!((fields.words, fields.data_offset), (34, 136));
    }

    #[test]
    fn a_torn_file_and_absurd_sizes_are_refused() {
        let whole = image(&[(0, 1, 0, "exits")]);
        assert!(parse(&whole[..whole.len() - 1]).is_err());
        assert!(parse(&image(&[(0, 1, 1 << 30, "far")])).is_err());
        let mut many = whole;
        many[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(parse(&many).is_err());
    }
}
