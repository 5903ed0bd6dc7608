//! The auction application's server: this program itself, as `baremark auction serve`.

use crate::card::{Card, Install, Tier};
use crate::error::ServiceError;
use crate::exchange;
use crate::order::Order;
use crate::recipe::{Ready, Recipe, Step};
use crate::service::{Instance, Service};
use crate::settings::knob;
use crate::statistics::{Statistics, numbers};
use baremark_model::knob::{Kind, Knob};
use std::time::Duration;

/// The adapter.
pub struct Auction;

/// The option that names the file of the database's password, of every command of the application's.
pub const PASSWORD_FILE: &str = "--database-password-file";
const PASSWORD: &str = "database-password";
/// The file of the password of Redis as the bus.
const BUS_PASSWORD: &str = "bus-password";

const CARD: Card = Card {
    kind: "auction",
    tiers: &[Tier::App],
    knobs: KNOBS,
    install: Install { programs: &["/proc/self/exe"], package: "baremark", user: None },
};

impl Service for Auction {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError> {
        let settings = &order.settings;
        let mut args = ["auction", "serve", "--listen", &order.address.to_string()].map(str::to_owned).to_vec();
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
        args.extend([PASSWORD_FILE.to_owned(), order.folder.join(PASSWORD).display().to_string()]);
        let password = order.database_secret.as_ref().unwrap_or(&order.secret);
        let mut files = vec![(PASSWORD.to_owned(), format!("{password}\n"))];
        if order.wiring.iter().any(|word| word.starts_with("redis://")) {
            args.extend(["--bus-password-file".to_owned(), order.folder.join(BUS_PASSWORD).display().to_string()]);
            files.push((BUS_PASSWORD.to_owned(), format!("{}\n", order.secret)));
        }
        let mut recipe = Recipe::new(Step::new(&order.program, args), Ready::http("/ready"));
        recipe.files = files;
        recipe.ready_limit = Duration::from_secs(120);
        Ok(recipe)
    }

    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError> {
        let text = instance.ask(|address| exchange::get(address, "/metrics"))?;
        let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
        Ok(numbers(lines))
    }
}

const MOST_TIME: u64 = 86_400_000_000_000;

const KNOBS: &[Knob] = &[
    knob("pool", Kind::Count { min: 1, max: 1000 }, "connections to the database, a server"),
    knob("threads", Kind::Count { min: 0, max: 1024 }, "threads that serve; 0 takes as many as processors"),
    knob("connections", Kind::Count { min: 1, max: 10_000_000 }, "concurrent connections"),
    knob("waiters", Kind::Count { min: 1, max: 10_000_000 }, "concurrent long polls and streams"),
    knob("patience", Kind::Time { min: 1_000_000, max: MOST_TIME }, "how long a statement may take"),
    knob(
        "open",
        Kind::Time { min: 50_000_000, max: MOST_TIME },
        "how long an item is open without a bid before its last call",
    ),
    knob("last_call", Kind::Time { min: 50_000_000, max: MOST_TIME }, "how long the last call lasts"),
    knob(
        "lease",
        Kind::Time { min: 50_000_000, max: MOST_TIME },
        "after how long without a sign of life a server's auctions are taken over",
    ),
    knob("drain", Kind::Time { min: 0, max: MOST_TIME }, "drain period after SIGTERM"),
    knob("durable", Kind::Choice(&["on", "off"]), "whether confirmed transactions survive a crash"),
];
