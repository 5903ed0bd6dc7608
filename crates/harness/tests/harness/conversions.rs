//! From a command line or a topology file to the study that it describes.

use baremark_harness::convert::{Request, convert, is_study};
use baremark_harness::workload::DESCRIPTOR;
use baremark_model::plan::{Limits, Mode, Plan, resolve};
use baremark_model::study;
use baremark_model::units::Bytes;

const REQUEST: Request<'static> =
    Request { file: "it.toml", text: "", levels: &[], quick: false, blocks: 1, folder: None, keep: None };

/// The plan of a study, which must hold together.
fn planned(text: &str) -> Plan {
    let parsed = study::parse("study.toml", text.as_bytes(), &[&DESCRIPTOR]);
    let parsed = parsed.unwrap_or_else(|why| panic!("{why}\n{text}"));
    let limits = Limits {
        cpus: vec![0, 1],
        topology: None,
        quota_millicpus: None,
        memory_available: Bytes(8 << 30),
        absent: std::collections::BTreeMap::new(),
        emulated: std::collections::BTreeSet::new(),
        found: std::collections::BTreeMap::new(),
    };
    resolve("study.toml", &parsed, &limits, Mode::default()).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn written(request: &Request<'_>) -> String {
    convert(request).unwrap_or_else(|why| panic!("{why}")).study
}

fn refused(request: &Request<'_>) -> String {
    match convert(request) {
        Ok(found) => panic!("taken: {}", found.study),
        Err(why) => why.to_string(),
    }
}

fn parameter(plan: &Plan, arm: usize, key: &str) -> String {
    plan.arms[arm].arm.parameters.get(key).map_or_else(|| "none".to_owned(), ToString::to_string)
}

#[test]
fn without_a_file_it_is_one_search_for_the_most_users() {
    let text = written(&REQUEST);
    let expected = "[study]\ntitle = \"auction\"\n\n[workload]\nkind = \"auction\"\nusers = \"most\"\nduration = \"60 s\"\n\
        warm_up = \"20 s\"\ntimeout = \"885 s\"\n\n[design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nprecision = \"5 %\"\n\
        budget = \"168 h\"\n\n[report]\nmetric = \"maximum_users\"\n";
    assert_eq!(text, expected);
    let plan = planned(&text);
    assert_eq!((plan.arms.len(), plan.phases_of(plan.cells[0])), (1, 1), "one search, once");
    assert_eq!(parameter(&plan, 0, "users"), "most");
    assert!(is_study(&text) && !is_study("[load]\nusers = 3\n[study]\nblocks = 2\n"));
}

#[test]
fn keys_of_former_names_are_read_with_a_notice() {
    let text = "[load]\nusers = 3\nwarm = \"7 s\"\n[limits]\nbeyond = \"2 %\"\n";
    let found = convert(&Request { text, ..REQUEST }).unwrap_or_else(|why| panic!("{why}"));
    let notices = [
        "it.toml:3: 'warm' in [load] is called 'warm_up' now",
        "it.toml:5: 'beyond' in [limits] is called 'violations_allowed' now",
    ];
    assert_eq!(found.renamed, notices);
    assert!(found.study.contains("warm_up = \"7 s\"\n"), "{}", found.study);
    assert!(found.study.contains("violations_allowed = \"2 %\"\n"), "{}", found.study);
    // A study says the same of its own section.
    let old = found.study.replace("violations_allowed", "beyond");
    let parsed =
        study::parse("study.toml", old.as_bytes(), &[&DESCRIPTOR]).unwrap_or_else(|why| panic!("{why}\n{old}"));
    let [notice] = parsed.renamed.as_slice() else { panic!("{:?}", parsed.renamed) };
    assert!(notice.ends_with("'beyond' in [topology.limits] is called 'violations_allowed' now"), "{notice}");
    planned(&old);
}

#[test]
fn former_names_over_the_file_and_in_arms_have_a_notice() {
    let text = "[[study.arms]]\nname = \"a\"\nset = [\"limits.beyond = '1 %'\"]\n\
                [[study.arms]]\nname = \"b\"\nset = [\"limits.violations_allowed = '2 %'\"]\n";
    let levels = ["load.warm = '7 s'".to_owned()];
    let found = convert(&Request { text, levels: &levels, ..REQUEST }).unwrap_or_else(|why| panic!("{why}"));
    let notices = [
        "'load.warm = '7 s'': 'warm' in [load] is called 'warm_up' now",
        "'limits.beyond = '1 %'': 'beyond' in [limits] is called 'violations_allowed' now",
    ];
    assert_eq!(found.renamed, notices);
    assert!(found.study.contains("warm_up = \"7 s\"\n"), "{}", found.study);
}

/// A key that is varied by its former name is the key of today.
#[test]
fn a_factor_of_a_former_name_is_the_one_of_today() {
    let parse = |rest: &str| {
        let text = format!("[study]\ntitle = \"t\"\n[workload]\nkind = \"auction\"\nusers = 3\n{rest}");
        study::parse("study.toml", text.as_bytes(), &[&DESCRIPTOR])
    };
    let former = "\"limits.beyond\" = [\"1 %\", \"2 %\"]\n";
    let now = "\"limits.violations_allowed\" = [\"3 %\", \"4 %\"]\n";
    let varied = parse(&format!("[factors]\n{former}")).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(varied.factors[0].key, "limits.violations_allowed");
    let notice = "study.toml:7: 'limits.beyond' in [factors] is called 'limits.violations_allowed' now";
    assert_eq!(varied.renamed, [notice]);
    for (rest, phrase) in [
        (format!("[factors]\n{former}{now}"), "'limits.violations_allowed' is varied twice, once by its former name"),
        (
            format!("[topology.limits]\nbeyond = \"1 %\"\n[factors]\n{now}"),
            "'limits.violations_allowed' is set in [topology] and varied in [factors]",
        ),
        (
            format!("[topology.limits]\nviolations_allowed = \"1 %\"\n[factors]\n{former}"),
            "'limits.violations_allowed' is set in [topology] and varied in [factors]",
        ),
    ] {
        let said = parse(&rest).expect_err(&rest).to_string();
        assert!(said.contains(phrase), "{rest}: {said}");
    }
}

#[test]
fn what_lies_over_the_file_is_in_the_study() {
    let levels =
        ["load.users = 40", "app.settings.pool = 8", "load.users = 9", "topology.max_users = 75"].map(str::to_owned);
    let text = "[topology]\ntitle = \"a \\\"site\\\"\"\nmax_users = 400\n[load]\nusers = 7\ncycle = \"1 s\"\n";
    let request = Request {
        text,
        levels: &levels,
        quick: true,
        blocks: 5,
        folder: Some("/tmp/x"),
        keep: Some("/tmp/y"),
        ..REQUEST
    };
    let text = written(&request);
    let plan = planned(&text);
    assert_eq!(plan.title, "a \"site\"");
    assert_eq!((plan.design.least_blocks, plan.metric.as_str()), (5, "operations_per_s"));
    for (key, value) in [
        ("users", "40"),
        ("duration", "10 s"),
        ("warm_up", "4 s"),
        ("topology.max_users", "75"),
        ("topology.history", "1 %"),
        ("topology.load.cycle", "1 s"),
        ("topology.app.settings.pool", "8"),
        ("topology.folder", "/tmp/x"),
        ("topology.keep", "/tmp/y"),
        ("topology.load.users", "none"),
    ] {
        assert_eq!(parameter(&plan, 0, key), value, "{key}: {text}");
    }
}

#[test]
fn a_profile_becomes_the_users_and_a_limit_on_failures_the_error_limit() {
    let levels =
        ["load.users = 40", "load.profile = 'burst base=10 peak=40 every=4s lasting=1s'", "limits.failures = '99 %'"];
    let levels = levels.map(str::to_owned);
    let text = written(&Request { levels: &levels, ..REQUEST });
    let plan = planned(&text);
    assert_eq!(parameter(&plan, 0, "users"), "burst base=10 peak=40 every=4s lasting=1s");
    assert_eq!(parameter(&plan, 0, "error_limit"), "99 %");
    assert_eq!(parameter(&plan, 0, "topology.load.profile"), "none");
}

/// Arms of the former study files set several keys at once: each becomes a variant.
#[test]
fn arms_become_variants_of_one_factor() {
    let text = "[topology]\ntitle = \"bursts\"\n[balancer]\nservice = \"haproxy\"\n[database]\nservice = \"postgres\"\n[load]\nusers = 12\n\
        [study]\nblocks = 3\n[[study.arms]]\nname = \"one server\"\nset = []\n[[study.arms]]\nname = \"reactive: queue\"\n\
        set = [\"elastic.policy = 'queue'\", \"elastic.most = 2\", \"elastic.high = '20'\", \"elastic.low = '2'\", \"app.settings.pool = 3\"]\n";
    let levels = ["app.settings.pool = 8".to_owned()];
    let study = written(&Request { text, levels: &levels, ..REQUEST });
    let plan = planned(&study);
    let names: Vec<&str> = plan.arms.iter().map(|arm| arm.treatment["variant"].as_str()).collect();
    assert_eq!(names, ["one-server", "reactive-queue"]);
    assert_eq!((plan.design.least_blocks, plan.design.most_blocks), (3, 3));
    assert!(plan.pairs.iter().any(|pair| pair.asked), "the second is compared with the first");
    assert!(
        study.contains("[topology.variants.reactive-queue.elastic]\n") && study.contains("policy = \"queue\"\n"),
        "{study}"
    );
    assert!(!study.contains("variants.reactive-queue.app"), "what the command line sets lies over arms: {study}");
}

#[test]
fn mistakes_are_reported_with_the_line_of_the_file() {
    let arm = |set: &str| format!("[study]\nblocks = 1\n[[study.arms]]\nname = \"a\"\nset = [\"{set}\"]\n");
    for (text, phrase) in [
        ("[app]\ncount = 1\n\n[load]\nuser = 5\n", "it.toml:5: unknown key 'user' in [load]; did you mean 'users'?"),
        ("[study]\nblocks = 3\n", "[study] has no arms"),
        ("[study]\nblocks = 0\n[[study.arms]]\nname = \"a\"\nset = []\n", "it.toml:2: invalid blocks = 0 in [study]"),
        (
            "[study]\nblocks = 1\n[[study.arms]]\nname = \"a\"\nsets = []\n",
            "it.toml:5: unknown key 'sets' in [study.arms]; did you mean 'set'?",
        ),
        (&arm("app.cuont = 2"), "unknown key 'cuont' in [app]"),
        (&arm("load.users = 2"), "the arm 'a' sets load.users, which a study has in [workload]"),
    ] {
        let said = refused(&Request { text, ..REQUEST });
        assert!(said.contains(phrase), "{text}: {said}");
    }
}

/// Each key that moved is refused by its new name.
#[test]
fn a_study_names_where_keys_have_gone() {
    let head = "[study]\ntitle = \"t\"\n[workload]\nkind = \"auction\"\n";
    for (section, phrase) in [
        (
            "[topology.load]\nusers = 5\n",
            "study.toml:6: unknown key 'users' in [topology.load] of a study; write users in [workload]",
        ),
        ("[topology.load]\nprofile = \"\"\n", "write the profile as users in [workload] or [factors]"),
        (
            "[topology.load]\nwarm = \"1 s\"\n",
            "unknown key 'warm' in [topology.load] of a study; write warm_up in [workload] or [factors]",
        ),
        ("[topology]\nstudy = 1\n", "write what differs as levels in [factors], or as [topology.variants.NAME]"),
        ("[topology]\nvariant = \"b\"\n[topology.variants.a]\napp.count = 1\n", "this topology has no variant 'b'"),
        (
            "[topology.variants.a]\napp.cuont = 1\n",
            "study.toml:6: unknown key 'cuont' in [topology.variants.a.app]; did you mean 'count'?",
        ),
    ] {
        let text = format!("{head}{section}");
        match study::parse("study.toml", text.as_bytes(), &[&DESCRIPTOR]) {
            Ok(_) => panic!("taken: {text}"),
            Err(why) => assert!(why.to_string().contains(phrase), "{text}: {why}"),
        }
    }
}

#[test]
fn users_are_a_number_a_profile_or_most() {
    let refused = |users: &str, more: &str| {
        let text = format!("[study]\ntitle = \"t\"\n[workload]\nkind = \"auction\"\nusers = {users}\n{more}");
        let parsed = study::parse("study.toml", text.as_bytes(), &[&DESCRIPTOR]).unwrap_or_else(|why| panic!("{why}"));
        let limits = Limits {
            cpus: vec![0],
            topology: None,
            quota_millicpus: None,
            memory_available: Bytes(8 << 30),
            absent: std::collections::BTreeMap::new(),
            emulated: std::collections::BTreeSet::new(),
            found: std::collections::BTreeMap::new(),
        };
        resolve("study.toml", &parsed, &limits, Mode::default())
            .map_or_else(|why| why.to_string(), |_| "taken".to_owned())
    };
    for taken in ["12", "\"12\"", "\"most\"", "\"ramp from=1 to=20 over=5s\""] {
        assert_eq!(refused(taken, ""), "taken", "{taken}");
    }
    assert!(refused("0", "").contains("users = 0: out of range; write a number from 1"), "{}", refused("0", ""));
    assert!(refused("\"many\"", "").starts_with("study.toml:5: users = many: "), "{}", refused("\"many\"", ""));
    let many = refused("\"ramp from=1 to=5000 over=5s\"", "");
    assert!(many.contains("5000 users, and data for 4000 (max_users)"), "{many}");
    let long = refused("\"most\"", "timeout = \"1 min\"\n");
    assert!(long.contains("the search has a budget of 285 s (load.budget), and the timeout is 1 min"), "{long}");
}
