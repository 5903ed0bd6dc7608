//! MariaDB.

use crate::card::{Card, Install, Tier};
use crate::error::ServiceError;
use crate::order::Order;
use crate::recipe::{Ready, Recipe, Step};
use crate::service::{Instance, Service};
use crate::settings::knob;
use crate::statistics::{Statistics, numbers};
use baremark_model::fingerprint;
use baremark_model::knob::{Kind, Knob};
use std::fmt::Write as _;

/// The adapter.
pub struct Mariadb;

/// The account and the database that it makes; the password is the order's secret. There is no other account that can log in, and none
/// may read or write files of the server.
pub const NAME: &str = "auction";
/// The client's password.
const CLIENT: &str = "client-password";

const CARD: Card = Card {
    kind: "mariadb",
    tiers: &[Tier::Database],
    knobs: KNOBS,
    install: Install {
        programs: &["/usr/sbin/mariadbd", "/usr/sbin/mysqld"],
        package: "mariadb-server",
        user: Some("mysql"),
    },
};

impl Service for Mariadb {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        fingerprint!("mariadb.rs")
    }

    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError> {
        let folder = order.folder.display().to_string();
        let defaults = format!("--defaults-file={folder}/my.cnf");
        let mut recipe = Recipe::new(
            Step::new(&order.program, [defaults.as_str(), "--init-file", &format!("{folder}/init.sql")]),
            Ready::Command(client(order, "select 1")),
        );
        recipe.files = vec![
            ("my.cnf".to_owned(), configuration(order)),
            (
                "init.sql".to_owned(),
                format!(
                    "delete from mysql.global_priv where user not in ('{NAME}', 'mariadb.sys');\nflush privileges;\n\
                     create database if not exists {NAME} character set utf8mb4;\ncreate user if not exists '{NAME}'@'%' identified by '{secret}';\n\
                     create user if not exists '{NAME}'@'localhost' identified by '{secret}';\n\
                     grant all on {NAME}.* to '{NAME}'@'%';\ngrant all on {NAME}.* to '{NAME}'@'localhost';\n\
                     grant process, reload on *.* to '{NAME}'@'%';\ngrant process, reload on *.* to '{NAME}'@'localhost';\n",
                    secret = order.secret
                ),
            ),
            (CLIENT.to_owned(), format!("[client]\npassword = {}\n", order.secret)),
        ];
        recipe.folders = vec!["tmp"];
        let base =
            [defaults.as_str(), "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"];
        recipe.prepare = vec![Step::new("/usr/bin/mariadb-install-db", base)];
        Ok(recipe)
    }

    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError> {
        let text = instance.output(&client(instance.order(), "show global status"))?;
        let pairs = text.lines().filter_map(|line| line.split_once('\t'));
        Ok(numbers(pairs))
    }
}

fn client(order: &Order, sql: &str) -> Step {
    let (host, port) = (order.address.ip().to_string(), order.address.port().to_string());
    let password = format!("--defaults-file={}", order.folder.join(CLIENT).display());
    let args = [&password, "--protocol=tcp", "-h", &host, "-P", &port, "-u", NAME, "-BNe", sql, NAME];
    Step::new("/usr/bin/mariadb", args)
}

fn configuration(order: &Order) -> String {
    let settings = &order.settings;
    let folder = order.folder.display();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "[mariadbd]\ndatadir = {folder}/data\nsocket = {folder}/mariadb.sock\npid-file = {folder}/mariadb.pid"
    );
    let _ =
        writeln!(text, "tmpdir = {folder}/tmp\nbind-address = {}\nport = {}", order.address.ip(), order.address.port());
    let _ = writeln!(
        text,
        "max_connections = {}\ninnodb_buffer_pool_size = {}",
        settings.count("connections"),
        settings.bytes("buffers")
    );
    let _ = writeln!(text, "innodb_log_file_size = {}", settings.bytes("log_size"));
    let flush = match settings.word("commit") {
        "on" => 1,
        "os" => 2,
        _ => 0,
    };
    let _ = writeln!(text, "innodb_flush_log_at_trx_commit = {flush}");
    let _ = writeln!(text, "innodb_doublewrite = {}", if settings.on("doublewrite") { "ON" } else { "OFF" });
    let _ = writeln!(text, "skip-log-bin\nskip-name-resolve\nperformance_schema = OFF\nlocal_infile = OFF");
    // MySQL's NULL would be a folder of that name here; nothing can be below a device.
    let _ = writeln!(text, "secure_file_priv = /dev/null");
    settings.pass_through(&mut text, "");
    text
}

const KNOBS: &[Knob] = &[
    knob("connections", Kind::Count { min: 10, max: 100_000 }, "connections (max_connections)"),
    knob("buffers", Kind::Size { min: 8 << 20, max: 1 << 40 }, "innodb_buffer_pool_size"),
    knob("log_size", Kind::Size { min: 8 << 20, max: 1 << 39 }, "innodb_log_file_size"),
    knob(
        "commit",
        Kind::Choice(&["on", "os", "off"]),
        "a commit is flushed to the disk, handed to the system, or neither",
    ),
    knob("doublewrite", Kind::Switch, "off may lose pages in a crash of the machine"),
];
