//! Settings of databases that cannot be, or cannot be together.

use crate::common::bench::{Bench, text, unbroken};
use crate::common::databases::study;

#[test]
fn what_cannot_be_together_is_refused_before_anything_runs() {
    let bench = Bench::new();
    for (workload, said) in [
        ("kind = \"order-entry\"\npace = \"keyed\"\nconnections = 11", "a warehouse has 10 terminals"),
        ("kind = \"order-entry\"\nhuge_pages = true", "huge_pages = true: sqlite cannot be held to it"),
        ("kind = \"dvd-store\"\nrate = 100\nthink = \"1 s\"", "rate is set and think is not 0"),
        ("kind = \"dvd-store\"\nreplication = \"on\"", "replication: sqlite has no second site here"),
        (
            "kind = \"dvd-store\"\ndatabase = \"postgres\"\nreplication = \"disk\"\nfsync = false",
            "replication: a commit that does not wait for its own disk waits for no second one",
        ),
        (
            "kind = \"dvd-store\"\ndatabase = \"postgres\"\nreplication = \"on\"\nsecond_site = \"far\"",
            "second_site = \"far\"",
        ),
        ("kind = \"management-db\"\nrate = 100", "rate: management-db has a feed of its own"),
        ("kind = \"order-entry\"\nutilization = 77\nrate = 100", "rate and utilization are set"),
        ("kind = \"order-entry\"\nnetwork = \"lab\"", "network = \"lab\": sqlite has no server"),
        ("kind = \"order-entry\"\nurl = \"postgres://me:secret@host:1/d\"", "url must be file:PATH or env:NAME"),
        ("kind = \"order-entry\"\nurl = \"env:URL\"", "url: sqlite has no server"),
        ("kind = \"dvd-store\"\npool = 2", "pool is set and front is \"none\""),
        ("kind = \"oltp-hammer\"\nmix = \"50/50\"", "must be four numbers of sum 100"),
        ("kind = \"oltp-hammer\"\ndatabase = \"mariadb\"\nfsync = false", "fsync = false: mariadb always syncs"),
    ] {
        bench.write("study.toml", study(&bench, workload));
        let output = bench.run(&["run", "study.toml"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
        assert!(!bench.path("baremark-data").exists());
    }
}

#[test]
fn settings_that_a_database_does_not_have_are_refused() {
    let bench = Bench::new();
    for (workload, words) in [
        ("kind = \"order-entry\"\npipeline = true", "pipeline = true: sqlite is embedded and has no protocol"),
        (
            "kind = \"order-entry\"\ndatabase = \"mariadb\"\npipeline = true",
            "pipeline = true: the client of mariadb sends one statement at a time",
        ),
        ("kind = \"oltp-hammer\"\nwal_sync_method = \"fsync\"", "wal_sync_method: sqlite has no such setting"),
        (
            "kind = \"oltp-hammer\"\ndatabase = \"postgres\"\nwal_sync_method = \"fsync\"\nfsync = false",
            "wal_sync_method is set and fsync = false: nothing is synced",
        ),
        (
            "kind = \"dvd-store\"\ndatabase = \"postgres\"\nreplication = \"on\"\nutilization = 50",
            "utilization and replication are set",
        ),
    ] {
        bench.write("study.toml", study(&bench, workload));
        let output = bench.run(&["plan", "study.toml"]);
        let said = unbroken(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
