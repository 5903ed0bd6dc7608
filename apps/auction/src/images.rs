//! Where images are: in files, in the database, or made when asked for.

use crate::database::{Database, Fault};
use crate::generate::picture::{Pictures, Size, encode_rows};
use crate::nouns::Id;
use crate::store::pictures;
use crate::uploads::Uploads;
use crate::workers::Workers;
use bytes::Bytes;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::{Semaphore, oneshot};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Pixels a side that an upload may have, and in all: a decoder takes nine bytes for each pixel of a progressive JPEG.
const SIDE: usize = 4096;
const PIXELS: usize = 8 << 20;
/// Scans that an upload may have. A progressive JPEG of a camera has about ten; each costs a pass over the whole picture.
const SCANS: usize = 100;
/// Uploads that are in memory at once, and of these such that are decoded.
const UPLOADS: usize = 64;
const DECODES: usize = 2;

/// Where images are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    Database,
    Files(PathBuf),
}

impl Place {
    /// `memory`, `database` or `files:FOLDER`.
    ///
    /// # Errors
    /// What would be right.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("files:")) {
            ("memory", _) => Ok(Place::Memory),
            ("database", _) => Ok(Place::Database),
            (_, Some(folder)) if !folder.is_empty() => Ok(Place::Files(folder.into())),
            _ => Err(format!("`{text}` is not a place for images; write memory, database or files:FOLDER")),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Place::Memory => "memory",
            Place::Database => "database",
            Place::Files(_) => "files",
        }
    }
}

/// The image store of a server or loader.
pub(crate) struct Images {
    pub place: Place,
    pub pictures: Pictures,
    database: Arc<dyn Database>,
    uploads: RwLock<Uploads>,
    /// Turns of uploads, to be taken before their bodies are read.
    pub turns: Semaphore,
    decoders: Workers<Upload>,
}

/// A JPEG to be decoded.
struct Upload {
    jpeg: Vec<u8>,
    reply: oneshot::Sender<Result<[Vec<u8>; 3], String>>,
}

impl Images {
    /// # Errors
    /// No thread can be started.
    pub(crate) fn new(place: Place, seed: u64, database: Arc<dyn Database>) -> io::Result<Self> {
        let decode = |_: &mut (), Upload { jpeg, reply }: Upload| {
            // Whoever has gone meanwhile is not worth the work.
            if !reply.is_closed() {
                let _ = reply.send(resize(jpeg));
            }
        };
        Ok(Images {
            place,
            pictures: Pictures::new(seed),
            database,
            uploads: RwLock::default(),
            turns: Semaphore::new(UPLOADS),
            decoders: Workers::start("decoder", DECODES, decode)?,
        })
    }

    /// The three sizes of an uploaded JPEG, once it is its turn to be decoded; or why it is no picture that this site takes.
    pub(crate) async fn resize(&self, jpeg: Vec<u8>) -> Result<Result<[Vec<u8>; 3], String>, Fault> {
        let gone = || Fault::Unavailable("images are not decoded any more".to_owned());
        let (reply, answer) = oneshot::channel();
        self.decoders.give(Upload { jpeg, reply }).map_err(|_ended| gone())?;
        answer.await.map_err(|_ended| gone())
    }

    /// One size of one image.
    pub(crate) async fn get(self: &Arc<Self>, item: Id, number: i64, size: Size) -> Result<Option<Bytes>, Fault> {
        match &self.place {
            Place::Database => Ok(pictures::image(&*self.database, item, number, size.name()).await?.map(Bytes::from)),
            Place::Files(folder) => {
                let path = file(folder, item, number, size);
                let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
                match read.map_err(|why| Fault::Unavailable(why.to_string()))? {
                    Ok(jpeg) => Ok(Some(jpeg.into())),
                    Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(why) => Err(Fault::Unavailable(format!("an image: {why}"))),
                }
            }
            Place::Memory => {
                let at = Size::ALL.iter().position(|&it| it == size).unwrap_or(0);
                let found = self.uploads.read().unwrap_or_else(PoisonError::into_inner).get(&(item, number)).cloned();
                if let Some(sizes) = found {
                    return Ok(Some(sizes[at].clone()));
                }
                if let Some(jpeg) = self.pictures.quick(item, number, size) {
                    return Ok(Some(jpeg.into()));
                }
                let this = Arc::clone(self);
                let made = tokio::task::spawn_blocking(move || this.pictures.jpeg(item, number, size)).await;
                made.map(|jpeg| Some(jpeg.into())).map_err(|why| Fault::Unavailable(why.to_string()))
            }
        }
    }

    /// Stores an image that this account has uploaded, in its three sizes.
    pub(crate) async fn put(&self, account: Id, (item, number): (Id, i64), sizes: [Vec<u8>; 3]) -> Result<(), Fault> {
        match &self.place {
            Place::Database => {
                let named: Vec<(&str, &[u8])> =
                    Size::ALL.iter().zip(&sizes).map(|(size, jpeg)| (size.name(), jpeg.as_slice())).collect();
                pictures::put(&*self.database, item, number, &named).await
            }
            Place::Files(folder) => {
                let folder = folder.clone();
                let write = move || {
                    Size::ALL.iter().zip(&sizes).try_for_each(|(&size, jpeg)| write(&folder, item, number, size, jpeg))
                };
                let written =
                    tokio::task::spawn_blocking(write).await.map_err(|why| Fault::Unavailable(why.to_string()))?;
                written.map_err(|why| Fault::Unavailable(format!("an image: {why}")))
            }
            Place::Memory => {
                let mut uploads = self.uploads.write().unwrap_or_else(PoisonError::into_inner);
                uploads.put(account, (item, number), sizes.map(Bytes::from));
                Ok(())
            }
        }
    }
}

fn file(folder: &Path, item: Id, number: i64, size: Size) -> PathBuf {
    folder.join((item / 1000).to_string()).join(format!("{item}-{number}-{}.jpg", size.name()))
}

/// Writes one file, whole or not at all; its user alone can read it.
pub(crate) fn write(folder: &Path, item: Id, number: i64, size: Size, jpeg: &[u8]) -> io::Result<()> {
    let path = file(folder, item, number, size);
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let partial = path.with_extension("part");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(jpeg)?;
    std::fs::rename(partial, path)
}

/// The three sizes of an uploaded JPEG.
///
/// # Errors
/// Why it is no picture that this site takes.
fn resize(jpeg: Vec<u8>) -> Result<[Vec<u8>; 3], String> {
    let options = DecoderOptions::default()
        .set_max_width(SIDE)
        .set_max_height(SIDE)
        .set_strict_mode(true)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&jpeg), options);
    decoder.decode_headers().map_err(|why| unreadable(&why))?;
    let (width, height) = decoder.dimensions().ok_or("no JPEG that can be read: it has no size")?;
    if width * height > PIXELS {
        return Err(format!("{width} x {height} pixels; at most {PIXELS} in all and {SIDE} a side"));
    }
    if jpeg.windows(2).filter(|pair| *pair == START_OF_SCAN).count() > SCANS {
        return Err(format!("a JPEG of more than {SCANS} scans; save it as a baseline JPEG"));
    }
    let pixels = decoder.decode().map_err(|why| unreadable(&why))?;
    let small = |size: Size| {
        let (w, h) = size.pixels();
        let scaled = scale(&pixels, (width, height), (usize::from(w), usize::from(h)));
        encode_rows(&scaled, (w, h), 85).map_err(|why| why.to_string())
    };
    Ok([small(Size::Thumbnail)?, small(Size::Preview)?, jpeg])
}

const START_OF_SCAN: [u8; 2] = [0xff, 0xda];

fn unreadable(why: &impl std::fmt::Debug) -> String {
    format!("no JPEG that can be read: {why:?}")
}

/// Box filter: each new pixel is the mean of those it covers, at least one. Three bytes a pixel.
fn scale(pixels: &[u8], (width, height): (usize, usize), (w, h): (usize, usize)) -> Vec<u8> {
    let mut scaled = Vec::with_capacity(w * h * 3);
    for y in 0..h {
        let rows = y * height / h..((y + 1) * height / h).max(y * height / h + 1);
        for x in 0..w {
            let columns = x * width / w..((x + 1) * width / w).max(x * width / w + 1);
            let count = u32::try_from(rows.len() * columns.len()).unwrap_or(u32::MAX);
            for channel in 0..3 {
                let sum: u32 = rows
                    .clone()
                    .flat_map(|row| columns.clone().map(move |column| (row * width + column) * 3 + channel))
                    .map(|at| pixels.get(at).copied().map_or(0, u32::from))
                    .sum();
                scaled.push(u8::try_from(sum / count).unwrap_or(u8::MAX));
            }
        }
    }
    scaled
}

#[cfg(test)]
mod tests {
    use super::{SCANS, START_OF_SCAN, resize};
    use crate::generate::picture::{Pictures, Size};

    #[test]
    fn an_upload_gets_two_small_sizes() {
        let full = Pictures::new(1).jpeg(1, 0, Size::Full);
        let sizes = resize(full.clone()).unwrap();
        assert_eq!(sizes[2], full);
        for (size, jpeg) in Size::ALL.into_iter().zip(&sizes).take(2) {
            let mut decoder = zune_jpeg::JpegDecoder::new(zune_jpeg::zune_core::bytestream::ZCursor::new(jpeg));
            decoder.decode_headers().unwrap();
            let (width, height) = size.pixels();
            assert_eq!(decoder.dimensions(), Some((usize::from(width), usize::from(height))));
        }
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        assert!(resize(b"GIF89a".to_vec()).is_err());
        let mut cut = Pictures::new(1).jpeg(1, 0, Size::Full);
        cut.truncate(100);
        assert!(resize(cut).is_err());
    }

    #[test]
    fn a_jpeg_that_takes_long_to_decode_is_refused() {
        let full = Pictures::new(1).jpeg(1, 0, Size::Full);
        let scan = full.windows(2).position(|pair| pair == START_OF_SCAN).unwrap();
        let mut scans = full[..scan].to_vec();
        (0..=SCANS).for_each(|_| scans.extend_from_slice(&full[scan..full.len() - 2]));
        scans.extend_from_slice(&full[full.len() - 2..]);
        let why = resize(scans).unwrap_err();
        assert!(why.contains("more than 100 scans"), "{why}");
    }
}
