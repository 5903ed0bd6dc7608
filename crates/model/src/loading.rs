//! How far the loading of data has come that a trial needs, for whoever watches.

use serde::{Deserialize, Serialize};

/// Rows of a database that is being filled before a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loading {
    /// Rows that are loaded, by all connections together.
    pub rows: u64,
    /// Rows that there will be; where their number is drawn, about. All are loaded where it equals `rows`.
    pub of: u64,
    /// Time since the first row, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Loading {
    /// Rows per second so far; `None` at the beginning.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn rows_per_s(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.rows as f64 * 1e9 / self.elapsed_ns as f64)
    }

    /// Whether all rows are loaded.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.rows >= self.of
    }

    /// That of several sites which load side by side; `None` where none does.
    #[must_use]
    pub fn together<'l>(sites: impl IntoIterator<Item = &'l Loading>) -> Option<Loading> {
        sites.into_iter().copied().reduce(|all, one| Loading {
            rows: all.rows.saturating_add(one.rows),
            of: all.of.saturating_add(one.of),
            elapsed_ns: all.elapsed_ns.max(one.elapsed_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_that_load_side_by_side_are_added_up() {
        let one = Loading { rows: 30, of: 100, elapsed_ns: 2_000_000_000 };
        let two = Loading { rows: 50, of: 50, elapsed_ns: 1_000_000_000 };
        let both = Loading::together([&one, &two]).expect("two sites");
        assert_eq!(both, Loading { rows: 80, of: 150, elapsed_ns: 2_000_000_000 });
        assert_eq!((both.rows_per_s(), both.is_complete(), two.is_complete()), (Some(40.0), false, true));
        assert_eq!((Loading::together([]), Loading::default().rows_per_s()), (None, None));
    }
}
