//! The auction application's server: this program itself, as `baremark auction serve`.

use crate::exchange;
use crate::instance::Instance;
use crate::recipe::{Ready, Recipe, Step};
use crate::service::{Install, Order, Service, ServiceError, Statistics, Tier};
use baremark_model::descriptor::{Default, Kind, Knob};
use std::time::Duration;

/// The adapter.
pub struct Auction;

/// The variable that carries the database's password.
pub const PASSWORD: &str = "BAREMARK_AUCTION_DATABASE_PASSWORD";

impl Service for Auction {
    fn kind(&self) -> &'static str {
        "auction"
    }

    fn tiers(&self) -> &'static [Tier] {
        &[Tier::App]
    }

    fn knobs(&self) -> &'static [Knob] {
        KNOBS
    }

    fn extra_help(&self) -> &'static str {
        "arguments of baremark auction serve"
    }

    fn install(&self) -> Install {
        Install { programs: &["/proc/self/exe"], package: "baremark", user: None }
    }

    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError> {
        let settings = &order.settings;
        let mut args = vec!["auction".to_owned(), "serve".to_owned()];
        // In a place with a network of its own it listens elsewhere than where others reach it.
        if !order.wiring.iter().any(|word| word == "--listen") {
            args.extend(["--listen".to_owned(), order.address.to_string()]);
        }
        args.extend(order.wiring.iter().cloned());
        for (key, option) in
            [("pool", "--pool"), ("threads", "--threads"), ("connections", "--connections"), ("waiters", "--waiters")]
        {
            // 0 leaves it to the server.
            if settings.count(key) > 0 {
                args.extend([option.to_owned(), settings.count(key).to_string()]);
            }
        }
        for (key, option) in [
            ("patience", "--patience"),
            ("open", "--open"),
            ("last_call", "--last-call"),
            ("lease", "--lease"),
            ("drain", "--drain"),
        ] {
            args.extend([option.to_owned(), format!("{}ms", settings.ms(key))]);
        }
        args.extend(["--durable".to_owned(), settings.word("durable").to_owned()]);
        args.extend(settings.extra.iter().cloned());
        let mut recipe =
            Recipe::new(Step::new(&order.program, args).env(PASSWORD, &order.secret), Ready::http("/ready"));
        recipe.ready_limit = Duration::from_secs(120);
        Ok(recipe)
    }

    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError> {
        let text = instance.ask(|address| exchange::get(address, "/metrics"))?;
        let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
        Ok(lines.filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?))).collect())
    }
}

const MOST_TIME: u64 = 86_400_000_000_000;

const KNOBS: &[Knob] = &[
    Knob {
        key: "pool",
        kind: Kind::Count { min: 1, max: 1000 },
        default: Default::Required,
        help: "connections to the database, a server",
    },
    Knob {
        key: "threads",
        kind: Kind::Count { min: 0, max: 1024 },
        default: Default::Required,
        help: "threads that serve; 0 takes as many as processors",
    },
    Knob {
        key: "connections",
        kind: Kind::Count { min: 1, max: 10_000_000 },
        default: Default::Required,
        help: "connections at once",
    },
    Knob {
        key: "waiters",
        kind: Kind::Count { min: 1, max: 10_000_000 },
        default: Default::Required,
        help: "long polls and streams at once",
    },
    Knob {
        key: "patience",
        kind: Kind::Time { min: 1_000_000, max: MOST_TIME },
        default: Default::Required,
        help: "how long a statement may take",
    },
    Knob {
        key: "open",
        kind: Kind::Time { min: 50_000_000, max: MOST_TIME },
        default: Default::Required,
        help: "how long an item is open without a bid before its last call",
    },
    Knob {
        key: "last_call",
        kind: Kind::Time { min: 50_000_000, max: MOST_TIME },
        default: Default::Required,
        help: "how long the last call lasts",
    },
    Knob {
        key: "lease",
        kind: Kind::Time { min: 50_000_000, max: MOST_TIME },
        default: Default::Required,
        help: "after how long without a sign of life a server's auctions are taken over",
    },
    Knob {
        key: "drain",
        kind: Kind::Time { min: 0, max: MOST_TIME },
        default: Default::Required,
        help: "how long requests are still taken after SIGTERM",
    },
    Knob {
        key: "durable",
        kind: Kind::Choice(&["on", "off"]),
        default: Default::Required,
        help: "whether confirmed transactions survive a crash",
    },
];
