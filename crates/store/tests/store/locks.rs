//! One process at a time works on a run, and a dead one holds nothing.

use crate::support::*;
use baremark_store::{LockError, RunState, Store};

#[test]
fn a_second_process_is_told_who_holds_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Store::open(&path).unwrap();
    let mut holder = Talker::start(child("hold", &path));
    assert_eq!(holder.hear().as_deref(), Some("held"));

    let run = store.latest().unwrap().unwrap();
    assert_eq!(run.state, RunState::Live);
    assert_eq!(store.latest_unfinished().unwrap(), None, "a live run is not to be resumed");
    match store.lock(&run.id) {
        Err(why @ LockError::Live { pid, .. }) => {
            assert_eq!(pid, Some(holder.child.id()));
            let said = format!(
                "run {} is live: process {} works on it; wait for it to end, or end it",
                run.id,
                holder.child.id()
            );
            assert_eq!(why.to_string(), said);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_killed_holder_frees_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Store::open(&path).unwrap();
    let mut holder = Talker::start(child("hold", &path));
    assert_eq!(holder.hear().as_deref(), Some("held"));
    holder.child.kill().unwrap();
    holder.child.wait().unwrap();

    let run = store.latest_unfinished().unwrap().expect("a run to resume");
    assert_eq!(run.state, RunState::Killed);
    let held = store.lock(&run.id).unwrap();
    assert_eq!(store.latest().unwrap().unwrap().state, RunState::Live);
    assert!(matches!(store.lock(&run.id), Err(LockError::Live { .. })), "not twice in one process either");
    drop(held);
    assert_eq!(store.latest().unwrap().unwrap().state, RunState::Killed);
    let left = std::fs::read_dir(folder.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".lock"));
    assert_eq!(left.count(), 0, "no lock file stays behind");
}

#[test]
fn locks_pass_from_hand_to_hand_without_ever_being_in_two() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let id = Store::open(&path).unwrap().create_run(&run(None)).unwrap();
    let inside = std::sync::atomic::AtomicUsize::new(0);
    let taken = std::sync::atomic::AtomicUsize::new(0);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = Store::open(&path).unwrap();
                for _ in 0..50 {
                    let held = loop {
                        match store.lock(&id) {
                            Ok(held) => break held,
                            Err(LockError::Live { .. }) if std::time::Instant::now() < deadline => {
                                std::thread::yield_now();
                            }
                            Err(why) => panic!("{why}"),
                        }
                    };
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    taken.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert_eq!(inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst), 1);
                    drop(held);
                }
            });
        }
    });
    assert_eq!(taken.into_inner(), 200);
}
