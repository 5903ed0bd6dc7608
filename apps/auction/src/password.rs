//! Passwords: Argon2id (RFC 9106), the cost a setting.

use argon2::password_hash::phc::{Output, PasswordHash};
use argon2::{Algorithm, Argon2, Block, Params, PasswordHasher, Version};

/// The most memory (RFC 9106 recommends up to that), and the most that all passes may go over.
const MOST_KIB: u32 = 2 << 20;
const MOST_KIB_IN_ALL: u64 = 8 << 20;

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
        let wrong = || format!("`{text}` is not a cost; write KiB of memory and passes, such as 19456,2");
        let (memory, passes) = text.split_once(',').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse().map_err(|why| format!("{}: {why}", wrong()));
        let cost = Cost { memory_kib: number(memory)?, passes: number(passes)? };
        if cost.memory_kib > MOST_KIB || u64::from(cost.memory_kib) * u64::from(cost.passes) > MOST_KIB_IN_ALL {
            return Err(format!(
                "`{text}` costs too much; write at most {MOST_KIB} KiB, times passes at most {MOST_KIB_IN_ALL}"
            ));
        }
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

/// Checks passwords, one after another, in memory that it keeps: taking and returning that much for each would leave the process with
/// many times what it needs.
#[derive(Default)]
pub(crate) struct Checker(Vec<Block>);

impl Checker {
    /// Whether this is the password of that hash.
    pub(crate) fn matches(&mut self, password: &str, hash: &str) -> bool {
        let Ok(hash) = PasswordHash::new(hash) else { return false };
        self.compare(password, &hash).unwrap_or(false)
    }

    fn compare(&mut self, password: &str, hash: &PasswordHash) -> Option<bool> {
        let (salt, wanted) = (hash.salt.as_ref()?, hash.hash.as_ref()?);
        let params = Params::try_from(hash).ok()?;
        let blocks = params.block_count();
        if self.0.len() < blocks {
            self.0.resize(blocks, Block::default());
        }
        let algorithm = Algorithm::try_from(hash.algorithm.as_str()).ok()?;
        let version = Version::try_from(hash.version.unwrap_or(0x13)).ok()?;
        let mut found = vec![0; wanted.as_bytes().len()];
        let hasher = Argon2::new(algorithm, version, params);
        hasher
            .hash_password_into_with_memory(password.as_bytes(), salt.as_ref(), &mut found, &mut self.0[..blocks])
            .ok()?;
        // Outputs are compared in a time that does not depend on them.
        Some(Output::new(&found).ok()? == *wanted)
    }
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
    use super::{Checker, Cost, hash};

    #[test]
    fn only_the_password_matches_its_hash() {
        let hashed = hash("correct horse", Cost { memory_kib: 64, passes: 1 }).unwrap();
        assert!(hashed.starts_with("$argon2id$v=19$m=64,t=1,p=1$"), "{hashed}");
        let mut checker = Checker::default();
        // A checker goes from one cost to another: stored hashes say theirs.
        for cost in ["512,1", "19456,2", "64,1"].map(|text| Cost::parse(text).unwrap()) {
            let hashed = hash("correct horse", cost).unwrap();
            assert!(checker.matches("correct horse", &hashed));
            assert!(!checker.matches("correct horsf", &hashed));
        }
        assert!(!checker.matches("correct horse", "no hash"));
        assert!(Cost::parse("19456").unwrap_err().contains("19456,2"));
        assert!(Cost::parse("1,1").is_err());
        assert!(Cost::parse("2097152,4").is_ok());
        for absurd in ["2097153,1", "2097152,5", "4294967295,4294967295", "8,4294967295"] {
            assert!(Cost::parse(absurd).unwrap_err().contains("costs too much"), "{absurd}");
        }
    }
}
