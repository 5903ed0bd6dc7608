//! Sales over SQLite.

use crate::market::all;
use crate::process::Site;
use tempfile::TempDir;

#[test]
fn sqlite_sells() {
    let folder = TempDir::new().unwrap();
    all(&mut Site::load(&format!("sqlite:{}/site.db", folder.path().display()), folder.path(), 30));
}
