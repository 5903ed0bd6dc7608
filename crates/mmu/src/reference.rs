//! Published values that the validation compares with, read from `reference/`.

use baremark_model::problem::{Problem, Problems};
use baremark_model::published::{self, Value};

/// A table of native and virtual cells by page size; higher is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Native, by page size: 4 KiB, 2 MiB.
    pub native: [f64; 2],
    /// Virtual with nested paging.
    pub nested: [f64; 2],
    /// Virtual with shadow paging.
    pub shadow: [f64; 2],
}

impl Published {
    /// Virtual over native, recomputed from the cells: nested and shadow.
    #[must_use]
    pub fn ratios(&self) -> [[f64; 2]; 2] {
        [self.nested, self.shadow].map(|cells| std::array::from_fn(|page| cells[page] / self.native[page]))
    }
}

/// StarRandomAccess and HPL of 2010.
///
/// # Errors
/// When the file was broken; tests read it.
pub fn hpc() -> Result<(Published, Published), Problems> {
    Ok((table("hpc-memory-2010/star-random-access")?, table("hpc-memory-2010/hpl")?))
}

/// By how much nested paging was better at most, in percent, where page tables change (2009).
///
/// # Errors
/// When the file was broken; tests read it.
pub fn assist_gain_percent() -> Result<f64, Problems> {
    const NAME: &str = "mmu-assist-2009/gains";
    let gain = published::find(NAME).and_then(|found| Value::of(found.table.row.first()?.cells.first()?));
    gain.map(|value| value.number).ok_or_else(|| broken(NAME, "the first row must have a number"))
}

/// A published table whose rows are small and large pages, and whose columns are native, nested and shadow.
fn table(name: &str) -> Result<Published, Problems> {
    let rows = match published::find(name) {
        Some(found) => &found.table.row,
        None => return Err(broken(name, "the table does not exist")),
    };
    let cell = |row: usize, column: usize| -> Option<f64> { rows.get(row)?.cells.get(column)?.parse().ok() };
    let column = |column| Some([cell(0, column)?, cell(1, column)?]);
    match (column(0), column(1), column(2)) {
        (Some(native), Some(nested), Some(shadow)) => Ok(Published { native, nested, shadow }),
        _ => Err(broken(name, "rows are small and large pages, columns native, nested, shadow; a cell is missing")),
    }
}

fn broken(name: &str, what: &str) -> Problems {
    let fix = "the table as it was published";
    Problems { file: format!("reference/{name}"), list: vec![Problem::new(0, what.to_owned(), fix)] }
}
