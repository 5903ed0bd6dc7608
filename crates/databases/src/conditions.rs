//! Consistency conditions of a workload's data, as queries that count what violates them.

use crate::database::{Connection, Failure, Rows};

/// A condition that holds whenever no transaction is under way.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Its number.
    pub number: u32,
    /// What holds.
    pub what: &'static str,
    /// Counts the rows that violate it.
    pub violations: &'static str,
}

impl Condition {
    /// What holds, as condition `number`; the query that counts what violates it follows ([`Condition::counted_by`]).
    pub(crate) const fn new(number: u32, what: &'static str) -> Condition {
        Condition { number, what, violations: "" }
    }

    /// The condition with the query that counts the rows which violate it.
    pub(crate) const fn counted_by(self, violations: &'static str) -> Condition {
        Condition { violations, ..self }
    }
}

/// Checks conditions. Returns those that are violated, each with the number of rows.
///
/// # Errors
/// What the database says.
pub fn violated(connection: &mut dyn Connection, conditions: &[Condition]) -> Result<Vec<(Condition, i64)>, Failure> {
    let mut rows = Rows::default();
    let mut found = Vec::new();
    for condition in conditions {
        connection.query(condition.violations, &mut rows)?;
        let count = rows.int(0, 0)?;
        if count != 0 {
            found.push((*condition, count));
        }
    }
    Ok(found)
}

/// The same in words; `None` when all hold.
///
/// # Errors
/// What the database says.
pub fn broken(connection: &mut dyn Connection, conditions: &[Condition]) -> Result<Option<String>, Failure> {
    let found = violated(connection, conditions)?;
    let words: Vec<String> = found
        .iter()
        .map(|(condition, rows)| format!("condition {} ({}) fails in {rows} rows", condition.number, condition.what))
        .collect();
    Ok((!words.is_empty()).then(|| words.join("; ")))
}

/// What was acknowledged of one kind of change, and what the database has of it.
pub(crate) struct Account {
    /// What is counted.
    pub what: &'static str,
    /// How many the database has.
    pub found: i64,
    /// How many were acknowledged.
    pub known: i64,
    /// How many more there may be, of unknown outcome.
    pub unknown: i64,
}

/// The mismatches of accounts in words; `None` where there are none.
pub(crate) fn mismatches(accounts: &[Account]) -> Option<String> {
    let wrong = accounts.iter().filter(|a| !(a.known..=a.known + a.unknown).contains(&a.found));
    let words: Vec<String> = wrong
        .map(|Account { what, found, known, unknown }| {
            format!("{what}: {known} acknowledged and {unknown} of unknown outcome, {found} in the database")
        })
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}
