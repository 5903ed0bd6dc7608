//! A signature by an agent, over its socket: one request of the protocol of SSH agents (draft-ietf-sshm-ssh-agent, section 3.6).

use super::keys::string;
use ssh_key::public::KeyData;
use ssh_key::{PublicKey, Signature};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;
/// Of an RSA key: by SHA-512, and not by SHA-1, which is the default.
const RSA_SHA2_512: u32 = 4;
/// As OpenSSH's own limit.
const MOST_BYTES: u32 = 256 << 10;

/// The signature of `data` by `key`. It waits for as long as the agent does, which may ask somebody.
pub(super) fn sign(socket: &Path, key: &KeyData, data: &[u8]) -> io::Result<Signature> {
    let named = |why: io::Error| io::Error::new(why.kind(), format!("{}: {why}", socket.display()));
    let mut agent = UnixStream::connect(socket).map_err(named)?;
    let flags = if key.is_rsa() { RSA_SHA2_512 } else { 0 };
    let key = PublicKey::from(key.clone()).to_bytes().map_err(io::Error::other)?;
    let part = |bytes: &[u8]| string(bytes).ok_or_else(|| io::Error::other("longer than a request may be"));
    let body = [&[SIGN_REQUEST][..], &part(&key)?, &part(data)?, &flags.to_be_bytes()].concat();
    agent.write_all(&part(&body)?)?;
    let answer = next(&mut agent)?;
    match answer.split_first() {
        Some((&SIGN_RESPONSE, rest)) => {
            let signature = rest.get(4..).ok_or_else(|| io::Error::other("its answer is cut off"))?;
            Signature::try_from(signature).map_err(io::Error::other)
        }
        _ => Err(io::Error::other("it does not have this key, or was not allowed to sign")),
    }
}

fn next(agent: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    agent.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > MOST_BYTES {
        return Err(io::Error::other("its answer is too long"));
    }
    let mut bytes = Vec::new();
    agent.take(u64::from(length)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
