//! JPEG images of three sizes, as many as wanted, at the speed of copying.
//!
//! A few base pictures are encoded several times with different grain, one row of blocks to a restart interval. Such rows do not
//! depend on each other (ITU-T T.81, E.1.4), so every choice of grain row by row is a picture of its own: real JPEG, decoded by
//! anything, with different pixels for every item, and no encoding while it is made.

use super::Random;
use jpeg_encoder::{ColorType, Encoder, EncodingError, SamplingFactor};
use std::sync::OnceLock;

const BASES: u64 = 4;
/// A full picture has 0.5 to 0.9 MB; each base a little more than the one before.
const FULL_BYTES: usize = 540_000;
const FULL_STEP: usize = 90_000;

/// Which of the three sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Thumbnail,
    Preview,
    Full,
}

impl Size {
    pub(crate) const ALL: [Size; 3] = [Size::Thumbnail, Size::Preview, Size::Full];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Size::Thumbnail => "thumbnail",
            Size::Preview => "preview",
            Size::Full => "full",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Size::ALL.into_iter().find(|size| size.name() == name)
    }

    /// How often each base is encoded. Full pictures have rows enough for two; a thumbnail has 13, of which two would be 8,192 pictures.
    fn grains(self) -> u64 {
        if self == Size::Full { 2 } else { 8 }
    }

    /// Width and height in pixels.
    pub(crate) fn pixels(self) -> (u16, u16) {
        match self {
            Size::Thumbnail => (100, 100),
            Size::Preview => (350, 350),
            Size::Full => (1200, 900),
        }
    }
}

/// One encoded picture, cut at its restart markers.
#[derive(Debug)]
struct Cut {
    head: Vec<u8>,
    rows: Vec<Vec<u8>>,
}

type Book = Vec<Vec<Cut>>;

/// Makes pictures of one seed.
#[derive(Debug)]
pub(crate) struct Pictures {
    seed: u64,
    books: [OnceLock<Book>; 3],
}

impl Pictures {
    pub(crate) fn new(seed: u64) -> Self {
        Pictures { seed, books: [OnceLock::new(), OnceLock::new(), OnceLock::new()] }
    }

    fn book(&self, size: Size) -> &OnceLock<Book> {
        &self.books[Size::ALL.iter().position(|&it| it == size).unwrap_or(0)]
    }

    /// Image `number` of `item`. The first of a size takes long: all that the others copy is drawn for it.
    pub(crate) fn jpeg(&self, item: i64, number: i64, size: Size) -> Vec<u8> {
        self.compose(item, number, self.book(size).get_or_init(|| draw_book(self.seed, size)))
    }

    /// The same, unless it would take long.
    pub(crate) fn quick(&self, item: i64, number: i64, size: Size) -> Option<Vec<u8>> {
        self.book(size).get().map(|book| self.compose(item, number, book))
    }

    fn compose(&self, item: i64, number: i64, book: &Book) -> Vec<u8> {
        let mut random = Random::of(self.seed, &[7, item.unsigned_abs(), number.unsigned_abs()]);
        let cuts = random.pick(book);
        let Some(first) = cuts.first() else { return Vec::new() };
        let mut jpeg = Vec::with_capacity(cuts.iter().map(Cut::len).max().unwrap_or(0));
        jpeg.extend_from_slice(&first.head);
        for row in 0..first.rows.len() {
            if row > 0 {
                let marker = 0xd0 + u8::try_from((row - 1) % 8).unwrap_or(0);
                jpeg.extend_from_slice(&[0xff, marker]);
            }
            jpeg.extend_from_slice(&random.pick(cuts).rows[row]);
        }
        jpeg.extend_from_slice(&[0xff, 0xd9]);
        jpeg
    }
}

impl Cut {
    fn len(&self) -> usize {
        self.head.len() + self.rows.iter().map(|row| row.len() + 2).sum::<usize>() + 2
    }
}

fn draw_book(seed: u64, size: Size) -> Book {
    let base = |base: u64| {
        let plain = draw(seed, size, base);
        let coarseness = if size == Size::Full { coarseness(seed, base, &plain) } else { 10 };
        let grained = |number| grain(&plain, Random::of(seed, &[9, base, number]), coarseness);
        (0..size.grains()).map(|number| cut(&encode(&grained(number), size.pixels()))).collect()
    };
    (0..BASES).map(base).collect()
}

/// How coarse a grain gives a full picture as many bytes as it should have, whatever the seed drew on it: by bisection on some rows
/// of blocks.
fn coarseness(seed: u64, base: u64, plain: &[u8]) -> i64 {
    const SPARSE: usize = 24;
    let (width, _) = Size::Full.pixels();
    let block_row = usize::from(width) * 3 * 8;
    let sample: Vec<u8> = plain.chunks_exact(block_row).step_by(SPARSE).flatten().copied().collect();
    let rows = u16::try_from(sample.len() / block_row * 8).unwrap_or(8);
    let all = plain.chunks_exact(block_row).len() * 8;
    let wanted = FULL_BYTES + usize::try_from(base).unwrap_or(0) * FULL_STEP;
    let (mut low, mut high) = (2, 120);
    while high - low > 1 {
        let middle = (low + high) / 2;
        let grained = grain(&sample, Random::of(seed, &[9, base, 0]), middle);
        if encode(&grained, (width, rows)).len() * all / usize::from(rows) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Grain of that coarseness on a plain picture.
fn grain(plain: &[u8], mut noise: Random, coarseness: i64) -> Vec<u8> {
    let grains: [i16; 256] = std::array::from_fn(|byte| {
        let byte = i64::try_from(byte).unwrap_or(0);
        i16::try_from((byte - 128) * coarseness / 128).unwrap_or(0)
    });
    let mut grained = Vec::with_capacity(plain.len());
    for three in plain.chunks_exact(3) {
        let bits = noise.next().to_le_bytes();
        let value = |at: usize| {
            let value = i16::from(three[at]) + grains[usize::from(bits[at])];
            u8::try_from(value.clamp(0, 255)).unwrap_or(0)
        };
        grained.extend_from_slice(&[value(0), value(1), value(2)]);
    }
    grained
}

/// A picture of soft discs on a gradient: pixels as red, green, blue.
fn draw(seed: u64, size: Size, base: u64) -> Vec<u8> {
    let (width, height) = size.pixels();
    let (width, height) = (i64::from(width), i64::from(height));
    let mut shape = Random::of(seed, &[8, base]);
    let corner: Vec<i64> = (0..6).map(|_| shape.between(20, 200)).collect();
    let discs: Vec<[i64; 6]> = (0..9)
        .map(|_| {
            let radius = shape.between(80, 300);
            let place = [shape.between(50, 950), shape.between(50, 950)];
            [place[0], place[1], radius, shape.between(0, 255), shape.between(0, 255), shape.between(0, 255)]
        })
        .collect();
    let inside = |dx: i64, dy: i64, disc: &[i64; 6]| dx * dx + dy * dy < disc[2] * disc[2];
    let mut pixels = Vec::with_capacity(usize::try_from(width * height * 3).unwrap_or(0));
    for y in 0..height {
        // Most rows cross few of the discs.
        let crossed: Vec<(&[i64; 6], i64)> = discs
            .iter()
            .map(|disc| (disc, y * 1000 / height - disc[1]))
            .filter(|(disc, dy)| inside(0, *dy, disc))
            .collect();
        for x in 0..width {
            let along = x * height + y * width;
            let mut colour =
                [0, 1, 2].map(|at| corner[at] + (corner[at + 3] - corner[at]) * along / (2 * width * height));
            for &(disc, dy) in &crossed {
                if inside(x * 1000 / width - disc[0], dy, disc) {
                    colour = [0, 1, 2].map(|at| (colour[at] + 2 * disc[at + 3]) / 3);
                }
            }
            pixels.extend(colour.map(|value| u8::try_from(value.clamp(0, 255)).unwrap_or(0)));
        }
    }
    pixels
}

fn encode(pixels: &[u8], size: (u16, u16)) -> Vec<u8> {
    // Encoding into memory fails for impossible sizes alone; an empty picture would be seen by the tests.
    encode_rows(pixels, size, 88).unwrap_or_default()
}

/// A JPEG without subsampling, a restart marker after each row of blocks.
///
/// # Errors
/// Sizes of which JPEG has none.
pub(crate) fn encode_rows(pixels: &[u8], (width, height): (u16, u16), quality: u8) -> Result<Vec<u8>, EncodingError> {
    let mut jpeg = Vec::new();
    let mut encoder = Encoder::new(&mut jpeg, quality);
    encoder.set_sampling_factor(SamplingFactor::F_1_1);
    encoder.set_restart_interval(width.div_ceil(8));
    encoder.encode(pixels, width, height, ColorType::Rgb)?;
    Ok(jpeg)
}

/// Cuts a picture at its restart markers.
fn cut(jpeg: &[u8]) -> Cut {
    // The scan's data begin behind its header, FF DA with its length.
    let scan = jpeg.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap_or(0);
    let length = jpeg.get(scan + 2..scan + 4).map_or(0, |bytes| usize::from(bytes[0]) * 256 + usize::from(bytes[1]));
    let start = (scan + 2 + length).min(jpeg.len());
    let end = jpeg.len().saturating_sub(2).max(start);
    let (mut rows, mut row, mut at) = (Vec::new(), Vec::new(), start);
    while at < end {
        if jpeg[at] == 0xff && (0xd0..=0xd7).contains(&jpeg[at + 1]) {
            rows.push(std::mem::take(&mut row));
            at += 2;
        } else {
            row.push(jpeg[at]);
            at += 1;
        }
    }
    rows.push(row);
    Cut { head: jpeg[..start].to_vec(), rows }
}

#[cfg(test)]
mod tests {
    use super::{Pictures, Size};
    use std::collections::HashSet;

    #[test]
    fn pictures_decode_have_their_size_and_differ() {
        let pictures = Pictures::new(5);
        for size in Size::ALL {
            let mut seen = HashSet::new();
            for item in 0..12 {
                let jpeg = pictures.jpeg(item, 0, size);
                let mut decoder = zune_jpeg::JpegDecoder::new(zune_jpeg::zune_core::bytestream::ZCursor::new(&jpeg));
                let pixels = decoder.decode().unwrap();
                let (width, height) = size.pixels();
                assert_eq!(decoder.dimensions(), Some((usize::from(width), usize::from(height))));
                assert_eq!(pixels.len(), usize::from(width) * usize::from(height) * 3);
                assert!(seen.insert(pixels), "two items have the same picture");
                if size == Size::Full {
                    assert!((500_000..900_000).contains(&jpeg.len()), "{} bytes", jpeg.len());
                }
            }
        }
        let thumbnails: HashSet<Vec<u8>> = (0..2000).map(|item| pictures.jpeg(item, 0, Size::Thumbnail)).collect();
        assert_eq!(thumbnails.len(), 2000);
        assert_eq!(pictures.jpeg(1, 2, Size::Preview), Pictures::new(5).jpeg(1, 2, Size::Preview));
    }
}
