//! Evidence that travels: a run with its trials in one file that anybody can read, check and compute again.
//!
//! A bundle is a tar archive, compressed by gzip, of six files with fixed names in a fixed order, so that the same run gives the same bytes, and
//! a seventh with a signature where somebody signed it. It is read as hostile input: sizes are bounded before memory is taken, the archive's headers must be those that this crate would
//! have written (so that there is no path to leave a folder by, no link and no device), nothing is written to a disk, and every file must have
//! the size and the SHA-256 that the first one names. What the files say is the business of whoever reads them.
//!
//! A bundle shows that its numbers follow from its trials; a signature shows who says so, by their SSH key.
#![forbid(unsafe_code)]

mod archive;
mod differences;
mod keys;
mod redact;
mod signature;
mod signers;
mod study;

pub use archive::{
    Bundle, BundleError, CREATED, Digest, FORMAT, MOST_BYTES, MOST_COMPRESSED, MOST_SIGNATURE_BYTES, Manifest, NAMES,
    SIGNATURE, digest, pack, unpack,
};
pub use differences::{MOST_NAMED, differences};
pub use redact::{Redactor, secrets_in};
pub use signature::{NAMESPACE, SignatureError, Signed, SigningError, bounded, check, sign};
pub use signers::{Allowed, SignerError, Signers, SignersError};

/// The script in every bundle that derives the printed numbers again.
pub const REDERIVE: &str = include_str!("rederive.py");
