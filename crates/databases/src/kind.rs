//! Which database a run has.

/// Which database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Embedded.
    #[default]
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
}

impl Kind {
    /// The words of a study.
    pub const WORDS: &'static [&'static str] = &["sqlite", "postgres", "mariadb"];

    /// The database of a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Kind> {
        let all = [Kind::Sqlite, Kind::Postgres, Kind::Mariadb];
        Kind::WORDS.iter().zip(all).find(|(known, _)| **known == word).map(|(_, kind)| kind)
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Kind::WORDS[self as usize]
    }
}
