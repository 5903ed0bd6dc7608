//! The web front of the DVD store in a process of its own.

use crate::bench::{setup, start};
use crate::shop::{SMALL, opened, stays_consistent};
use baremark_databases::database::{Class, Database};
use baremark_databases::dvd_store::browser::{FAILED, Front, LISTENING};
use baremark_databases::dvd_store::front::{Order, serve};
use baremark_databases::dvd_store::orders::Way;
use baremark_databases::kind::Kind;
use baremark_databases::server::Server;
use std::io::{Read as _, Write as _};
use std::process::Command;

#[test]
#[ignore = "a process of the other tests: the web front"]
fn front_process() {
    let mut order = String::new();
    std::io::stdin().read_line(&mut order).unwrap();
    let said = match serve(&order) {
        Ok(address) => format!("{LISTENING}{address}"),
        Err(why) => format!("{FAILED}{why}"),
    };
    writeln!(std::io::stdout(), "\n{said}").unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

pub fn order(server: &Server, pool: usize) -> Order {
    Order { endpoint: server.endpoint(), pool, address: server.host(), network: None }
}

pub fn front(order: &Order) -> std::io::Result<Front> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "fronts::front_process", "--ignored", "--nocapture"]);
    Front::start(command, order, &[])
}

/// Orders by the web front keep the conditions; `look` may look at the database before the front goes.
pub fn orders_keep_the_conditions_on(kind: Kind, look: impl FnOnce(&dyn Database)) {
    let root = tempfile::tempdir().unwrap();
    let Some(server) = start(&setup(kind), root.path()) else { return };
    let database = opened(&server, SMALL);
    let front = front(&order(&server, 2)).unwrap();
    let before = front.cpu_ns();
    stays_consistent(&*database, &front.browsers(), Way::Front);
    assert!(front.cpu_ns() >= before);
    look(&*database);
    let browsers = front.browsers();
    drop(front);
    assert_eq!(browsers.connect().err().map(|why| why.class), Some(Class::Lost), "its process has ended");
}
