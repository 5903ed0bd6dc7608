//! Redis as the bus between app servers.

use crate::exchange;
use crate::instance::Instance;
use crate::recipe::{Ready, Recipe, Step};
use crate::service::{Install, Order, Service, ServiceError, Statistics, Tier};
use baremark_model::descriptor::{Default, Kind, Knob};
use std::fmt::Write as _;

/// The adapter.
pub struct Redis;

impl Service for Redis {
    fn kind(&self) -> &'static str {
        "redis"
    }

    fn tiers(&self) -> &'static [Tier] {
        &[Tier::Bus]
    }

    fn knobs(&self) -> &'static [Knob] {
        KNOBS
    }

    fn extra_help(&self) -> &'static str {
        "lines of redis.conf"
    }

    fn install(&self) -> Install {
        Install { programs: &["/usr/bin/redis-server"], package: "redis-server", user: Some("redis") }
    }

    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError> {
        let file = order.folder.join("redis.conf").display().to_string();
        let ready = Ready::Answers { send: signed(order, "PING"), expect: b"+OK\r\n+PONG" };
        let mut recipe = Recipe::new(Step::new(&order.program, [file]), ready);
        recipe.files = vec![("redis.conf".to_owned(), configuration(order))];
        Ok(recipe)
    }

    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError> {
        let question = signed(instance.order(), "INFO\r\nQUIT");
        let text = instance.ask(|address| exchange::whole(address, &question))?;
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Ok(pairs.filter_map(|(key, value)| Some((key.to_owned(), value.trim().parse().ok()?))).collect())
    }
}

fn signed(order: &Order, command: &str) -> Vec<u8> {
    format!("AUTH {}\r\n{command}\r\n", order.secret).into_bytes()
}

fn configuration(order: &Order) -> String {
    let settings = &order.settings;
    let mut text = String::new();
    let _ =
        writeln!(text, "bind {}\nport {}\nprotected-mode yes\ndaemonize no", order.address.ip(), order.address.port());
    let _ = writeln!(text, "requirepass {}\ndir {}", order.secret, order.folder.display());
    let _ = writeln!(
        text,
        "maxclients {}\nmaxmemory {}\nmaxmemory-policy noeviction",
        settings.count("connections"),
        settings.bytes("memory")
    );
    let _ = writeln!(text, "io-threads {}\nsave \"\"", settings.count("threads"));
    match settings.word("append") {
        "off" => text.push_str("appendonly no\n"),
        when => {
            let _ = writeln!(text, "appendonly yes\nappendfsync {when}");
        }
    }
    for line in &settings.extra {
        let _ = writeln!(text, "{line}");
    }
    text
}

const KNOBS: &[Knob] = &[
    Knob {
        key: "connections",
        kind: Kind::Count { min: 10, max: 1_000_000 },
        default: Default::Required,
        help: "connections (maxclients)",
    },
    Knob {
        key: "memory",
        kind: Kind::Size { min: 1 << 20, max: 1 << 42 },
        default: Default::Required,
        help: "maxmemory",
    },
    Knob { key: "threads", kind: Kind::Count { min: 1, max: 128 }, default: Default::Required, help: "io-threads" },
    Knob {
        key: "append",
        kind: Kind::Choice(&["off", "everysec", "always"]),
        default: Default::Required,
        help: "the append-only file; a bus needs none",
    },
];
