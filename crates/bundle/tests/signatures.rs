//! Signatures of bundles, with keys and signatures that ssh-keygen made (`tests/ssh/make`).
#![allow(clippy::unwrap_used, reason = "a test")]

use baremark_bundle::{Allowed, SignatureError, Signers, SigningError, check, sign};
use baremark_model::units::UnixTime;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;

/// 2026-11-28 12:00:00 UTC.
const NOW: UnixTime = UnixTime(1_795_867_200_000_000_000);

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ssh").join(name)
}

fn read(name: &str) -> Vec<u8> {
    fs::read(fixture(name)).unwrap()
}

/// A copy of a private key that its owner alone can read, which no clone keeps.
fn private(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    let copy = folder.path().join(name);
    fs::copy(fixture(name), &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
    copy
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn signatures_of_ssh_keygen_are_checked() {
    let signers = Signers::read(&String::from_utf8(read("allowed_signers")).unwrap()).unwrap();
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let signed = check(&read(&format!("manifest.{kind}")), &read("manifest")).unwrap();
        assert!(signed.name.contains(" SHA256:"), "{}", signed.name);
        assert_eq!(signers.allow(&signed, NOW), Allowed::By(format!("{kind}@example.org")));
        let why = check(&read(&format!("manifest.{kind}")), b"{\"format\":\"baremark-bundle/2\"}").unwrap_err();
        assert!(matches!(why, SignatureError::Wrong(_)), "{why}");
    }
    let stranger = check(&read("manifest.stranger"), &read("manifest")).unwrap();
    assert!(matches!(signers.allow(&stranger, NOW), Allowed::Not(why) if why.contains("not among the allowed")));
    let why = check(&read("manifest.file"), &read("manifest")).unwrap_err().to_string();
    assert!(why.contains("for the namespace 'file', not for baremark-bundle"), "{why}");
    let why = check(&read("manifest.p521"), &read("manifest")).unwrap_err().to_string();
    assert!(why.contains("of the type ecdsa-sha2-nistp521, which is not supported"), "{why}");
    assert!(matches!(check(b"-----BEGIN", b""), Err(SignatureError::Unreadable(_))));
}

/// By Ed25519 and RSA (PKCS #1 v1.5) the same key and text give the same signature.
#[test]
fn a_signature_is_the_one_that_ssh_keygen_makes() {
    let folder = folder();
    for kind in ["ed25519", "rsa"] {
        let made = sign(&read("manifest"), &private(&folder, kind), None).unwrap();
        assert_eq!(
            String::from_utf8(made).unwrap().trim(),
            String::from_utf8(read(&format!("manifest.{kind}"))).unwrap().trim()
        );
    }
    let made = sign(&read("manifest"), &private(&folder, "ecdsa"), None).unwrap();
    assert!(check(&made, &read("manifest")).unwrap().name.starts_with("ecdsa-sha2-nistp256 SHA256:"));
}

#[test]
fn a_flipped_byte_of_a_signature_is_found_or_is_none_of_it() {
    let whole = read("manifest.ed25519");
    let good = check(&whole, &read("manifest")).unwrap();
    for at in 0..whole.len() {
        for bit in [0, 2, 5] {
            let mut changed = whole.clone();
            changed[at] ^= 1 << bit;
            // The last base64 digit has bits that mean nothing; everything else is another key or a wrong signature.
            if let Ok(signed) = check(&changed, &read("manifest")) {
                assert_eq!(signed, good, "{at} {bit}");
                let read = |bytes: &[u8]| ssh_key::SshSig::from_pem(bytes).unwrap();
                assert_eq!(read(&changed), read(&whole), "{at} {bit}");
            }
        }
    }
}

#[test]
fn what_cannot_sign_is_refused_with_what_to_do() {
    let folder = folder();
    let refused = |file: &Path| sign(b"x", file, None).unwrap_err().to_string();
    let encrypted = private(&folder, "encrypted");
    assert!(refused(&encrypted).contains("protected by a passphrase, and no agent runs"), "{}", refused(&encrypted));
    assert!(refused(&encrypted).ends_with("`ssh-add`"), "{}", refused(&encrypted));
    assert!(refused(&fixture("ed25519.pub")).contains("a public key, and no agent runs"));
    let open = private(&folder, "ed25519");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(refused(&open).contains("can be read by other users; run `chmod 600"), "{}", refused(&open));
    let old = private(&folder, "old");
    assert!(refused(&old).contains("convert one with `ssh-keygen -p -f"), "{}", refused(&old));
    let large = private(&folder, "p521");
    assert!(refused(&large).contains("add it to an agent"), "{}", refused(&large));
    assert!(refused(&fixture("manifest")).contains("not an SSH key"));
    assert!(matches!(sign(b"x", &folder.path().join("none"), None), Err(SigningError::Read { .. })));
    let gone = sign(b"x", &fixture("ed25519.pub"), Some(&folder.path().join("gone"))).unwrap_err().to_string();
    assert!(gone.contains("through the agent") && gone.contains("gone"), "{gone}");
}

/// An agent that is played: what it is asked for is a signature by this key, and what it answers is checked before anything is written.
#[test]
fn an_agent_s_answer_is_checked() {
    let folder = folder();
    let socket = folder.path().join("agent");
    let listener = UnixListener::bind(&socket).unwrap();
    let blob = |name: &str| {
        let signature = ssh_key::SshSig::from_pem(read(name)).unwrap();
        let blob = Vec::<u8>::try_from(signature.signature().clone()).unwrap();
        [&[14][..], &u32::try_from(blob.len()).unwrap().to_be_bytes(), &blob].concat()
    };
    // The last but one is a signature by the key of something else, the last what was asked for.
    let (other, right) = (blob("manifest.file"), blob("manifest.ed25519"));
    let answers = [vec![5_u8], vec![14, 0, 0], vec![14, 0, 0, 0, 1, 9], Vec::new(), other, right];
    let count = answers.len();
    let agent = thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut request = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut request).unwrap();
            assert_eq!(request[0], 13);
            stream.write_all(&u32::try_from(answer.len()).unwrap().to_be_bytes()).unwrap();
            stream.write_all(&answer).unwrap();
        }
    });
    for _ in 1..count {
        let why = sign(&read("manifest"), &fixture("ed25519.pub"), Some(&socket)).unwrap_err().to_string();
        assert!(why.contains("through the agent: ") || why.contains("changed after it was signed"), "{why}");
    }
    let made = sign(&read("manifest"), &fixture("ed25519.pub"), Some(&socket)).unwrap();
    agent.join().unwrap();
    assert!(check(&made, &read("manifest")).unwrap().name.starts_with("ssh-ed25519 "));
}
