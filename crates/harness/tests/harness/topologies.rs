//! From a file and the defaults to a plan, and every mistake with its line.

use baremark_harness::cluster::{Cluster, ClusterError};
use baremark_harness::topology::{On, QUICK, Topology, resolve};
use baremark_model::maximum::Samples;
use baremark_services::card::Tier;

fn resolved(text: &str, levels: &[&str]) -> Topology {
    let levels: Vec<String> = levels.iter().map(|level| (*level).to_owned()).collect();
    resolve("it.toml", text, &levels).unwrap_or_else(|why| panic!("{why}"))
}

fn refused(text: &str) -> String {
    match resolve("it.toml", text, &[]) {
        Ok(_) => panic!("taken: {text}"),
        Err(why) => why.to_string(),
    }
}

#[test]
fn without_a_file_it_is_one_server_on_sqlite_and_a_search_within_five_minutes() {
    let topology = resolved("", &[]);
    let [application] = &topology.applications[..] else { panic!("one application") };
    assert_eq!(
        (application.name.as_str(), application.database.as_str(), application.bus.as_str()),
        ("main", "sqlite", "process")
    );
    assert_eq!(application.tiers.keys().collect::<Vec<_>>(), [&Tier::App]);
    assert_eq!(application.tiers[&Tier::App].on, On::Native);
    // Production's 19456,2 was 95 % of the app server's CPU time in the mix; what this one is, the test `log_ins_of_a_steady_population` measures.
    assert_eq!(application.argon2, "512,1");
    let load = &topology.load;
    assert_eq!(load.users, None);
    assert!(load.budget_s.is_some_and(|budget| budget < 300.0), "{:?}", load.budget_s);
    assert_eq!((load.beyond, load.delay_s, load.failures), (0.01, 0.5, 0.005), "99 %, 500 ms, 0.5 %");
    let quick = resolved("", &[baremark_harness::topology::QUICK]);
    assert!(quick.load.budget_s.is_some_and(|budget| budget < 120.0), "{:?}", quick.load.budget_s);
}

#[test]
fn a_level_lies_over_an_instance_over_the_file_over_the_defaults() {
    let file = "[load]\nusers = 7\nwarm = \"3 s\"\n[services.auction]\npool = 5\nopen = \"9 s\"\n[app.settings]\npool = 6\n\
                [instances.one]\napp.settings.pool = 8\n[instances.two.topology]\nmax_users = 90\n";
    let topology = resolved(file, &["load.users = 11"]);
    assert_eq!(topology.load.users, Some(11), "the level");
    assert_eq!(topology.load.warm_s, 3.0, "the file");
    assert_eq!(topology.load.beyond, 0.01, "the defaults");
    let names: Vec<&str> = topology.applications.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    let pools: Vec<u64> =
        topology.applications.iter().map(|one| one.tiers[&Tier::App].settings.count("pool")).collect();
    assert_eq!(pools, [8, 6], "the instance's own, else the tier's, which lies over the service's 5");
    assert_eq!(topology.applications[1].max_users, 90);
    let own = resolved("[load]\nusers = 9\n[instances.a]\n[instances.b.load]\nusers = 3\ncycle = \"2 s\"\n", &[]);
    let loads: Vec<_> = own.applications.iter().map(|one| (one.load.users, one.load.cycle_s)).collect();
    assert_eq!(loads, [(Some(9), 0.5), (Some(3), 2.0)]);
    assert_eq!(topology.applications[0].tiers[&Tier::App].settings.ms("open"), 9000);
}

#[test]
fn the_full_topology_has_its_tiers_and_the_bus_that_does() {
    let full = "balancer.service = 'haproxy'\nweb.service = 'nginx'\nweb.count = 2\napp.count = 2\n";
    for (database, bus, found) in
        [("postgres", "auto", "postgres"), ("mariadb", "auto", "redis"), ("postgres", "redis", "redis")]
    {
        let text = format!("{full}database.service = '{database}'\nbus.service = '{bus}'\n");
        let topology = resolved(&text, &[]);
        let application = &topology.applications[0];
        assert_eq!((application.database.as_str(), application.bus.as_str()), (database, found), "{text}");
        assert_eq!(application.tiers[&Tier::Web].count, 2);
    }
    let one = resolved("database.service = 'postgres'", &[]);
    assert_eq!(one.applications[0].bus, "process", "one server has nobody to tell");
    let scaled = resolved(
        "balancer.service = 'haproxy'\ndatabase.service = 'postgres'\nelastic.schedule = [{ at = '5 s', app = 3 }]",
        &[],
    );
    assert_eq!(scaled.applications[0].bus, "postgres", "later there are more");
}

#[test]
fn balancers_can_be_several_and_users_are_spread_over_them() {
    let topology = resolved("balancer.service = 'haproxy'\nbalancer.count = 3\n", &[]);
    assert_eq!(topology.applications[0].tiers[&Tier::Balancer].count, 3);
}

#[test]
fn a_database_on_a_server_that_is_there_has_no_settings_of_ours() {
    let text =
        "[database]\nservice = 'mariadb'\non = 'external:db.example:3306'\nname = 'mine'\ncredentials = '/a/file'\n";
    let topology = resolved(text, &[]);
    let application = &topology.applications[0];
    let external = application.external.as_ref().unwrap();
    assert_eq!(
        (external.service, external.server.as_str(), external.name.as_str()),
        ("mariadb", "db.example:3306", "mine")
    );
    assert_eq!(external.credentials.as_deref(), Some(std::path::Path::new("/a/file")));
    let tier = &application.tiers[&Tier::Database];
    assert_eq!(tier.on.to_string(), "external:db.example:3306");
    assert_eq!(tier.settings.iter().count(), 0, "what is not ours is not reported as ours");
}

/// A named size lies over the defaults, and whatever a topology says over it.
#[test]
fn a_configuration_is_a_size_by_name() {
    let counts = |text: &str, levels: &[&str]| {
        let topology = resolved(text, levels);
        let tiers = &topology.applications[0].tiers;
        let count = |tier: Tier| tiers.get(&tier).map_or(0, |plan| plan.count);
        (topology.applications[0].max_users, count(Tier::Balancer), count(Tier::Web), count(Tier::App))
    };
    assert_eq!(counts("[topology]\nconfiguration = 'micro'\n", &[]), (1000, 0, 0, 1));
    assert_eq!(counts("configuration = 'medium'\n", &[]), (10_000, 1, 2, 2), "at the top, as studies have it");
    assert_eq!(counts("", &["topology.configuration = 'large'"]), (40_000, 2, 4, 4), "by --set");
    assert_eq!(
        counts("[topology]\nconfiguration = 'large'\n[web]\ncount = 1\n", &["app.count = 3"]),
        (40_000, 2, 1, 3)
    );
    for (name, text) in baremark_harness::topology::CONFIGURATIONS {
        assert!(text.starts_with("# "), "{name} says what it is");
        resolved(&format!("configuration = '{name}'"), &[]);
        let help = baremark_harness::workload::DESCRIPTOR.section.unwrap().help;
        assert!(help.contains(name) && baremark_harness::topology::DEFAULTS.contains(name), "{name} is listed");
    }
    let why = refused("[topology]\nconfiguration = \"smal\"\n");
    assert!(why.contains("it.toml:2: unknown configuration 'smal'; did you mean 'small'?"), "{why}");
}

#[test]
fn containers_of_tiers_have_an_engine_and_the_network_of_this_machine() {
    let topology = resolved("[environments.container]\nengine = \"docker\"\n", &[]);
    assert_eq!(topology.environments["container"]["engine"].to_string(), "docker");
    assert_eq!(resolved("", &[]).environments["container"]["engine"].to_string(), "podman");
    let why = refused("[environments.container]\nengine = \"rkt\"\nnetwork = \"none\"\nimage = \"x\"\n");
    for phrase in
        ["it.toml:2: ", "it.toml:3: containers on the network none", "write network = \"host\"", "it.toml:4: "]
    {
        assert!(why.contains(phrase), "{why}");
    }
}

/// A bus that is a service of its own has an instance, also where `auto` found that it needs one.
#[test]
fn a_bus_of_its_own_is_started() {
    let text = "balancer.service = 'haproxy'\ndatabase.service = 'mariadb'\napp.count = 2\n";
    for bus in ["auto", "redis"] {
        let topology = resolved(&format!("{text}bus.service = '{bus}'"), &[]);
        let tier = topology.applications[0].tiers.get(&Tier::Bus).unwrap_or_else(|| panic!("{bus}: no bus"));
        assert_eq!(tier.service.kind(), "redis");
    }
}

#[test]
fn limits_of_windows_are_each_operations_or_of_what_there_is() {
    assert_eq!(resolved("limits.per_operation = true", &[]).load.search.samples, Samples::Each);
    assert_eq!(resolved("limits.per_operation = false", &[]).load.search.samples, Samples::Some);
}

#[test]
fn what_cannot_be_is_refused_with_its_line_and_what_would_be_right() {
    for (text, phrases) in [
        ("\n\n[app]\ncuont = 1\n", &["it.toml:4: unknown key 'cuont' in [app]; did you mean 'count'?"][..]),
        ("[app]\ncount = 2\n", &["2 app servers on one SQLite file", "postgres or mariadb"]),
        ("[app]\ncount = 0\n", &["without app servers", "write count = 1 or more"]),
        ("[app]\ncount = 65\n", &["invalid count = 65 in [app]", "from 0 to 64"]),
        ("[app]\ncount = -1\n", &["invalid count = -1"]),
        ("[app]\ncount = \"two\"\n", &["invalid count = \"two\""]),
        ("[bus]\nservice = \"redis\"\ncount = 2\n", &["2 instances of the tier bus"]),
        ("[web]\nservice = \"nginx\"\ncount = 2\n", &["2 web servers without a load balancer"]),
        ("[web]\nservice = \"haproxy\"\n", &["the web tier has no service 'haproxy'"]),
        ("[app]\ncount = 2\n[database]\nservice = \"postgres\"\n", &["without a load balancer"]),
        ("[bus]\nservice = \"postgres\"\n", &["the bus 'postgres' with the database sqlite", "choose redis"]),
        ("[topology]\ntls = true\n", &["it.toml:2: no server to terminate TLS", "add a balancer or a web server"]),
        ("[topology]\ntls = 1\n", &["invalid tls = 1; write true or false"]),
        ("[topology]\nimages = \"tape\"\n", &["images = 'tape' is not known; valid here: memory, database, files"]),
        (
            "[app]\non = \"container\"\nimage = \"--privileged\"\n",
            &["it.toml:3: '--privileged' is not an image reference; write [HOST[:PORT]/]NAME[:TAG]"],
        ),
        (
            "[topology]\nargon2 = \"4294967295,1\"\n",
            &["it.toml:2: argon2: '4294967295,1' is not a possible cost; write KiB of memory and passes"],
        ),
        ("[topology]\nargon2 = \"65536,129\"\n", &["is not a possible cost"]),
        ("[topology]\nargon2 = \"19456\"\n", &["is not a possible cost", "such as 19456,2"]),
        ("[load]\nlowest = 10\nhighest = 10\n", &["lowest = 10 is not below highest = 10"]),
        ("[load]\nwarm_up = 5\n", &["invalid warm_up = 5 in [load]; write text"]),
        ("[load]\nwarm = \"5 parsecs\"\n", &["warm_up in [load]: "]),
        (
            "[load]\nwarm = \"5 s\"\nwarm_up = \"6 s\"\n",
            &["it.toml:2: 'warm' is the former name of 'warm_up', which is set in [load] too; keep one of the two"],
        ),
        ("[elastic]\nleast = 3\n", &["least = 3 above most = 1"]),
        ("[elastic]\npolicy = \"queue\"\nhigh = \"2\"\nlow = \"3\"\n", &["is not below high"]),
        ("[elastic]\nschedule = [{ at = \"1 s\" }]\n", &["a change sets no tier"]),
        ("[[faults]]\nat = \"1 s\"\ntier = \"web\"\nwhat = \"kill\"\n", &["this topology has no tier 'web'"]),
        ("[[faults]]\nat = \"1 s\"\ntier = \"app\"\nwhat = \"tickle\"\n", &["unknown fault 'tickle'", "kill"]),
        ("[services.nginx]\nworkers = 0\n", &["workers"]),
        ("[services.postgres]\nfsnc = true\n", &["unknown key 'fsnc' in [services.postgres]; did you mean 'fsync'?"]),
        ("[database]\nservice = \"oracle\"\n", &["the database tier has no service 'oracle'"]),
        ("[app]\non = \"moon\"\n", &["unknown environment 'moon'"]),
        ("[elastic]\npolicy = \"guess\"\n", &["policy = 'guess' in [elastic] is not known"]),
        ("[app]\non = \"qemu\"\n", &["app servers on qemu and a database that is a file", "postgres or mariadb"]),
        (
            "[topology]\nimages = \"files\"\n[app]\non = \"ssh:there\"\n[database]\nservice = \"postgres\"\n",
            &["images in files of this machine and app servers on ssh:there", "memory or database"],
        ),
        (
            "[balancer]\nservice = \"haproxy\"\non = \"ssh:there\"\n[database]\nservice = \"postgres\"\n\
             [elastic]\nschedule = [{ at = \"1 s\", app = 2 }]\n",
            &["it.toml:3: servers that come and go behind the tier balancer on ssh:there"],
        ),
        (
            "[database]\nservice = \"postgres\"\non = \"qemu\"\n[[faults]]\nat = \"1 s\"\ntier = \"database\"\nwhat = \"kill\"\n",
            &["it.toml:6: killing the database on qemu would lose its data"],
        ),
        ("[load]\nusers = 5\n[instances.a]\n[instances.b.load]\nusers = 0\n", &["let all have load.users, or none"]),
        ("[services.oracle]\n", &["unknown key 'oracle' in [services]"]),
        ("[instances.\"a b\"]\n", &["invalid instance name 'a b'"]),
        ("app = 3\n", &["'app' is an integer, no section; write [app] and keys below it"]),
        ("[app\n", &["it.toml:1"]),
    ] {
        let said = refused(text);
        for phrase in phrases {
            assert!(said.contains(phrase), "{text}\nis refused with\n{said}\nand not with\n{phrase}");
        }
    }
}

/// Where users, databases and data are cannot be anything.
#[test]
fn places_of_users_databases_and_data_are_checked() {
    let cases: &[(&str, &[&str])] = &[
        (
            "[load]\non = [\"moon\"]\n",
            &["it.toml:2: 'moon' is not a site of a load generator; write native, container or ssh:"],
        ),
        ("[load]\non = 5\n", &["invalid on = 5 in [load]; write text in quotation marks, or a list of such"]),
        (
            "[load]\non = [\"ssh:there\"]\ncpus = [0]\n",
            &["it.toml:3: CPUs of this machine for load generators on another"],
        ),
        (
            "[topology]\ndata = \"/a/folder\"\n",
            &["it.toml:2: '/a/folder' does not say what becomes of data; write data ="],
        ),
        (
            "[topology]\ndata = \"keep:/a\"\nimages = \"files\"\n",
            &["it.toml:2: data that are kept, and images in files"],
        ),
        (
            "[topology]\ndata = \"keep:/a\"\n[database]\nservice = \"postgres\"\non = \"ssh:there\"\n",
            &["it.toml:2: data that are kept of a database on ssh:there; let the database run natively"],
        ),
        ("[database]\non = \"external:db:5432\"\n", &["it.toml:2: a SQLite file on a server; write service ="]),
        (
            "[database]\nservice = \"postgres\"\non = \"external:db\"\n",
            &["it.toml:3: 'external:db' names no server; write external:HOST:PORT"],
        ),
        ("[web]\nservice = \"nginx\"\non = \"external:db:80\"\n", &["only the database can be external"]),
        (
            "[database]\nservice = \"postgres\"\non = \"external:db:5432\"\ncpus = [0]\nname = \"A;b\"\n\
             [limits.utilization]\ndatabase = \"50 %\"\n",
            &[
                "it.toml:4: cpus of a database that is not started here",
                "it.toml:5: 'A;b' cannot be the name of the database",
                "it.toml:7: a limit on the CPUs of the database tier on external:db:5432",
            ],
        ),
        (
            "[database]\nname = \"mine\"\n",
            &["it.toml:2: name of a database that is started here; write on = \"external"],
        ),
    ];
    for (text, phrases) in cases {
        let said = refused(text);
        for phrase in *phrases {
            assert!(said.contains(phrase), "{text}\nis refused with\n{said}\nand not with\n{phrase}");
        }
    }
}

#[test]
fn a_setting_over_the_file_is_named_without_a_line_and_the_remedy_with_its_key() {
    let over = |levels: &[&str]| {
        let levels: Vec<String> = levels.iter().map(|level| (*level).to_owned()).collect();
        resolve("it.toml", "", &levels).map_or_else(|why| why.to_string(), |_| "taken".to_owned())
    };
    assert_eq!(
        over(&["app.count = 2", "database.service = 'postgres'"]),
        "'app.count = 2': 2 app servers without a load balancer; add a web server or a balancer: \
         --set web.service=nginx, or balancer.service = \"haproxy\" in the file"
    );
    assert_eq!(over(&["app.count = 2", "database.service = 'postgres'", "web.service = 'nginx'"]), "taken");
    let sqlite =
        "2 app servers on one SQLite file; choose postgres or mariadb as the database: --set database.service=postgres";
    assert_eq!(over(&["app.count = 2", "web.service = 'nginx'"]), format!("'app.count = 2': {sqlite}"));
    assert!(over(&["app.count = = 2"]).starts_with("'app.count = = 2': "), "{}", over(&["app.count = = 2"]));
    let quick = QUICK.replace("history = \"1 %\"", "argon2 = \"64\"");
    assert!(over(&[&quick]).starts_with("the settings over the file:4: argon2: "), "{}", over(&[&quick]));
}

#[test]
fn cpus_that_cannot_be_used_are_refused_before_anything_starts() {
    for (text, section) in [
        ("app.cpus = [99999]", "app"),
        ("app.cpus = [0, 99999]\napp.on = 'container'", "app"),
        ("load.cpus = [99999]", "load"),
    ] {
        let why = Cluster::check(&resolved(text, &[]).applications[0]).unwrap_err();
        assert!(matches!(why, ClusterError::Cpus(_)), "{why}");
        let expected = format!("{section}.cpus: no CPU 99999 can be used here; choose from ");
        assert!(why.to_string().starts_with(&expected), "{why}");
    }
    // A guest has as many CPUs, of whatever number; of another machine nothing is known here.
    for place in ["qemu", "ssh:there"] {
        let text = format!("app.cpus = [99999]\napp.on = '{place}'\ndatabase.service = 'postgres'");
        let checked = Cluster::check(&resolved(&text, &[]).applications[0]);
        assert!(!matches!(checked, Err(ClusterError::Cpus(_))), "{checked:?}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_their_lines() {
    let said = refused("[web]\nservice = \"ngnix\"\n[app]\ncount = 0\n[load]\nuser = 3\n");
    let places = ["it.toml:2:", "it.toml:4:", "it.toml:6:"].map(|line| said.find(line).unwrap_or(usize::MAX));
    assert!(places.is_sorted() && places[2] < usize::MAX, "{said}");
}

/// A limit on a tier's CPU time is one on its own CPUs, or on those of this machine where it has none.
#[test]
fn limits_on_utilization_are_of_a_tiers_cpus() {
    let text = "[app]\ncpus = [0]\n[limits.utilization]\napp = \"80 %\"\n";
    let ceiling = resolved(text, &[]).applications[0].load.utilization[&Tier::App];
    assert_eq!((ceiling.most, ceiling.cpus), (0.8, 1));
    let several = text.replace("[app]", "[web]\nservice = 'nginx'\n[database]\nservice = 'postgres'\n[app]\ncount = 2");
    let ceiling = resolved(&several, &[]).applications[0].load.utilization[&Tier::App];
    assert_eq!(ceiling.cpus, 1, "two servers share the CPU that is named");
    let shared = resolved("", &["limits.utilization.app = \"50 %\""]).applications[0].load.utilization[&Tier::App];
    assert_eq!((shared.most, shared.cpus), (0.5, baremark_sys::affinity::allowed_cpus().unwrap().len()));
    let why = refused("[limits.utilization]\nweb = \"80 %\"\n");
    assert!(why.contains("it.toml:2: this topology has no tier 'web'"), "{why}");
}

#[test]
fn a_databases_folder_and_a_scenario_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    let topology = resolved(&format!("[database]\nfolder = \"{place}\"\n"), &[]);
    assert_eq!(topology.applications[0].database_folder.as_deref(), Some(folder.path()));
    let why = refused("[database]\nfolder = \"/nonexistent\"\n");
    assert!(why.contains("it.toml:2: '/nonexistent' is not a folder of this machine; create it first"), "{why}");
    let why = refused(&format!("[app]\non = \"container\"\n[database]\nfolder = \"{place}\"\n"));
    assert!(why.contains("whose files are used on container; leave folder out"), "{why}");
    let why = refused("[app]\nfolder = \"/tmp\"\n");
    assert!(why.contains("unknown key 'folder' in [app]"), "{why}");
    let file = folder.path().join("visitors.toml");
    std::fs::write(&file, "[operations.home]\nnext = \"nowhere\"\n[[operations.home.requests]]\nget = \"/\"\n")
        .unwrap();
    let why = refused(&format!("[load]\nscenario = \"{}\"\n", file.display()));
    assert!(why.contains("nowhere") && why.contains("visitors.toml"), "{why}");
    let why = refused("[load]\nscenario = \"/nonexistent.toml\"\n");
    assert!(why.contains("/nonexistent.toml: "), "{why}");
}
