//! PostgreSQL. It refuses the superuser, so that it runs as its own user when we are that.

use crate::card::{Card, Install, Tier};
use crate::error::ServiceError;
use crate::order::Order;
use crate::recipe::{Ready, Recipe, Reload, Step};
use crate::service::{Instance, Service};
use crate::settings::knob;
use crate::statistics::{Statistics, numbers};
use baremark_model::fingerprint;
use baremark_model::knob::{Kind, Knob};
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

/// The adapter.
pub struct Postgres;

/// The role and the database that it makes; the password is the order's secret. The role reads statistics and its log, and has no rights of
/// the superuser's, such as to run programs.
pub const NAME: &str = "auction";
/// The superuser, who comes by the socket in the instance's private folder alone.
const SUPERUSER: &str = "postgres";
const ROLES: &str = "roles.sql";

/// The client's password.
const CLIENT: &str = "client-password";
/// Who may enter: whoever knows the password, standby servers among them.
fn host_based_authentication() -> String {
    format!(
        "local all {SUPERUSER} scram-sha-256\nhost all {NAME} all scram-sha-256\nhost replication {NAME} all scram-sha-256\n\
         host all all all reject\n"
    )
}

/// What makes the role and the database. Versions before 15 have no right to a checkpoint alone.
fn roles(secret: &str) -> String {
    let secret = secret.replace('\'', "''");
    format!(
        "create role {NAME} login createdb replication password '{secret}' in role pg_monitor;\n\
         select 'grant pg_checkpoint to {NAME}' from pg_roles where rolname = 'pg_checkpoint' \\gexec\n\
         create database {NAME} owner {NAME};\n"
    )
}

const CARD: Card = Card {
    kind: "postgres",
    tiers: &[Tier::Database],
    knobs: KNOBS,
    install: Install {
        programs: &["/usr/lib/postgresql/*/bin/postgres", "/usr/bin/postgres"],
        package: "postgresql",
        user: Some("postgres"),
    },
};

impl Service for Postgres {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn source(&self) -> &'static str {
        fingerprint!("postgres.rs")
    }

    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError> {
        let folder = order.folder.display().to_string();
        let data = format!("{folder}/data");
        let mut recipe = Recipe::new(
            Step::new(&order.program, ["-D", &data, "-c", &format!("config_file={folder}/postgresql.conf")]),
            Ready::Command(client(order, "pg_isready", "postgres", &["-q"])),
        );
        recipe.files = vec![
            ("postgresql.conf".to_owned(), configuration(order)),
            ("pg_hba.conf".to_owned(), host_based_authentication()),
            (ROLES.to_owned(), roles(&order.secret)),
            ("password".to_owned(), format!("{}\n", order.secret)),
            (CLIENT.to_owned(), format!("*:*:*:*:{}\n", order.secret)),
        ];
        recipe.folders = vec!["run"];
        let password = format!("{folder}/password");
        let made =
            ["-D", &data, "-U", SUPERUSER, "-E", "UTF8", "--locale=C", "-A", "scram-sha-256", "--pwfile", &password];
        recipe.prepare = vec![Step::new(order.program.with_file_name("initdb"), [&made[..], &["--no-sync"]].concat())];
        recipe.after = vec![by_socket(order, &["-v", "ON_ERROR_STOP=1", "-qAtf", &format!("{folder}/{ROLES}")])];
        recipe.stop_signal = libc::SIGINT;
        recipe.death_signal = libc::SIGQUIT;
        recipe.reload = Reload::Signal(libc::SIGHUP);
        Ok(recipe)
    }

    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError> {
        let sql = "select 'database.' || key, value from pg_stat_database, jsonb_each_text(to_jsonb(pg_stat_database)) \
                   where datname = 'auction' union all select 'bgwriter.' || key, value from pg_stat_bgwriter, \
                   jsonb_each_text(to_jsonb(pg_stat_bgwriter)) union all select 'wal.' || key, value from pg_stat_wal, \
                   jsonb_each_text(to_jsonb(pg_stat_wal))";
        let text = instance.output(&client(instance.order(), "psql", NAME, &["-qAt", "-F", "\t", "-c", sql]))?;
        let pairs = text.lines().filter_map(|line| line.split_once('\t'));
        Ok(numbers(pairs))
    }
}

/// Has a server write all that is new in its cache, and begin its log anew from there. While it is stopped its clock goes on: the checkpoint and the autovacuum that
/// are due by time may follow when it goes on.
///
/// # Errors
/// What the server says, or that `interrupt` was raised.
pub fn checkpoint(instance: &Instance, interrupt: &AtomicBool) -> Result<(), ServiceError> {
    let step = by_socket(instance.order(), &["-v", "ON_ERROR_STOP=1", "-qAt", "-c", "checkpoint"]);
    instance.output_unless(&step, interrupt).map(drop)
}

/// A client of PostgreSQL's from the server's installation that knows the way to a database and the password.
fn client(order: &Order, program: &str, database: &str, more: &[&str]) -> Step {
    connected(order, program, (&order.address.ip().to_string(), NAME, database), more)
}

/// A client for the superuser.
fn by_socket(order: &Order, more: &[&str]) -> Step {
    let folder = order.folder.join("run").display().to_string();
    connected(order, "psql", (&folder, SUPERUSER, "postgres"), more)
}

fn connected(order: &Order, program: &str, (host, user, database): (&str, &str, &str), more: &[&str]) -> Step {
    let way = ["-h", host, "-p", &order.address.port().to_string(), "-U", user, "-d", database];
    let step = Step::new(order.program.with_file_name(program), [&way[..], more].concat());
    step.env("PGPASSFILE", order.folder.join(CLIENT).display().to_string())
}

fn configuration(order: &Order) -> String {
    let settings = &order.settings;
    let folder = order.folder.display();
    let switch = |key: &str| if settings.on(key) { "on" } else { "off" };
    let kib = |key: &str| settings.bytes(key) / 1024;
    let mut text = String::new();
    let _ = writeln!(text, "listen_addresses = '{}'\nport = {}", order.address.ip(), order.address.port());
    let _ = writeln!(text, "unix_socket_directories = '{folder}/run'\nhba_file = '{folder}/pg_hba.conf'");
    let _ = writeln!(text, "password_encryption = scram-sha-256\nlog_min_messages = warning\nlogging_collector = off");
    let _ = writeln!(text, "max_connections = {}", settings.count("connections"));
    let _ = writeln!(text, "shared_buffers = {}kB\nwork_mem = {}kB", kib("buffers"), kib("work_memory"));
    let _ =
        writeln!(text, "wal_buffers = {}kB\nmax_wal_size = {}MB", kib("wal_buffers"), settings.bytes("wal_size") >> 20);
    let _ = writeln!(text, "checkpoint_timeout = {}s", settings.ms("checkpoint").div_ceil(1000));
    let _ = writeln!(text, "fsync = {}\nfull_page_writes = {}", switch("fsync"), switch("full_page_writes"));
    let _ = writeln!(text, "synchronous_commit = {}", settings.word("commit"));
    settings.pass_through(&mut text, "");
    text
}

const KNOBS: &[Knob] = &[
    knob("connections", Kind::Count { min: 10, max: 10_000 }, "connections (max_connections)"),
    knob("buffers", Kind::Size { min: 1 << 20, max: 1 << 40 }, "shared_buffers"),
    knob("work_memory", Kind::Size { min: 64 << 10, max: 1 << 40 }, "work_mem"),
    knob("wal_buffers", Kind::Size { min: 32 << 10, max: 1 << 31 }, "wal_buffers"),
    knob("wal_size", Kind::Size { min: 32 << 20, max: 1 << 42 }, "max_wal_size"),
    knob("checkpoint", Kind::Time { min: 30_000_000_000, max: 86_400_000_000_000 }, "checkpoint_timeout"),
    knob("fsync", Kind::Switch, "off loses the database in a crash of the machine"),
    knob("full_page_writes", Kind::Switch, "off may lose pages in a crash of the machine"),
    knob("commit", Kind::Choice(&["on", "off", "local"]), "synchronous_commit: off loses the last moments in a crash"),
];
