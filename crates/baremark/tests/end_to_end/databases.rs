//! Workloads on databases as ordinary studies: an answer from the embedded database, data that is reused and verified, and
//! nothing left but that.

use crate::bench::{Bench, root, signal, text};
use crate::environments::qemu;
use crate::schemas::assert_fits;
use crate::tiers::{all_gone, have, offspring};
use baremark_databases::database::{Database as _, Rows};
use baremark_databases::kept::Kept;
use baremark_databases::kind::Kind;
use baremark_databases::server::{Server, Setup};
use baremark_databases::sqlite::{Sqlite, Synchronous};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

fn study(bench: &Bench, workload: &str) -> String {
    format!(
        "[study]\ntitle = \"a database\"\n[workload]\n{workload}\nduration = \"300 ms\"\nwarm_up = \"50 ms\"\ndata = \"{}\"\n\
         [design]\nquads = 1\nleast_blocks = 4\nmost_blocks = 4\nbudget = \"10 min\"\n",
        bench.path("baremark-data").display()
    )
}

/// Names in the folder of data that are not loaded data.
fn left(bench: &Bench) -> Vec<String> {
    let names = fs::read_dir(bench.path("baremark-data")).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with("sqlite-")).collect()
}

/// In a place that has its own agent, which reports over the wire.
#[test]
fn rows_that_are_loaded_are_reported() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"oltp-hammer\"\nrows = 12000"));
    let output = bench.run(&["run", "study.toml"]);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let told: Vec<&str> = said.lines().filter(|line| line.contains("rows/s")).collect();
    assert!(matches!(told[..], [line] if line.starts_with("loaded 12.0K rows in ")), "once, for data is kept: {said}");
}

#[test]
fn the_hammer_compares_settings_of_the_embedded_database() {
    let bench = Bench::new();
    let workload = "kind = \"oltp-hammer\"\nrows = 1000";
    let factors = "[factors]\nsynchronous_commit = [true, false]\nranks = [1, 1000]\n\
                   [report]\ncolumns = \"synchronous_commit\"\nratio_to = { synchronous_commit = true }\n";
    bench.write("study.toml", study(&bench, workload) + factors);
    let document = bench.json(&["run", "study.toml", "--json"]);
    let printed = document.to_string();
    let counted = ["server_minor_faults_per_s", "server_major_faults_per_s", "server_context_switches_per_s"];
    for metric in ["tx_per_s", "tx_per_s_per_cpu", "latency_p95_ms", "cpu_us_per_tx"].into_iter().chain(counted) {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
    }
    assert!(
        printed.contains("\"tlb_shootdowns_per_s\"") || printed.contains("TLB shootdowns: not available: "),
        "neither counted nor explained: {printed}"
    );
    let absent = document["absent"].as_array().unwrap();
    let told = |row: &Value| row["reason"].as_str().is_some_and(|why| why.contains("1000 ranks need a CPU each"));
    assert!(absent.len() == 2 && absent.iter().all(told), "{absent:?}");
    // Of each native treatment three, from what was counted.
    let predicted = document["predictions"].as_array().unwrap();
    let of = |words: &str| {
        let rows =
            predicted.iter().filter(|row| row["scheme"].as_str().is_some_and(|scheme| scheme.starts_with(words)));
        rows.filter(|row| row["measured"] == false && row["lo"].as_f64() <= row["hi"].as_f64()).count()
    };
    assert_eq!(["nested, ", "shadow, ", "nested against shadow"].map(of), [2; 3], "{predicted:#?}");
    assert!(document["ratios"].as_array().is_some_and(|ratios| !ratios.is_empty()), "{printed}");
    assert_eq!(left(&bench), [""; 0]);
}

/// Two settings that cannot vary in one run here stand for two releases: each run has its own base.
#[test]
fn two_runs_of_a_database_are_joined() {
    let bench = Bench::new();
    let factors = "[factors]\nsynchronous_commit = [true, false]\n\
                   [report]\ncolumns = \"synchronous_commit\"\nratio_to = { synchronous_commit = true }\n";
    let workload = |more: &str| study(&bench, &format!("kind = \"oltp-hammer\"\nrows = 1000{more}"));
    let mut runs = Vec::new();
    for more in ["", "\nbuffers = \"64 MiB\""] {
        bench.write("study.toml", workload(more) + factors);
        let document = bench.json(&["run", "study.toml", "--json"]);
        runs.push(document["run"]["id"].as_str().unwrap().to_owned());
    }
    let output = bench.run(&["report", "--join", &runs[0], &runs[1], "--json"]);
    let joined = assert_fits(&output.stdout, "baremark-joined/1");
    let (row, facts) = (&joined["rows"][0], &joined["factors"]);
    assert_eq!((joined["spread"].as_str(), joined["rows"].as_array().unwrap().len()), (Some("within_runs"), 1));
    let [base, other, both] =
        [&row["base"]["ratio"], &row["other"]["ratio"], &row["ratio"]].map(|of| of.as_f64().unwrap());
    assert!((both / (other / base) - 1.0).abs() < 1e-9 && row["lo"].as_f64() < Some(both), "{row:#}");
    let buffers = facts.as_array().unwrap().iter().find(|fact| fact["fact"] == "parameters.buffers");
    assert_eq!(
        buffers.map(|fact| [fact["base"].clone(), fact["other"].clone()]),
        Some(["256 MiB".into(), "64 MiB".into()])
    );

    let output = bench.run(&["report", "--join", &runs[0], &runs[1]]);
    let said = text(&output.stdout);
    assert!(output.status.success() && said.contains("Ratio of ratios: other / base"), "{said}");
    assert!(said.contains("parameters.buffers") && said.contains("256 MiB -> 64 MiB"), "{said}");

    bench.write("study.toml", workload("") + &factors.replace("synchronous_commit", "fsync"));
    let document = bench.json(&["run", "study.toml", "--json"]);
    let third = document["run"]["id"].as_str().unwrap();
    for (base, other, says) in [
        (runs[0].as_str(), runs[0].as_str(), "is named twice; name two runs"),
        (&runs[0], third, "the runs have no ratio in common"),
        (&runs[0], "nobody", "no run is called 'nobody'"),
    ] {
        let output = bench.run(&["report", "--join", base, other]);
        let said = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

/// Runs the study until it has said this, then interrupts it; all that it said.
fn until(bench: &Bench, word: &str) -> String {
    let mut lab = bench.spawn(&["run", "study.toml"]);
    let mut said = String::new();
    for line in BufReader::new(lab.stderr.take().unwrap()).lines().map_while(Result::ok) {
        // Once: a second interrupt would end the run at once.
        if line.contains(word) && !said.contains(word) {
            signal(lab.id(), libc::SIGINT);
        }
        said = said + &line + "\n";
    }
    assert_eq!(lab.wait().unwrap().code(), Some(130), "{said}");
    said
}

#[test]
fn order_entry_answers_and_damaged_data_is_refused_and_loaded_anew() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"order-entry\"\nconnections = 2"));
    until(&bench, "block 1 is stored");
    let tables = text(&bench.run(&["report", "--tables", "d1"]).stdout);
    assert!(tables.contains("tx_per_s") && tables.contains("59.5K"), "{tables}");
    let (ours, _) = tables.split_once("Published, on other hardware").unwrap();
    assert!(!ours.contains('–') && ours.contains("CPU utilization"), "a blank without a reason: {ours}");
    let kept = fs::read_dir(bench.path("baremark-data")).unwrap().flatten().next().unwrap().path();
    let file = kept.join("data/database");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let said = until(&bench, "block 2 is stored");
    assert!(said.contains("is not as it was loaded; it is loaded anew with the next run"), "{said}");
    assert_eq!(left(&bench), [""; 0]);
}

/// Data that is sound by its checksums and inconsistent in itself: the run that finds it has no result.
#[test]
fn the_dvd_store_answers_and_a_database_that_is_inconsistent_after_the_run_is_no_result() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"dvd-store\"\nconnections = 2"));
    let said = until(&bench, "block 1 is stored");
    assert!(said.contains("block 1 is stored"), "{said}");
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    for metric in ["orders_per_min", "login_p50_ms", "purchase_p50_ms", "disk_writes_per_s", "rolled_back"] {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
    }
    let folder = fs::read_dir(bench.path("baremark-data")).unwrap().flatten().next().unwrap().path();
    let kept = Kept::open(&bench.path("baremark-data"), &folder.file_name().unwrap().to_string_lossy()).unwrap();
    let copy = bench.path("copy");
    kept.take(&copy, None).unwrap();
    let database = Sqlite::new(copy.join("database"), Synchronous::Full, 8 << 20);
    database
        .connect()
        .unwrap()
        .script("update inventory set quan_in_stock = quan_in_stock + 1 where prod_id = 3")
        .unwrap();
    kept.put(&copy).unwrap();
    let output = bench.run(&["run", "study.toml"]);
    let said = text(&output.stderr);
    let broken = "the database is inconsistent after the run: condition 1 (stock + units sold = units received, by product) fails in 1 rows";
    assert!(said.contains(broken), "{said}");
    assert_ne!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("block 1 is stored"), "{said}");
    assert_eq!(left(&bench), [""; 0]);
}

#[test]
fn the_management_database_answers_and_a_feed_that_falls_behind_discards_the_trial() {
    let bench = Bench::busy();
    let study = |feed: &str| {
        let workload = format!("kind = \"management-db\"\ninventory = \"10 x 100\"\nfeed_interval = \"{feed}\"");
        study(&bench, &workload).replace("300 ms", "3 s")
    };
    // However late a busy machine is: the other one is for the limit.
    bench.write("study.toml", study("500 ms\"\nlag_limit = \"1 min"));
    until(&bench, "block 1 is stored");
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    for metric in ["cycle_s", "cycle_with_feed_s", "rollup_1d_rows_per_s", "snapshot_with_feed_s"] {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
    }
    // Ten thousand reports a second are more than one connection sends.
    bench.write("study.toml", study("1 ms\"\nlag_limit = \"100 ms"));
    let said = until(&bench, "the feed fell behind");
    assert!(!said.contains("block 1 is stored"), "{said}");
    assert_eq!(left(&bench), [""; 0]);
}

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

/// A container without an image has no server: the plan says so, and leaves out what would need one.
#[test]
fn a_server_that_a_container_lacks_is_said_in_the_plan() {
    let bench = Bench::new();
    let factors =
        "[factors]\nenvironment = [\"native\", \"container\"]\ndatabase = [\"sqlite\", \"postgres\"]\nranks = 1\n";
    bench.write("study.toml", study(&bench, "kind = \"order-entry\"") + factors);
    let output = bench.run(&["plan", "study.toml"]);
    let said = text(&output.stdout) + &text(&output.stderr);
    if said.contains("containers cannot be started") {
        eprintln!("skipped: containers cannot be started here");
        return;
    }
    assert!(output.status.success(), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "postgres is not installed in container, which has no files but this program; give it an image or a rootfs with postgresql (rootfs = \"host\" is this machine's), or write database = \"sqlite\"";
    assert_eq!(said.matches(expected).count(), 1, "{said}");
}

#[test]
fn the_dvd_store_behind_its_web_front_answers() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"dvd-store\"\nconnections = 2\nfront = \"web\"\npool = 1"));
    let said = until(&bench, "block 1 is stored");
    assert!(said.contains("block 1 is stored"), "{said}");
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    // The database is in the front's process, whose CPU time is the server's.
    for metric in ["orders_per_min", "login_p50_ms", "purchase_p50_ms", "server_cpu_us_per_tx"] {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
    }
    assert!(printed.contains("share CPUs and talk over loopback"), "{printed}");
    assert_eq!(left(&bench), [""; 0]);
}

/// A killed run leaves neither its server nor its web front; its folder is removed by the next.
#[test]
fn a_kill_of_the_whole_run_leaves_no_server_and_no_web_front() {
    if !have(&["postgres"]) {
        return;
    }
    let bench = Bench::new();
    // The server runs as somebody else, who must get there.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    fs::set_permissions(bench.folder.path(), open).unwrap();
    let workload = "kind = \"dvd-store\"\ndatabase = \"postgres\"\nconnections = 2\nfront = \"web\"";
    bench.write("study.toml", study(&bench, workload).replace("300 ms", "120 s"));
    let mut lab = bench.spawn(&["run", "study.toml"]);
    let deadline = Instant::now() + Duration::from_secs(180);
    let below = loop {
        assert!(lab.try_wait().unwrap().is_none() && Instant::now() < deadline, "no web front is started");
        let below = offspring(lab.id());
        let is_front = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("shop-front"))
        };
        if below.iter().any(is_front) {
            break below;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(below.len() > 4, "an agent, a front, and a server with its processes: {below:?}");
    lab.kill().unwrap();
    lab.wait().unwrap();
    all_gone(&below);
    bench.write("study.toml", study(&bench, workload));
    let said = until(&bench, "block 1 is stored");
    assert!(said.contains("block 1 is stored"), "{said}");
    let there = left(&bench);
    assert!(there.iter().all(|name| name.starts_with("postgres-")), "{there:?}");
}

/// The database of an external server is filled, used and emptied; one with tables of others is refused and left as it is.
#[test]
fn an_external_server_is_used_by_its_url_and_left_empty() {
    if !have(&["postgres"]) {
        return;
    }
    let bench = Bench::new();
    let setup = Setup::durable(Kind::Postgres, 32 << 20, 8);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&setup, folder.path(), "Ext3rnal", &AtomicBool::new(false)).unwrap();
    let address = server.address().unwrap();
    let url = bench.write("url", format!("postgres://auction:Ext3rnal@{address}/auction\n"));
    fs::set_permissions(&url, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let workload =
        format!("kind = \"dvd-store\"\ndatabase = \"postgres\"\nconnections = 2\nurl = \"file:{}\"", url.display());
    bench.write("study.toml", study(&bench, &workload));
    let said = until(&bench, "block 1 is stored");
    assert!(said.contains("block 1 is stored") && !said.contains("Ext3rnal"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("loaded ") && line.contains(" rows/s")), "{said}");
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    assert!(printed.contains("the server is an external one") && !printed.contains("Ext3rnal"), "{printed}");
    let database = server.database();
    let mut rows = Rows::default();
    let mut tables = || {
        let sql = "select count(*) from information_schema.tables where table_schema = 'public'";
        database.connect().unwrap().query(sql, &mut rows).unwrap();
        rows.int(0, 0).unwrap()
    };
    assert_eq!(tables(), 0);
    database.connect().unwrap().script("create table somebodys (a integer)").unwrap();
    let output = bench.run(&["run", "study.toml"]);
    let said = text(&output.stderr);
    assert!(said.contains("the external database has 1 tables of others; name an empty one"), "{said}");
    assert_eq!(tables(), 1);
}

/// Over a veth pair, whose namespaces end with the process: the tables of the published study have the packets of the server's end.
#[test]
fn clients_and_server_on_the_labs_network_fill_the_network_rows() {
    if !root() || !have(&["postgres"]) {
        return;
    }
    let bench = Bench::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    fs::set_permissions(bench.folder.path(), open).unwrap();
    let workload = "kind = \"order-entry\"\ndatabase = \"postgres\"\nconnections = 2\nnetwork = \"lab\"";
    bench.write("study.toml", study(&bench, workload));
    let said = until(&bench, "block 1 is stored");
    assert!(said.contains("block 1 is stored"), "{said}");
    let tables = text(&bench.run(&["report", "--tables", "d1"]).stdout);
    let document = bench.json(&["report", "--json"]);
    let row = document["estimates"].as_array().unwrap().iter().find(|row| row["metric"] == "net_receive_packets_per_s");
    let packets = row.and_then(|row| row["estimate"].as_f64()).unwrap_or_else(|| panic!("{document:#}"));
    assert!(packets > 100.0, "every statement is a packet: {packets}");
    assert!(tables.contains("those of the server's end"), "{tables}");
    let printed = document.to_string();
    assert!(printed.contains("talk over a veth pair between two network namespaces"), "{printed}");
}

/// The CPU utilizations of the steps, from the flag of a run whose utilization none of them has.
fn utilizations(said: &str) -> Vec<f64> {
    let all = said.split("between them (").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
    all.split(", ").filter_map(|step| step.split("connections ").nth(1)?.trim_end_matches(" %").parse().ok()).collect()
}

#[test]
fn throughput_is_interpolated_at_a_utilization_that_the_steps_have_between_them() {
    // Utilization is the whole machine's.
    let bench = Bench::sole();
    let stepped = |percent: u64| {
        let workload = format!(
            "kind = \"oltp-hammer\"\nrows = 1000\nper_cpu = 4\nsynchronous_commit = false\nutilization = {percent}"
        );
        study(&bench, &workload).replace("300 ms", "1200 ms") + "[factors]\nenvironment = \"native\"\nranks = 2\n"
    };
    // Nothing that measures uses so little: every step is named.
    bench.write("study.toml", stepped(1));
    until(&bench, "block 1 is stored");
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    assert!(printed.contains("no two steps have a CPU utilization of 1 % between them (1 connections "), "{printed}");
    assert!(printed.contains("\"cpu_utilization\"") && printed.contains("\"tx_per_s\""), "{printed}");
    let found = utilizations(&printed);
    assert_eq!(found.len(), 4, "1, 2, 4 and 8 connections: {printed}");
    let (low, high) = found.iter().fold((100.0_f64, 0.0_f64), |(low, high), share| (low.min(*share), high.max(*share)));
    eprintln!("utilizations of 1, 2, 4 and 8 connections: {found:?}");
    if high - low < 6.0 {
        eprintln!("skipped: the steps of this machine use the same CPU time, so that nothing can be between them");
        return;
    }
    bench.write("study.toml", stepped(((low + high) / 2.0).round() as u64));
    until(&bench, "block 2 is stored");
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    if printed.contains("no two steps have a CPU utilization of") {
        eprintln!(
            "skipped: the steps have used another share of the CPUs than a moment ago: {:?}",
            utilizations(&printed)
        );
        return;
    }
    assert!(printed.contains("\"tx_per_s_at_utilization\""), "{printed}");
}

/// Linux in a guest is observed as this machine is: each row of the guest's table has a value, or the reason why there is none.
#[test]
#[ignore = "soak: an emulated processor loads order-entry"]
fn soak_order_entry_in_a_guest_fills_the_guests_table() {
    let _alone = qemu::alone();
    let kernel = qemu::fetched();
    if !have(&["qemu-system-x86_64"]) {
        return;
    }
    if !kernel.join("vmlinuz").exists() {
        eprintln!("skipped: no kernel for guests; run scripts/fetch-kernel");
        return;
    }
    let bench = Bench::new();
    let study = study(&bench, "kind = \"order-entry\"\nconnections = 2").replace("300 ms", "2 s");
    let study = study.replace("least_blocks = 4\nmost_blocks = 4", "least_blocks = 1\nmost_blocks = 1");
    let places = format!(
        "[factors]\nenvironment = [\"native\", \"qemu\"]\nranks = 1\n\
         [environments.qemu]\naccel = \"tcg\"\nmemory = \"1536 MiB\"\nkernel = {:?}\nstart_limit = \"2 min\"\n",
        kernel.canonicalize().unwrap()
    );
    bench.write("study.toml", study + &places);
    let output = bench.run(&["run", "study.toml"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let tables = text(&bench.run(&["report", "--tables", "d1"]).stdout);
    let (_, guest) = tables.split_once("System activity in the guest").unwrap_or_else(|| panic!("{tables}"));
    let (guest, _) = guest.split_once("Published, on other hardware").unwrap();
    let row = |label: &str| guest.lines().find_map(|line| line.trim().strip_prefix(label)).unwrap().trim();
    for label in ["interrupts/s", "context switches/s", "load average"] {
        let value = row(label).trim_end_matches(['K', 'M']).parse::<f64>();
        assert!(value.is_ok_and(|value| value > 0.0), "{label}: {guest}");
    }
    // Its data are in its memory.
    assert_eq!(row("disk IOPS"), "not available here [1]");
    assert!(guest.contains("[1]  not available here: qemu has no disk of its own"), "{guest}");
    eprint!("{guest}");
    assert_eq!(left(&bench), [""; 0]);
    assert_eq!(qemu::left(), [""; 0]);
}
