//! A store that an earlier version wrote, only read and brought up to date.

use baremark_store::{RunId, RunState, Store};
use std::fs;
use std::path::Path;

#[test]
fn a_golden_store_tells_the_same_when_only_read_as_when_brought_up_to_date() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../baremark/tests/golden/schema-3.db");
    let folder = tempfile::tempdir().unwrap();
    let [read, migrated] = ["read", "migrated"].map(|name| folder.path().join(name));
    fs::copy(&golden, &read).unwrap();
    fs::copy(&golden, &migrated).unwrap();
    let bytes = fs::read(&read).unwrap();
    drop(Store::open(&migrated).unwrap());
    let (read, migrated) = (Store::open_read_only(&read).unwrap(), Store::open_read_only(&migrated).unwrap());

    let runs = read.runs().unwrap();
    assert_eq!(runs, migrated.runs().unwrap());
    assert_eq!(
        runs.iter().map(|run| run.state).collect::<Vec<_>>(),
        [RunState::Killed, RunState::Finished, RunState::Finished]
    );
    for run in &runs {
        let stored = read.load(&run.id).unwrap();
        assert_eq!(stored, migrated.load(&run.id).unwrap());
        assert_eq!((stored.trials.len() as u64, stored.torn.len(), stored.unverified), (run.trials, 0, run.trials));
        assert_eq!((stored.damage, stored.format), (Vec::new(), 1));
    }
    let load: &RunId = &read.loads().unwrap()[0].id;
    assert_eq!(read.read_load(load).unwrap(), migrated.read_load(load).unwrap());
    assert_eq!(read.read_load(load).unwrap().seconds.len(), 3);
    assert_eq!(fs::read(read.path()).unwrap(), bytes, "reading changes nothing");
}
