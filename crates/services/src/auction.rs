//! The auction application: this program itself, as `baremark auction serve`.

use crate::exchange;
use crate::instance::Instance;
use crate::recipe::{Ready, Recipe, Step};
use crate::service::{Install, Order, Service, ServiceError, Statistics, Tier};
use baremark_model::descriptor::{Default, Kind, Knob};

/// The adapter.
pub struct Auction;

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
        let _ = KNOBS;
        Ok(Recipe::new(Step::new(&order.program, ["auction", "serve"]), Ready::http("/ready")))
    }

    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError> {
        let text = instance.ask(|address| exchange::get(address, "/metrics"))?;
        let lines = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
        Ok(lines.filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?))).collect())
    }
}

const KNOBS: &[Knob] = &[Knob {
    key: "pool",
    kind: Kind::Count { min: 1, max: 10_000 },
    default: Default::Required,
    help: "connections to the database",
}];
