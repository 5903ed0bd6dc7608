//! PostgreSQL. It refuses the superuser, so that it runs as its own user when we are that.

use crate::instance::Instance;
use crate::recipe::{Ready, Recipe, Reload, Step};
use crate::service::{Install, Order, Service, ServiceError, Statistics, Tier};
use baremark_model::descriptor::{Default, Kind, Knob};
use std::fmt::Write as _;

/// The adapter.
pub struct Postgres;

/// The role and the database that it makes; the password is the order's secret.
pub const NAME: &str = "auction";

impl Service for Postgres {
    fn kind(&self) -> &'static str {
        "postgres"
    }

    fn tiers(&self) -> &'static [Tier] {
        &[Tier::Database]
    }

    fn knobs(&self) -> &'static [Knob] {
        KNOBS
    }

    fn extra_help(&self) -> &'static str {
        "lines of postgresql.conf"
    }

    fn install(&self) -> Install {
        Install {
            programs: &["/usr/lib/postgresql/*/bin/postgres", "/usr/bin/postgres"],
            package: "postgresql",
            user: Some("postgres"),
        }
    }

    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError> {
        let bin = order.program.parent().unwrap_or(&order.program).to_owned();
        let folder = order.folder.display().to_string();
        let data = format!("{folder}/data");
        let (host, port) = (order.address.ip().to_string(), order.address.port().to_string());
        let ask = |sql: &str| {
            let args = ["-h", &host, "-p", &port, "-U", NAME, "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-qAtc", sql];
            Step::new(bin.join("psql"), args).env("PGPASSWORD", &order.secret)
        };
        let mut recipe = Recipe::new(
            Step::new(&order.program, ["-D", &data, "-c", &format!("config_file={folder}/postgresql.conf")]),
            Ready::Command(Step::new(
                bin.join("pg_isready"),
                ["-q", "-h", &host, "-p", &port, "-U", NAME, "-d", "postgres"],
            )),
        );
        recipe.files = vec![
            ("postgresql.conf".to_owned(), configuration(order)),
            ("pg_hba.conf".to_owned(), "host all all all scram-sha-256\n".to_owned()),
            ("password".to_owned(), format!("{}\n", order.secret)),
        ];
        recipe.folders = vec!["run"];
        recipe.prepare = vec![Step::new(
            bin.join("initdb"),
            [
                "-D",
                &data,
                "-U",
                NAME,
                "-E",
                "UTF8",
                "--locale=C",
                "-A",
                "scram-sha-256",
                "--pwfile",
                &format!("{folder}/password"),
                "--no-sync",
            ],
        )];
        recipe.after = vec![ask(&format!("create database {NAME}"))];
        recipe.stop_signal = libc::SIGINT;
        recipe.death_signal = libc::SIGQUIT;
        recipe.reload = Reload::Signal(libc::SIGHUP);
        Ok(recipe)
    }

    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError> {
        let order = instance.order();
        let bin = order.program.parent().unwrap_or(&order.program).to_owned();
        let (host, port) = (order.address.ip().to_string(), order.address.port().to_string());
        let sql = "select 'database.' || key, value from pg_stat_database, jsonb_each_text(to_jsonb(pg_stat_database)) \
                   where datname = 'auction' union all select 'bgwriter.' || key, value from pg_stat_bgwriter, \
                   jsonb_each_text(to_jsonb(pg_stat_bgwriter)) union all select 'wal.' || key, value from pg_stat_wal, \
                   jsonb_each_text(to_jsonb(pg_stat_wal))";
        let args = ["-h", &host, "-p", &port, "-U", NAME, "-d", NAME, "-qAt", "-F", "\t", "-c", sql];
        let text = instance.output(&Step::new(bin.join("psql"), args).env("PGPASSWORD", &order.secret))?;
        let pairs = text.lines().filter_map(|line| line.split_once('\t'));
        Ok(pairs.filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?))).collect())
    }
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
    for line in &settings.extra {
        let _ = writeln!(text, "{line}");
    }
    text
}

const KNOBS: &[Knob] = &[
    Knob {
        key: "connections",
        kind: Kind::Count { min: 10, max: 10_000 },
        default: Default::Required,
        help: "connections (max_connections)",
    },
    Knob {
        key: "buffers",
        kind: Kind::Size { min: 1 << 20, max: 1 << 40 },
        default: Default::Required,
        help: "shared_buffers",
    },
    Knob {
        key: "work_memory",
        kind: Kind::Size { min: 64 << 10, max: 1 << 40 },
        default: Default::Required,
        help: "work_mem",
    },
    Knob {
        key: "wal_buffers",
        kind: Kind::Size { min: 32 << 10, max: 1 << 31 },
        default: Default::Required,
        help: "wal_buffers",
    },
    Knob {
        key: "wal_size",
        kind: Kind::Size { min: 32 << 20, max: 1 << 42 },
        default: Default::Required,
        help: "max_wal_size",
    },
    Knob {
        key: "checkpoint",
        kind: Kind::Time { min: 30_000_000_000, max: 86_400_000_000_000 },
        default: Default::Required,
        help: "checkpoint_timeout",
    },
    Knob {
        key: "fsync",
        kind: Kind::Switch,
        default: Default::Required,
        help: "off loses the database in a crash of the machine",
    },
    Knob {
        key: "full_page_writes",
        kind: Kind::Switch,
        default: Default::Required,
        help: "off may lose pages in a crash of the machine",
    },
    Knob {
        key: "commit",
        kind: Kind::Choice(&["on", "off", "local"]),
        default: Default::Required,
        help: "synchronous_commit: off loses the last moments in a crash",
    },
];
