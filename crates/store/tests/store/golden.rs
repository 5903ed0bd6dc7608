//! A store that an earlier version wrote, only read and brought up to date.

use crate::support::{STARTED, plan, run, spec};
use baremark_model::arm::ResolvedArm;
use baremark_model::event::TrialStatus;
use baremark_model::maximum::{Plan as SearchPlan, SearchRequest};
use baremark_model::page_size::PageSize;
use baremark_model::plan::{Plan, PlannedArm, Treatment};
use baremark_model::scale::InjectedCosts;
use baremark_model::units::{Nanos, Share, UnixTime};
use baremark_model::value::Value;
use baremark_model::wire::{ArmSpec, TrialSpec};
use baremark_store::{RunId, RunRecord, RunState, Store, TrialEntry};
use std::collections::BTreeMap;
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

/// The request of a search as earlier versions wrote it.
const SEARCH: &str = r##"# search: {"factor":"rate","plan":{"lowest":100.0,"first":100.0,"highest":2000.0,"finest":0.025,"window_s":0.2,"settle_s":0.05,"visits":6,"windows_per_visit":6,"trials":1,"confidence":0.95,"samples":"each","confirming":1},"limits":["failures<10 %"],"seed":1,"cpus":[2],"complete":true,"scenario":null,"around":512.5,"count_disturbed":true}"##;

#[test]
fn what_earlier_versions_kept_in_comments_of_a_study_is_in_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baremark.db");
    let store = Store::open(&path).unwrap();
    let stored = |study_text: &str| {
        let id = store.create_run(&RunRecord { study_text: study_text.to_owned(), ..run(None) }).unwrap();
        store.finish(&id, UnixTime(STARTED.0 + 1), "complete").unwrap();
        id
    };
    let search = stored(&format!("[study]\ntitle = \"a\"\n{SEARCH}\n"));
    let blinded = stored("[study]\ntitle = \"b\"\n\n# blinded until everything is found: 16bb=5 %,6048=0 %\n");
    let users = stored("# search: for the cause\n[study]\ntitle = \"c\"\n");
    drop(store);
    let store = Store::open_read_only(&path).unwrap();
    let request = SearchRequest {
        plan: SearchPlan {
            window_s: 0.2,
            settle_s: 0.05,
            visits: 6,
            trials: 1,
            confirming: 1,
            ..SearchPlan::between(100.0, 2000.0)
        },
        limits: vec!["failures<10%".parse().unwrap()],
        seed: 1,
        cpus: vec![2],
        complete: true,
        scenario: None,
        around: Some(512.5),
        count_disturbed: true,
    };
    let costs = InjectedCosts(BTreeMap::from([("16bb".to_owned(), Share(0.05)), ("6048".to_owned(), Share(0.0))]));
    for (id, text, expected) in [
        (search, "[study]\ntitle = \"a\"\n", Plan { search: Some(request), ..plan() }),
        (blinded, "[study]\ntitle = \"b\"\n\n", Plan { injected: Some(costs), ..plan() }),
        (users, "# search: for the cause\n[study]\ntitle = \"c\"\n", plan()),
    ] {
        let stored = store.load_intact(&id).unwrap();
        assert_eq!((stored.study_text.as_str(), stored.plan), (text, expected));
        let head = store.load_head(&id).unwrap();
        assert_eq!((head.study_text, head.plan), (stored.study_text, store.load(&id).unwrap().plan));
    }
}

/// A plan of Java warehouses whose factor and parameters have these names, and the request of a trial of it.
fn of_java(pages: &str, warm_up: &str) -> (Plan, TrialSpec) {
    let text = |text: &str| Value::Choice(text.to_owned());
    let arm = ResolvedArm::native(1, PageSize::Small).with(pages, text("thp"));
    let arm = arm.with(warm_up, Value::TimeNs(Nanos(1))).with("gc", text("g1"));
    let planned = PlannedArm {
        treatment: Treatment::from([(pages.to_owned(), "thp".to_owned())]),
        environment: "native".to_owned(),
        like: None,
        arm: arm.clone(),
        emulated: false,
    };
    let plan = Plan {
        workload: "jvm-warehouse".to_owned(),
        factors: vec![(pages.to_owned(), vec!["4k".to_owned(), "thp".to_owned()])],
        rows: Some(pages.to_owned()),
        arms: vec![planned],
        ..plan()
    };
    let arms = [ArmSpec::of_one(arm)].into();
    (plan, TrialSpec { workload: "jvm-warehouse".to_owned(), arms, ..spec(1) })
}

/// What is read of a run whose plan and trial were stored so.
fn read_back(plan: &Plan, spec: &TrialSpec) -> (Plan, TrialSpec) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baremark.db");
    let store = Store::open(&path).unwrap();
    let id = store.create_run(&RunRecord { plan: plan.clone(), ..run(None) }).unwrap();
    let entry = TrialEntry {
        block: 0,
        cell: 0,
        seq: 0,
        spec,
        status: &TrialStatus::Failed { reason: "it did not start".to_owned() },
        result: None,
        started: UnixTime(STARTED.0 + 1),
        elapsed: Nanos(5),
        blocks_complete: 1,
    };
    store.add_trial(&id, &entry).unwrap();
    store.finish(&id, UnixTime(STARTED.0 + 2), "complete").unwrap();
    let mut stored = store.load_intact(&id).unwrap();
    assert_eq!(store.load_head(&id).unwrap().plan, stored.plan);
    (stored.plan, stored.trials.remove(0).spec)
}

#[test]
fn what_was_stored_with_former_names_of_parameters_has_those_of_today() {
    let today = of_java("heap_pages", "warm_up");
    let (plan, spec) = of_java("pages", "warm");
    assert_eq!(read_back(&plan, &spec), today);
    assert_eq!(read_back(&today.0, &today.1), today);
    // What another workload calls so is its own.
    let own = Plan { workload: "command".to_owned(), ..plan };
    let spec = TrialSpec { workload: "command".to_owned(), ..spec };
    assert_eq!(read_back(&own, &spec), (own, spec));
}
