//! Databases of the application's own on servers that others have started: made, taken again after their owner's end, removed.

use crate::process::run;
use crate::services;
use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// A process that lives until it is dropped: an owner.
struct Owner(Child);

impl Owner {
    fn new() -> Owner {
        Owner(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn told(command: &str, url: &str, owner: &Owner) -> (i32, Value, String) {
    let words = [command, "--database", url, "--owner", &owner.0.id().to_string(), "--number", "3"];
    run(&words.map(str::to_owned))
}

fn done(command: &str, url: &str, owner: &Owner) -> Value {
    let (code, document, said) = told(command, url, owner);
    assert_eq!(code, 0, "{command} {url}: {said}");
    document
}

/// Fills a database as `load` does, so that it has the application's tables.
fn fill(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    drop(crate::process::Site::load(url, folder.path(), 15));
}

fn exercise(service: &services::Service) {
    let server = &service.url[..service.url.rfind('/').unwrap()];
    let at = |name: &str| format!("{server}/{name}");
    let (first, second) = (Owner::new(), Owner::new());
    // Without a name: one of its own, that others have no business with.
    let made = done("create", &at(""), &first);
    let name = made["database"].as_str().unwrap().to_owned();
    assert!(name.starts_with("baremark_auction_") && name.ends_with("_3"), "{made}");
    fill(&at(&name));
    assert_eq!(done("create", &at(""), &second)["removed"], serde_json::json!([]), "its owner lives");
    drop(first);
    let third = Owner::new();
    assert_eq!(done("create", &at(""), &third)["removed"], serde_json::json!([name]), "what is left of the dead goes");
    // By name: not there yet, then in use, then left by its owner, then removed.
    let given = at("mine");
    done("create", &given, &third);
    fill(&given);
    let (code, _, said) = told("create", &given, &second);
    assert!(code == 1 && said.contains("the database 'mine' is in use by process"), "{said}");
    let (code, _, said) = told("remove", &given, &second);
    assert!(code == 1 && said.contains("belongs to another run"), "{said}");
    drop(third);
    done("create", &given, &second);
    assert_eq!(done("remove", &given, &second)["removed"], serde_json::json!(["mine"]));
    // With tables that are not ours: left as it is.
    done("create", &given, &second);
    fill(&given);
    assert_eq!(done("remove", &given, &second)["removed"], serde_json::json!(["mine"]));
    let theirs = at("theirs");
    done("create", &at("theirs"), &second);
    fill(&theirs);
    unmark(&theirs, service);
    let (code, _, said) = told("create", &theirs, &second);
    let refusal = "holds tables that are not this program's (10: account, attendance, auction)";
    assert!(code == 1 && said.contains(refusal), "{said}");
    let (code, _, said) = told("remove", &theirs, &second);
    assert!(code == 1 && said.contains("does not bear this program's mark; nothing was removed"), "{said}");
}

/// Takes the mark away: the tables are anybody's then.
fn unmark(url: &str, service: &services::Service) {
    let (program, mut arguments) = match url.starts_with("postgres") {
        true => (service.client("psql"), vec![url.to_owned(), "-qc".to_owned()]),
        false => {
            let port = url.rsplit_once(':').unwrap().1.split('/').next().unwrap().to_owned();
            let words =
                ["--no-defaults", "--protocol=tcp", "-h", "127.0.0.1", "-P", &port, "-u", "root", "theirs", "-e"];
            ("mariadb".into(), words.map(str::to_owned).to_vec())
        }
    };
    arguments.push("DROP TABLE baremark_owner".to_owned());
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_database_on_postgres_of_others_is_made_marked_and_removed() {
    match services::postgres() {
        Some(service) => exercise(&service),
        None => eprintln!("skipped: PostgreSQL is not installed"),
    }
}

#[test]
fn a_database_on_mariadb_of_others_is_made_marked_and_removed() {
    match services::mariadb() {
        Some(service) => exercise(&service),
        None => eprintln!("skipped: MariaDB is not installed"),
    }
}
