//! Workloads on PostgreSQL: its settings, a web front, an external server, a network of the lab, and nothing left of a killed run. Of the embedded database what
//! takes long.

use crate::common::bench::{Bench, root, text};
use crate::common::databases::{damage, is_said, left, let_others_through, study, until};
use crate::common::tiers::{all_gone, have, offspring};
use baremark_databases::database::{Database as _, Rows};
use baremark_databases::kind::Kind;
use baremark_databases::server::{Server, Setup};
use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A killed run leaves neither its server nor its web front; its folder is removed by the next.
#[test]
fn a_kill_of_the_whole_run_leaves_no_server_and_no_web_front() {
    if !have(&["postgres"]) {
        return;
    }
    let bench = Bench::new();
    let_others_through(&bench);
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

/// Half a million rows on the embedded database, with a schema and a generator of their own.
#[test]
fn damaged_orders_are_refused_and_loaded_anew() {
    let bench = Bench::new();
    bench.write("study.toml", study(&bench, "kind = \"order-entry\"\nconnections = 2"));
    let loads = |said: &str| said.lines().filter(|line| line.starts_with("loaded ")).count();
    let said = until(&bench, "block 1 is stored");
    assert_eq!(loads(&said), 1, "{said}");
    damage(&bench);
    let said = until(&bench, "block 2 is stored");
    assert!(said.contains("is not as it was loaded; it is loaded anew with the next run"), "{said}");
    assert_eq!(loads(&said), 1, "once: {said}");
    assert_eq!(left(&bench), [""; 0]);
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
    let_others_through(&bench);
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

/// Levels of a factor: each phase's server reports its own.
#[test]
fn each_level_of_wal_sync_method_reaches_its_server() {
    if !have(&["postgres"]) {
        return;
    }
    let bench = Bench::new();
    let_others_through(&bench);
    let levels = ["fdatasync", "open_datasync"];
    let workload = "kind = \"oltp-hammer\"\nrows = 1000\ndatabase = \"postgres\"";
    let factors = format!(
        "[factors]\nwal_sync_method = {levels:?}\n[report]\ncolumns = \"wal_sync_method\"\n\
         ratio_to = {{ wal_sync_method = \"{}\" }}\n",
        levels[0]
    );
    let (document, _) = bench.first_block(&(study(&bench, workload) + &factors));
    for level in levels {
        // A phase whose server has another fails: see below.
        let expected = format!("the server's wal_sync_method is {level}, read back from it");
        let flags = document["flags"].as_array().unwrap();
        assert!(flags.iter().any(|flag| flag["text"] == *expected), "{level}: {flags:#?}");
    }
    // A level that does not reach the server gives no result.
    let workload =
        format!("{workload}\nwal_sync_method = \"fdatasync\"\nserver_settings = [\"wal_sync_method = fsync\"]");
    let words = "wal_sync_method = \"fdatasync\": the server has fsync; remove it from server_settings";
    assert!(is_said(&bench, &study(&bench, &workload), words));
}
