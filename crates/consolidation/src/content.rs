//! What web servers serve: one text file and two images, 100 KB in all.
//!
//! The sizes are ours: the published study says only "several text and JPEG files" of about 100 KB for one request. The images are not
//! decoded by anybody: they are random bytes, which compress as little as those of a JPEG file do.

use baremark_sys::private_folder::directory::Directory;
use std::io;
use std::path::Path;

/// A file of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path in URLs.
    pub path: &'static str,
    /// Its media type.
    pub media: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

const SIZES: [(&str, &str, usize); 3] =
    [("/index.html", "text/html", 20_000), ("/large.jpg", "image/jpeg", 50_000), ("/small.jpg", "image/jpeg", 30_000)];

/// Bytes of all files.
pub const PAGE_BYTES: u64 = 100_000;

/// The files, the same in every process.
#[must_use]
pub fn files() -> Vec<File> {
    let of = |(at, (path, media, size)): (usize, &(&'static str, &'static str, usize))| File {
        path,
        media,
        bytes: if *media == "text/html" { text(*size) } else { noise(at as u64, *size) },
    };
    SIZES.iter().enumerate().map(of).collect()
}

fn text(size: usize) -> Vec<u8> {
    let lines = (0..)
        .flat_map(|line| format!("<p>Paragraph {line} of a page that is the same for everybody.</p>\n").into_bytes());
    lines.take(size).collect()
}

/// Bytes of a linear congruential generator (Knuth's MMIX constants), from the bits that vary most.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let step =
        |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(seed + 1), step).skip(1).take(size).map(|state| state.to_be_bytes()[0]).collect()
}

/// Writes the files into a folder as its owner's, who alone may read them; absent, that is this user.
///
/// # Errors
/// What writing gives.
pub fn write(folder: &Directory, owner: Option<(u32, u32)>) -> io::Result<()> {
    let name = |file: &File| Path::new(file.path.trim_start_matches('/'));
    files().iter().try_for_each(|file| folder.replace(name(file), &file.bytes, owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_100_kb_and_is_the_same_each_time() {
        assert_eq!(files().iter().map(|file| file.bytes.len() as u64).sum::<u64>(), PAGE_BYTES);
        assert_eq!(files(), files());
        let image = &files()[1].bytes;
        let counts = image.iter().fold([0_u32; 256], |mut counts, byte| {
            counts[usize::from(*byte)] += 1;
            counts
        });
        assert!(counts.iter().all(|count| (100..300).contains(count)), "random bytes do not compress: {counts:?}");
    }
}
