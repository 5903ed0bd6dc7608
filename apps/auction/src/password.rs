//! Passwords: Argon2id (RFC 9106), the cost a setting.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};

/// What one hash costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub memory_kib: u32,
    pub passes: u32,
}

impl Cost {
    /// `19456,2`: KiB of memory and passes over it.
    ///
    /// # Errors
    /// What would be right.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no cost; write KiB of memory and passes, like 19456,2");
        let (memory, passes) = text.split_once(',').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse().map_err(|why| format!("{}: {why}", wrong()));
        let cost = Cost { memory_kib: number(memory)?, passes: number(passes)? };
        cost.params().map(|_| cost)
    }

    fn params(self) -> Result<Params, String> {
        Params::new(self.memory_kib, self.passes, 1, None)
            .map_err(|why| format!("a cost that Argon2 does not have: {why}"))
    }
}

/// The hash of a password under a random salt, in PHC form, which names the cost.
///
/// # Errors
/// No random numbers, or an impossible cost.
pub(crate) fn hash(password: &str, cost: Cost) -> Result<String, String> {
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, cost.params()?);
    hasher
        .hash_password_with_salt(password.as_bytes(), &random::<16>()?)
        .map(|hash| hash.to_string())
        .map_err(|why| why.to_string())
}

/// Whether this is the password of that hash.
pub(crate) fn matches(password: &str, hash: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

/// Random bytes of the operating system.
///
/// # Errors
/// It gives none.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|why| format!("no random numbers: {why}"))?;
    Ok(bytes)
}

/// As lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Cost, hash, matches};

    #[test]
    fn only_the_password_matches_its_hash() {
        let hashed = hash("correct horse", Cost { memory_kib: 64, passes: 1 }).unwrap();
        assert!(hashed.starts_with("$argon2id$v=19$m=64,t=1,p=1$"), "{hashed}");
        assert!(matches("correct horse", &hashed));
        assert!(!matches("correct horsf", &hashed));
        assert!(!matches("correct horse", "no hash"));
        assert!(Cost::parse("19456").unwrap_err().contains("19456,2"));
        assert!(Cost::parse("1,1").is_err());
    }
}
