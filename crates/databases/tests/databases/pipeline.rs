//! Statements that are sent together: which databases cannot.

use crate::bench::{setup, start};
use baremark_databases::database::{Database as _, Pipelined};
use baremark_databases::kind::Kind;
use baremark_databases::server::Setup;

#[test]
fn databases_without_such_a_protocol_refuse_it() {
    for (kind, why) in [(Kind::Sqlite, "is embedded"), (Kind::Mariadb, "one statement at a time")] {
        let misfit = Setup { pipeline: true, ..setup(kind) }.misfit().unwrap();
        assert!(misfit.what.starts_with("pipeline = true: ") && misfit.what.contains(why), "{misfit:?}");
    }
    let root = tempfile::tempdir().unwrap();
    let server = start(&setup(Kind::Sqlite), root.path()).unwrap();
    let why = Pipelined(&*server.database()).connect().err().unwrap();
    assert!(why.what.contains("sends one statement at a time; use database"), "{why}");
    assert_eq!(Setup { pipeline: true, ..setup(Kind::Postgres) }.misfit(), None);
    assert!(Setup { pipeline: true, front: Some(2), ..setup(Kind::Postgres) }.misfit().is_some());
}
