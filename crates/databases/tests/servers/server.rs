//! Servers in folders of the user's choice.

use crate::bench::{setup, start};
use baremark_databases::kind::Kind;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;

/// As root, servers run as users of their own. The folder that a study names for data is private, whatever its name is.
#[test]
fn a_server_starts_in_a_private_folder_of_any_name() {
    for kind in [Kind::Postgres, Kind::Mariadb] {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("shop");
        DirBuilder::new().mode(0o700).create(&data).unwrap();
        let Some(server) = start(&setup(kind), &data) else { continue };
        server.database().connect().unwrap_or_else(|why| panic!("{}: {why}", kind.word()));
    }
}
