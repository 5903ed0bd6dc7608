//! What a site keeps on disk is its user's alone, whatever the umask was: databases hold hashes, sessions and the servers'
//! common secret.

use crate::http::{User, send};
use crate::market::upload;
use crate::process::Site;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Everything below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { [below(&path), vec![path]].concat() } else { vec![path] }).collect()
}

#[test]
fn a_database_its_log_images_and_the_password_are_nobody_elses() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().display();
    let site = Site::load_drawn(&format!("sqlite:{path}/site.db"), folder.path(), 15, &format!("files:{path}/images"));
    let server = site.serve("1h");
    let at = server.address.as_str();
    let user = User::log_in(at, 1, &site.password);
    let offer = json!({ "name": "Lamp", "description": "Lights.", "manufacturer": "Me", "condition": "used", "starting_cents": 500 });
    let item = user.post(at, "/api/items", &offer).json()["item_id"].as_i64().unwrap();
    let jpeg = send(at, "GET", "/api/items/1/images/0/full", &[], b"").unwrap();
    assert_eq!(upload(&user, at, &format!("/api/items/{item}/images"), &jpeg.body).status, 201);
    let found = below(folder.path());
    for name in ["site.db", "site.db-wal", "site.db-shm", "password", "images"] {
        assert!(found.contains(&folder.path().join(name)), "no {name}: {found:?}");
    }
    for path in found {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        let right = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, right, "{}: {mode:o} instead of {right:o}", path.display());
    }
}
