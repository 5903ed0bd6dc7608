//! Redis, and Valkey in its place: as the bus between app servers, or with keys and values of a load.

use crate::card::{Card, Install, Tier};
use crate::error::ServiceError;
use crate::exchange;
use crate::order::Order;
use crate::recipe::{Ready, Recipe, Step};
use crate::service::{Instance, Service};
use crate::settings::knob;
use crate::statistics::{Statistics, numbers};
use baremark_model::knob::{Kind, Knob};
use std::fmt::Write as _;

/// A server that speaks Redis's protocol and reads its configuration.
pub struct Redis(&'static Card);

/// Redis itself.
pub static REDIS: Redis = Redis(&Card {
    kind: "redis",
    tiers: &[Tier::Bus],
    knobs: KNOBS,
    install: Install { programs: &["/usr/bin/redis-server"], package: "redis-server", user: Some("redis") },
});

/// Valkey, which continues Redis 7.2. It is no tier of applications, whose topologies have its settings nowhere.
pub static VALKEY: Redis = Redis(&Card {
    kind: "valkey",
    tiers: &[],
    knobs: KNOBS,
    install: Install { programs: &["/usr/bin/valkey-server"], package: "valkey-server", user: Some("valkey") },
});

impl Service for Redis {
    fn card(&self) -> &'static Card {
        self.0
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
        Ok(numbers(pairs))
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
    settings.pass_through(&mut text, "");
    text
}

const KNOBS: &[Knob] = &[
    knob("connections", Kind::Count { min: 10, max: 1_000_000 }, "connections (maxclients)"),
    knob("memory", Kind::Size { min: 1 << 20, max: 1 << 42 }, "maxmemory"),
    knob("threads", Kind::Count { min: 1, max: 128 }, "io-threads"),
    knob("append", Kind::Choice(&["off", "everysec", "always"]), "the append-only file; a bus needs none"),
];
