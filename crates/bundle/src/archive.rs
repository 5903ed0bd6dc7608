//! The archive: its files, how they are packed, and how an archive of a stranger is read.

use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, Read, Write};

/// The name and version of the format.
pub const FORMAT: &str = "baremark-bundle/1";
/// The files of a bundle, in this order; the first is the manifest.
pub const NAMES: [&str; 6] = ["bundle.json", "rederive.py", "run.json", "trials.json", "result.json", "report.txt"];
/// Most bytes of each file, in the order of [`NAMES`]: all of them are in memory at once.
pub const MOST_BYTES: [u64; 6] = [64 << 10, 64 << 10, 8 << 20, 48 << 20, 8 << 20, 2 << 20];
/// The file after them in a bundle that is signed: the signature of the manifest.
pub const SIGNATURE: &str = "bundle.json.sig";
/// Its most bytes: one of an RSA key of 16384 bits has less than half.
pub const MOST_SIGNATURE_BYTES: u64 = 16 << 10;
/// Most bytes of the compressed bundle.
pub const MOST_COMPRESSED: u64 = 64 << 20;
/// What the values of bundle.json may take in memory.
const MANIFEST_MEMORY: u64 = 1 << 20;
/// The time in every header: the same run gives the same bytes.
pub const CREATED: u64 = 0;
const BLOCK: usize = 512;

/// What the first file says of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// The SHA-256 of every other file, in lower-case hexadecimal, by name.
    pub sha256: BTreeMap<String, String>,
}

/// The files of a bundle but for its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// The script that derives the printed numbers again: [`crate::REDERIVE`], or that of a stranger.
    pub script: Vec<u8>,
    /// The run without its trials, as JSON.
    pub run: Vec<u8>,
    /// Its trials, as a JSON array.
    pub trials: Vec<u8>,
    /// What was worked out from them, as JSON.
    pub result: Vec<u8>,
    /// The same as it was printed.
    pub report: Vec<u8>,
    /// The signature of the manifest ([`Bundle::manifest`]), if there is one.
    pub signature: Option<Vec<u8>>,
}

impl Bundle {
    /// The first file of the archive, which names all others but the signature: these bytes are signed.
    ///
    /// # Errors
    /// Never: a table of texts can be written as JSON.
    pub fn manifest(&self) -> Result<Vec<u8>, BundleError> {
        let sha256 = NAMES[1..].iter().zip(self.files()).map(|(name, bytes)| ((*name).to_owned(), digest(bytes)));
        let manifest = Manifest { format: FORMAT.to_owned(), sha256: sha256.collect() };
        serde_json::to_vec_pretty(&manifest).map_err(BundleError::Manifest)
    }

    /// In the order of [`NAMES`], but for the manifest.
    fn files(&self) -> [&[u8]; 5] {
        [&self.script, &self.run, &self.trials, &self.result, &self.report]
    }
}

/// Why a file is no bundle, or cannot become one.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It is larger than any bundle.
    #[error("{what} has more than {most} bytes; a bundle of a run this long is not supported")]
    TooLarge {
        /// Which part.
        what: String,
        /// The limit.
        most: u64,
    },
    /// It is not compressed by gzip, or its end is missing.
    #[error("decompressing: {0}; the file is damaged, cut off, or not a bundle")]
    Gzip(#[source] std::io::Error),
    /// The archive is not one that `baremark bundle` writes.
    #[error("{0}; the file is damaged or not a bundle")]
    Archive(String),
    /// The first file cannot be read.
    #[error("bundle.json: {0}; the file is damaged or not a bundle")]
    Manifest(#[source] serde_json::Error),
    /// It is of another version.
    #[error("format '{0}' is not supported, only {FORMAT}; use the version of baremark that wrote it")]
    Format(String),
    /// A file is not the one that the manifest names.
    #[error("{0} does not have the SHA-256 that bundle.json names; the bundle was changed")]
    Changed(String),
}

/// The bytes of a bundle: the same for the same files.
///
/// # Errors
/// When a file is larger than a reader would take.
pub fn pack(bundle: &Bundle) -> Result<Vec<u8>, BundleError> {
    let manifest = bundle.manifest()?;
    let files = std::iter::once(manifest.as_slice()).chain(bundle.files());
    let files = NAMES.into_iter().zip(MOST_BYTES).zip(files).map(|((name, most), bytes)| (name, most, bytes));
    let signature = bundle.signature.iter().map(|bytes| (SIGNATURE, MOST_SIGNATURE_BYTES, bytes.as_slice()));
    let mut tar = Vec::new();
    for (name, most, bytes) in files.chain(signature) {
        if bytes.len() as u64 > most {
            return Err(BundleError::TooLarge { what: name.to_owned(), most });
        }
        tar.extend(header(name, bytes.len() as u64));
        tar.extend(bytes);
        tar.resize(tar.len().next_multiple_of(BLOCK), 0);
    }
    tar.resize(tar.len() + 2 * BLOCK, 0);
    let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::default());
    gzip.write_all(&tar).and_then(|()| gzip.finish()).map_err(BundleError::Gzip)
}

/// The files of a bundle that a stranger may have made. It is read as it is unpacked, up to [`MOST_COMPRESSED`].
///
/// # Errors
/// For everything that [`pack`] would not have written.
pub fn unpack(from: impl BufRead) -> Result<Bundle, BundleError> {
    let mut gzip = GzDecoder::new(from.take(MOST_COMPRESSED));
    let mut files = Vec::new();
    for (name, most) in NAMES.iter().zip(MOST_BYTES) {
        let found = exactly(&mut gzip, BLOCK as u64)?;
        files.push(file(&mut gzip, &found, name, most)?);
    }
    let mut end = exactly(&mut gzip, BLOCK as u64)?;
    let mut signature = None;
    if end.starts_with(format!("{SIGNATURE}\0").as_bytes()) {
        signature = Some(file(&mut gzip, &end, SIGNATURE, MOST_SIGNATURE_BYTES)?);
        end = exactly(&mut gzip, BLOCK as u64)?;
    }
    end.extend(exactly(&mut gzip, BLOCK as u64)?);
    let mut more = [0];
    let after = gzip.read(&mut more).map_err(BundleError::Gzip)?;
    let mut rest = gzip.into_inner();
    let trailing = !rest.fill_buf().map_err(BundleError::Gzip)?.is_empty() || rest.limit() == 0;
    if end.iter().any(|byte| *byte != 0) || after > 0 || trailing {
        return Err(BundleError::Archive("there is more after the last file".to_owned()));
    }
    checked(files, signature)
}

fn checked(files: Vec<Vec<u8>>, signature: Option<Vec<u8>>) -> Result<Bundle, BundleError> {
    let Ok([written, script, run, trials, result, report]) = <[Vec<u8>; 6]>::try_from(files) else {
        return Err(BundleError::Archive("a file is missing".to_owned()));
    };
    let bundle = Bundle { script, run, trials, result, report, signature };
    let manifest: Manifest = baremark_json::read(&written, MANIFEST_MEMORY).map_err(BundleError::Manifest)?;
    if manifest.format != FORMAT {
        return Err(BundleError::Format(manifest.format.escape_debug().take(80).collect()));
    }
    if manifest.sha256.len() != NAMES.len() - 1 {
        return Err(BundleError::Archive("bundle.json names other files".to_owned()));
    }
    for (name, bytes) in NAMES[1..].iter().zip(bundle.files()) {
        if manifest.sha256.get(*name) != Some(&digest(bytes)) {
            return Err(BundleError::Changed((*name).to_owned()));
        }
    }
    // What is signed are its bytes.
    match serde_json::to_vec_pretty(&manifest).is_ok_and(|expected| expected == written) {
        true => Ok(bundle),
        false => Err(BundleError::Archive("bundle.json is not written as baremark writes it".to_owned())),
    }
}

/// The file of a header that was `found`, which must be the one that [`pack`] writes for a file of its name and size.
fn file(from: &mut impl Read, found: &[u8], name: &str, most: u64) -> Result<Vec<u8>, BundleError> {
    let size = size_in(found).ok_or_else(|| BundleError::Archive(format!("the header of {name} has no size")))?;
    if found != header(name, size) {
        return Err(BundleError::Archive(format!("the header of {name} is not one that baremark writes")));
    }
    if size > most {
        return Err(BundleError::TooLarge { what: name.to_owned(), most });
    }
    let bytes = exactly(from, size)?;
    let filling = exactly(from, size.next_multiple_of(BLOCK as u64) - size)?;
    match filling.iter().all(|byte| *byte == 0) {
        true => Ok(bytes),
        false => Err(BundleError::Archive(format!("there is something behind {name}"))),
    }
}

/// So many bytes; memory grows with what is there, not with what is claimed.
fn exactly(from: &mut impl Read, size: u64) -> Result<Vec<u8>, BundleError> {
    let mut bytes = Vec::new();
    from.by_ref().take(size).read_to_end(&mut bytes).map_err(BundleError::Gzip)?;
    match bytes.len() as u64 == size {
        true => Ok(bytes),
        false => Err(BundleError::Archive("the archive ends too early".to_owned())),
    }
}

/// A header as POSIX.1-1988 (ustar) has it, of an ordinary file of nobody that anybody may read.
fn header(name: &str, size: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, &format!("{CREATED:011o}\0"));
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn size_in(header: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(header.get(124..135)?).ok()?;
    u64::from_str_radix(digits, 8).ok()
}

/// SHA-256 in hexadecimal digits.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let mut digest = Digest::default();
    digest.add(bytes);
    digest.hex()
}

/// The SHA-256 of what comes in pieces.
#[derive(Debug, Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Adds a piece.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// In hexadecimal digits.
    #[must_use]
    pub fn hex(self) -> String {
        self.0.finalize().iter().fold(String::new(), |mut text, byte| {
            // A `String` takes whatever is written to it.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}
