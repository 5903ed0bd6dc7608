//! Whose signature a bundle has, and whether the reader allows that key.

use crate::exit::Refusal;
use baremark_bundle::{Allowed, Bundle, NAMESPACE, SignatureError, Signed, Signers, bounded, check};
use baremark_model::units::UnixTime;
use baremark_sys::wall::unix_time_ns;
use serde_json::{Value, json};
use std::path::Path;

/// Longer files of allowed signers are refused.
const MOST_BYTES: u64 = 16 << 20;

/// Who signed a bundle.
pub struct Signer {
    /// The key of the signature, which is one of the bundle.
    key: Option<Signed>,
    /// Who may sign with it, once somebody has said who may.
    principals: Option<String>,
    /// Why the signature is not what it should be.
    refused: Option<String>,
    /// What a reader does not know of who made it.
    unproved: Option<String>,
}

/// The keys that a reader allows.
///
/// # Errors
/// When the file cannot be read, or a line of it is none.
pub fn allowed(file: &Path) -> Result<Signers, Refusal> {
    let bad = |why: String| Refusal::bad_input(format!("{}: {why}", file.display()));
    let long = || bad(format!("longer than {} MiB; name a file of allowed signers", MOST_BYTES >> 20));
    let text = bounded(file, MOST_BYTES).map_err(|why| bad(why.to_string()))?.ok_or_else(long)?;
    Signers::read(&text).map_err(|why| bad(why.to_string()))
}

impl Signer {
    /// Of a bundle.
    ///
    /// # Errors
    /// When its signature cannot be read.
    pub fn of(bundle: &Bundle) -> Result<Signer, SignatureError> {
        let nobody = Signer { key: None, principals: None, refused: None, unproved: None };
        let Some(signature) = &bundle.signature else {
            return Ok(Signer { unproved: Some("who made the bundle: it is not signed".to_owned()), ..nobody });
        };
        let manifest = bundle.manifest().unwrap_or_default();
        match check(signature, &manifest) {
            Ok(key) => {
                let unproved = format!("whose key {} is; --allowed-signers FILE says whose you allow", key.name);
                Ok(Signer { key: Some(key), unproved: Some(unproved), ..nobody })
            }
            Err(why @ SignatureError::Unreadable(_)) => Err(why),
            Err(why) => Ok(Signer { refused: Some(format!("bundle.json.sig: {why}")), ..nobody }),
        }
    }

    /// Demands that one of these has signed.
    pub fn demand(&mut self, allowed: &Signers) {
        let Some(key) = &self.key else {
            self.refused.get_or_insert_with(|| "not signed; sign with `baremark bundle --sign KEY`".to_owned());
            return;
        };
        match allowed.allow(key, UnixTime(unix_time_ns())) {
            Allowed::By(principals) => {
                self.unproved = None;
                self.principals = Some(principals);
            }
            Allowed::Not(why) => self.refused = Some(format!("bundle.json.sig: {why}")),
        }
    }

    /// Why the signature is not what it should be.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// What is not known of who made the bundle.
    pub fn unproved(&self) -> Option<&str> {
        self.unproved.as_deref()
    }

    /// "maria@example.org with ssh-ed25519 SHA256:..."
    pub fn line(&self) -> Option<String> {
        let key = self.key.as_ref()?;
        Some(match &self.principals {
            Some(principals) => format!("{principals} with {}", key.name),
            None => key.name.clone(),
        })
    }

    /// `null` where there is none that holds.
    pub fn json(&self) -> Value {
        let of = |key: &Signed| json!({ "key": key.name, "namespace": NAMESPACE, "allowed_for": self.principals });
        self.key.as_ref().map_or(Value::Null, of)
    }
}
