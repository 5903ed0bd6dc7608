//! Who made a bundle: a signature of `bundle.json`, which has the digest of every other file, so that whatever is changed, added or removed is
//! found.
//!
//! The format is that of `ssh-keygen -Y sign` (SSHSIG, OpenSSH's PROTOCOL.sshsig) with the namespace [`NAMESPACE`], so that anybody can check
//! a bundle with OpenSSH alone. Keys are those that people have for SSH; there is no other registry of keys than a file of allowed signers
//! ([`crate::Signers`]). The formats are those of the crate `ssh-key`, the cryptography is that of `ring`, which TLS needs anyway.
//!
//! A private key that is protected by a passphrase is not decrypted here: an agent signs with it, and with keys of which the file is elsewhere.

mod agent;
mod keys;

use keys::{sign_with, verifies};
use ssh_key::public::KeyData;
use ssh_key::{HashAlg, LineEnding, PrivateKey, PublicKey, Signature, SshSig};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// What a signature is for (`ssh-keygen -n`): one of another namespace, such as of a file or an e-mail, signs no bundle.
pub const NAMESPACE: &str = "baremark-bundle";
/// That of `ssh-keygen` where nothing else is requested.
const HASH: HashAlg = HashAlg::Sha512;
/// Keys are longer than this nowhere.
const MOST_KEY_BYTES: u64 = 64 << 10;

/// A signature that is one of `bundle.json`, by whomever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The signer's public key as SSH sends it (RFC 4253, section 6.6).
    pub(crate) key: Vec<u8>,
    /// Kind and fingerprint of the key, such as `ssh-ed25519 SHA256:...`, as `ssh-keygen -l` prints it.
    pub name: String,
}

/// Why a signature is not one of a bundle.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// It cannot be read.
    #[error("bundle.json.sig: {0}; the bundle is damaged")]
    Unreadable(#[source] ssh_key::Error),
    /// It is for something else.
    #[error("signed for the namespace '{0}', not for {NAMESPACE}; sign with `baremark bundle --sign`")]
    Namespace(String),
    /// Its key is of a kind that is not supported.
    #[error(
        "signed by a key of the type {0}, which is not supported; use ssh-ed25519, ECDSA P-256 or P-384, or RSA of 2048 bits or more"
    )]
    Kind(String),
    /// Something else was signed.
    #[error("the signature by {0} is not one of this bundle; it was changed after it was signed")]
    Wrong(String),
}

/// Why nothing could be signed.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// The file of the key cannot be read.
    #[error("reading the key {}: {why}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        why: io::Error,
    },
    /// Others can read the key.
    #[error("the key {} can be read by other users; run `chmod 600 {}`", .0.display(), .0.display())]
    Open(PathBuf),
    /// The file holds something else than a key.
    #[error("{}: not an SSH key that can be read here ({why}); make one with `ssh-keygen -t ed25519`, convert one with `ssh-keygen -p -f {}`, or add it to an agent (`ssh-add`) and name its .pub file", file.display(), file.display())]
    NotAKey {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        why: ssh_key::Error,
    },
    /// It is of a kind that cannot sign here.
    #[error("{}: keys of the type {kind} are not supported; use ssh-ed25519, ECDSA P-256 or P-384, or RSA of 2048 to 4096 bits", file.display())]
    Kind {
        /// The file.
        file: PathBuf,
        /// The type of the key.
        kind: String,
    },
    /// It is protected by a passphrase, or a public key, and there is no agent.
    #[error("{}: {what}, and no agent runs (SSH_AUTH_SOCK is not set); start one with `eval $(ssh-agent)` and add the key with `ssh-add`", file.display())]
    NoAgent {
        /// The file.
        file: PathBuf,
        /// What the file is.
        what: &'static str,
    },
    /// The agent did not sign.
    #[error("signing with {} through the agent: {why}; `ssh-add -l` lists its keys", file.display())]
    Agent {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        why: io::Error,
    },
    /// What was made is no signature.
    #[error("signing with {}: {why}", file.display())]
    Made {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        why: SignatureError,
    },
}

/// The signature of a manifest by the key in `file`: a private key, or a public one whose private part the agent at the socket `agent` has.
///
/// # Errors
/// When the file cannot be read as a key, others may read a private one, there is no agent where one is needed, or the agent refuses.
pub fn sign(manifest: &[u8], file: &Path, agent: Option<&Path>) -> Result<Vec<u8>, SigningError> {
    let text = read(file)?;
    let not_a_key = |why| SigningError::NotAKey { file: file.to_owned(), why };
    let made = |why| SigningError::Made { file: file.to_owned(), why };
    let data = SshSig::signed_data(NAMESPACE, HASH, manifest).map_err(|why| made(SignatureError::Unreadable(why)))?;
    let through_agent = |public: KeyData, what| -> Result<(KeyData, Signature), SigningError> {
        let no_agent = || SigningError::NoAgent { file: file.to_owned(), what };
        let asked = agent::sign(agent.ok_or_else(no_agent)?, &public, &data);
        asked.map(|signature| (public, signature)).map_err(|why| SigningError::Agent { file: file.to_owned(), why })
    };
    let (public, signature) = match PublicKey::from_openssh(text.trim()) {
        Ok(public) => through_agent(public.key_data().clone(), "a public key")?,
        Err(_) => {
            let private = PrivateKey::from_openssh(&text).map_err(not_a_key)?;
            kept_private(file)?;
            let public = private.public_key().key_data().clone();
            match private.is_encrypted() {
                true => through_agent(public, "protected by a passphrase")?,
                false => {
                    let kind = || SigningError::Kind { file: file.to_owned(), kind: public.algorithm().to_string() };
                    let signature = sign_with(private.key_data(), &data).ok_or_else(kind)?;
                    (public, signature)
                }
            }
        }
    };
    let whole = SshSig::new(public, NAMESPACE, HASH, signature).and_then(|signature| signature.to_pem(LineEnding::LF));
    let whole = whole.map_err(|why| made(SignatureError::Unreadable(why)))?.into_bytes();
    // An agent may answer anything, and a file's public part may be of another key.
    check(&whole, manifest).map_err(made)?;
    Ok(whole)
}

/// The text of a file of a key.
fn read(file: &Path) -> Result<String, SigningError> {
    let failed = |why| SigningError::Read { file: file.to_owned(), why };
    bounded(file, MOST_KEY_BYTES).map_err(failed)?.ok_or_else(|| failed(io::Error::other("longer than any key")))
}

/// The text of a file of at most so many bytes; `None` of a longer one, such as a device that goes on for ever.
///
/// # Errors
/// When it cannot be read, or is not UTF-8.
pub fn bounded(file: &Path, most: u64) -> io::Result<Option<String>> {
    let mut text = String::new();
    fs::File::open(file)?.take(most + 1).read_to_string(&mut text)?;
    Ok((text.len() as u64 <= most).then_some(text))
}

/// As `ssh` demands it: nobody but its owner reads a private key.
fn kept_private(file: &Path) -> Result<(), SigningError> {
    let about = fs::metadata(file).map_err(|why| SigningError::Read { file: file.to_owned(), why })?;
    match about.permissions().mode() & 0o077 {
        0 => Ok(()),
        _ => Err(SigningError::Open(file.to_owned())),
    }
}

/// Whose key signed this manifest; whether that key is one to be trusted is said by [`crate::Signers`].
///
/// # Errors
/// When the signature cannot be read, is for something else, or of other bytes.
pub fn check(signature: &[u8], manifest: &[u8]) -> Result<Signed, SignatureError> {
    let read = SshSig::from_pem(signature).map_err(SignatureError::Unreadable)?;
    if read.namespace() != NAMESPACE {
        return Err(SignatureError::Namespace(read.namespace().escape_debug().take(60).collect()));
    }
    let key = read.public_key();
    let data = SshSig::signed_data(NAMESPACE, read.hash_alg(), manifest).map_err(SignatureError::Unreadable)?;
    let name = format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256));
    match verifies(key, read.signature(), &data) {
        None => Err(SignatureError::Kind(key.algorithm().to_string().escape_debug().take(60).collect())),
        Some(false) => Err(SignatureError::Wrong(name)),
        Some(true) => {
            let public = PublicKey::from(key.clone());
            Ok(Signed { key: public.to_bytes().map_err(SignatureError::Unreadable)?, name })
        }
    }
}
