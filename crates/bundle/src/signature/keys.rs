//! Signing and verifying by each supported kind of key: what `ssh-key` reads is given to `ring`.

use num_bigint::BigUint;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair, KeyPairComponents, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED, ECDSA_P384_SHA384_FIXED_SIGNING,
    ED25519, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA512, RSA_PKCS1_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};
use ssh_key::private::{EcdsaKeypair, KeypairData, RsaKeypair};
use ssh_key::public::{EcdsaPublicKey, KeyData, RsaPublicKey};
use ssh_key::{Algorithm, EcdsaCurve, HashAlg, Mpint, Signature};

/// Whether `signature` is one of `data` by `key`; `None` for a kind of key that is not supported.
pub(super) fn verifies(key: &KeyData, signature: &Signature, data: &[u8]) -> Option<bool> {
    let by = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8], bytes: &[u8]| {
        UnparsedPublicKey::new(algorithm, key).verify(data, bytes).is_ok()
    };
    let bytes = signature.as_bytes();
    Some(match (key, signature.algorithm()) {
        (KeyData::Ed25519(key), Algorithm::Ed25519) => by(&ED25519, &key.0, bytes),
        (KeyData::Ecdsa(key), Algorithm::Ecdsa { curve }) if key.curve() == curve => {
            let (algorithm, length): (&'static dyn VerificationAlgorithm, usize) = match key {
                EcdsaPublicKey::NistP256(_) => (&ECDSA_P256_SHA256_FIXED, 32),
                EcdsaPublicKey::NistP384(_) => (&ECDSA_P384_SHA384_FIXED, 48),
                EcdsaPublicKey::NistP521(_) => return None,
            };
            fixed(bytes, length).is_some_and(|bytes| by(algorithm, key.as_sec1_bytes(), &bytes))
        }
        // Of sizes that ring does not verify nothing is known.
        (KeyData::Rsa(key), _) if !matches!(key.n.as_positive_bytes().map(<[u8]>::len), Some(256..=1024)) => {
            return None;
        }
        (KeyData::Rsa(key), Algorithm::Rsa { hash: Some(hash) }) => by_rsa(key, hash, data, bytes),
        (KeyData::Ed25519(_) | KeyData::Ecdsa(_) | KeyData::Rsa(_), _) => false,
        _ => return None,
    })
}

fn by_rsa(key: &RsaPublicKey, hash: HashAlg, data: &[u8], bytes: &[u8]) -> bool {
    let Some((n, e)) = key.n.as_positive_bytes().zip(key.e.as_positive_bytes()) else { return false };
    let algorithm = match hash {
        HashAlg::Sha256 => &RSA_PKCS1_2048_8192_SHA256,
        HashAlg::Sha512 => &RSA_PKCS1_2048_8192_SHA512,
        _ => return false,
    };
    // RFC 8017 has a signature as long as the modulus; some programs leave out zeros at its beginning, which OpenSSH puts there again.
    let whole = [vec![0; n.len().saturating_sub(bytes.len())], bytes.to_vec()].concat();
    PublicKeyComponents { n, e }.verify(algorithm, data, &whole).is_ok()
}

/// A signature of `data`; `None` for a kind or size of key that is not supported.
pub(super) fn sign_with(key: &KeypairData, data: &[u8]) -> Option<Signature> {
    match key {
        KeypairData::Ed25519(key) => {
            let pair = Ed25519KeyPair::from_seed_and_public_key(&key.private.to_bytes(), &key.public.0).ok()?;
            Signature::new(Algorithm::Ed25519, pair.sign(data).as_ref().to_vec()).ok()
        }
        KeypairData::Ecdsa(key) => {
            let (algorithm, curve): (&'static EcdsaSigningAlgorithm, _) = match key {
                EcdsaKeypair::NistP256 { .. } => (&ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaCurve::NistP256),
                EcdsaKeypair::NistP384 { .. } => (&ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaCurve::NistP384),
                EcdsaKeypair::NistP521 { .. } => return None,
            };
            let random = SystemRandom::new();
            let (private, public) = (key.private_key_bytes(), key.public_key_bytes());
            let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, private, public, &random).ok()?;
            let made = pair.sign(&random, data).ok()?;
            let (r, s) = made.as_ref().split_at(made.as_ref().len() / 2);
            let number = |bytes: &[u8]| string(Mpint::from_positive_bytes(bytes).ok()?.as_bytes());
            Signature::new(Algorithm::Ecdsa { curve }, [number(r)?, number(s)?].concat()).ok()
        }
        KeypairData::Rsa(key) => {
            let pair = rsa(key)?;
            let mut bytes = vec![0; pair.public().modulus_len()];
            pair.sign(&RSA_PKCS1_SHA512, &SystemRandom::new(), data, &mut bytes).ok()?;
            Signature::new(Algorithm::Rsa { hash: Some(HashAlg::Sha512) }, bytes).ok()
        }
        _ => None,
    }
}

/// OpenSSH stores an RSA key without the exponents of the Chinese remainder theorem, d mod (p - 1) and d mod (q - 1).
fn rsa(key: &RsaKeypair) -> Option<KeyPair> {
    let number = |of: &Mpint| of.as_positive_bytes().map(<[u8]>::to_vec);
    let (d, p, q) = (number(&key.private.d)?, number(&key.private.p)?, number(&key.private.q)?);
    let exponent = |prime: &[u8]| -> Option<Vec<u8>> {
        let prime = BigUint::from_bytes_be(prime);
        let less = (prime > BigUint::from(2u8)).then(|| prime - 1u8)?;
        Some((BigUint::from_bytes_be(&d) % less).to_bytes_be())
    };
    #[expect(non_snake_case, reason = "names of RFC 8017")]
    let (dP, dQ) = (exponent(&p)?, exponent(&q)?);
    let public_key = PublicKeyComponents { n: number(&key.public.n)?, e: number(&key.public.e)? };
    let whole = KeyPairComponents { public_key, d, p, q, dP, dQ, qInv: number(&key.private.iqmp)? };
    KeyPair::from_components(&whole).ok()
}

/// Bytes with their number before them, as SSH has every text and number (RFC 4251, section 5).
pub(super) fn string(bytes: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(bytes.len()).ok()?;
    Some([&length.to_be_bytes(), bytes].concat())
}

/// SSH has r and s of ECDSA as two numbers (RFC 5656, section 3.1.2), `ring` as bytes of one length.
fn fixed(bytes: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut both = Vec::new();
    let mut rest = bytes;
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let (number, after) = after.split_at_checked(usize::try_from(u32::from_be_bytes(*size)).ok()?)?;
        let number = Mpint::from_bytes(number).ok()?;
        let number = number.as_positive_bytes()?;
        both.resize(both.len() + length.checked_sub(number.len())?, 0);
        both.extend(number);
        rest = after;
    }
    (rest.is_empty() && both.len() == 2 * length).then_some(both)
}
