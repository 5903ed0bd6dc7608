//! Where `make verify-kvm` has passed: what it has tried is not labelled untried there.
//!
//! A file in the user's data folder has the processor, the kernel, how KVM translates addresses, and the version of this program. Where one of
//! them is another one, or the file cannot be read, nothing is taken for tried.

use baremark_microvm::mmu_virtualization;
use baremark_sys::{machine, user_folder};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file, in the user's data folder.
const NAME: &str = "verified-kvm.json";
/// Format and version of the file.
const FORMAT: (&str, u32) = ("baremark-verified-kvm", 1);

/// What has passed, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Verified {
    /// [`FORMAT`].
    format: String,
    /// Its version.
    version: u32,
    /// The processor's name.
    processor: Option<String>,
    /// The kernel's release.
    kernel: Option<String>,
    /// How KVM translates addresses, such as `nested (EPT)`, which distinguishes PVM from a processor's own virtualization.
    kvm: String,
    /// This program's version.
    baremark: String,
}

impl Verified {
    /// As it would be noted now.
    fn now() -> Self {
        let facts = machine::read(Path::new("/"));
        Verified {
            format: FORMAT.0.to_owned(),
            version: FORMAT.1,
            processor: facts.cpu.model_name,
            kernel: facts.kernel.release,
            kvm: mmu_virtualization().to_string(),
            baremark: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Whether a file notes just this.
    fn is_noted_in(&self, file: &Path) -> bool {
        let is_known = self.processor.is_some() && self.kernel.is_some();
        let noted = fs::read(file).ok().and_then(|bytes| serde_json::from_slice::<Verified>(&bytes).ok());
        is_known && noted.as_ref() == Some(self)
    }

    /// Writes the file; one that was there stays whole until then.
    fn note_in(&self, file: &Path) -> io::Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = file.with_extension("new");
        fs::write(&new, serde_json::to_string(self)? + "\n")?;
        fs::rename(&new, file)
    }
}

/// Whether `make verify-kvm` has passed on this machine, as it is now, with this version.
#[must_use]
pub fn here() -> bool {
    file().is_ok_and(|file| Verified::now().is_noted_in(&file))
}

/// Notes that it has passed here, or forgets what was noted. The file.
///
/// # Errors
/// Where there is no home, or the file cannot be written or removed.
pub fn note(passed: bool) -> io::Result<PathBuf> {
    let file = file()?;
    if passed {
        Verified::now().note_in(&file)?;
        return Ok(file);
    }
    match fs::remove_file(&file) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
        _ => Ok(file),
    }
}

fn file() -> io::Result<PathBuf> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "neither XDG_DATA_HOME nor HOME is set");
    Ok(user_folder::data().ok_or_else(missing)?.join(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified() -> Verified {
        Verified {
            processor: Some("a processor".to_owned()),
            kernel: Some("6.18.0".to_owned()),
            kvm: "nested (EPT)".to_owned(),
            ..Verified::now()
        }
    }

    #[test]
    fn what_has_passed_holds_for_the_same_machine_and_version_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("data").join(NAME);
        assert!(!verified().is_noted_in(&file), "nothing is noted yet");
        verified().note_in(&file).expect("noted");
        assert!(verified().is_noted_in(&file));
        let others = [
            Verified { processor: Some("another".to_owned()), ..verified() },
            Verified { kernel: Some("6.19.0".to_owned()), ..verified() },
            Verified { kvm: "shadow (PVM)".to_owned(), ..verified() },
            Verified { baremark: "0.0.0".to_owned(), ..verified() },
            Verified { version: FORMAT.1 + 1, ..verified() },
        ];
        others.iter().for_each(|other| assert!(!other.is_noted_in(&file), "{other:?}"));
    }

    #[test]
    fn a_damaged_file_notes_nothing_nor_does_one_of_an_unknown_machine() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(NAME);
        verified().note_in(&file).expect("noted");
        let whole = fs::read(&file).expect("read");
        for damaged in [&whole[..whole.len() / 2], &b""[..], &b"{}"[..], &b"\xff\xfe"[..]] {
            fs::write(&file, damaged).expect("written");
            assert!(!verified().is_noted_in(&file), "{damaged:?}");
        }
        let unknown = Verified { processor: None, ..verified() };
        unknown.note_in(&file).expect("noted");
        assert!(!unknown.is_noted_in(&file));
    }
}
