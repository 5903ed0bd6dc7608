//! Services without their programs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod shipped;

use baremark_services::card::Tier;
use baremark_services::order::Order;
use baremark_services::{all, find};
use shipped::defaults;

#[test]
fn every_knob_has_its_default_in_the_shipped_file() {
    for service in all() {
        let settings = defaults(*service);
        for knob in service.knobs() {
            assert!(settings.has(knob.key), "{}.{} has no default", service.kind(), knob.key);
        }
    }
}

/// Redis lets nobody in without the run's secret, and app servers did not have it: what they tell each other came to nobody.
#[test]
fn app_servers_have_the_password_of_redis_as_the_bus() {
    let service = find("auction").unwrap();
    let recipe = |bus: &str| {
        let order = Order {
            name: "app-1".to_owned(),
            tier: Tier::App,
            address: ([127, 0, 0, 1], 8080).into(),
            folder: "/run/app-1".into(),
            program: "/proc/self/exe".into(),
            settings: defaults(service),
            upstreams: Vec::new(),
            wiring: ["--bus", bus].map(str::to_owned).to_vec(),
            secret: "s3cr3tOfThisTest".to_owned(),
            database_secret: Some("another".to_owned()),
            owner: None,
            tls: None,
        };
        service.configure(&order).unwrap()
    };
    let redis = recipe("redis://127.0.0.1:6379");
    let named = ["--bus-password-file", "/run/app-1/bus-password"];
    assert!(redis.run.args.windows(2).any(|words| words == named), "{:?}", redis.run.args);
    assert!(redis.files.contains(&("bus-password".to_owned(), "s3cr3tOfThisTest\n".to_owned())));
    assert!(!redis.run.args.iter().any(|word| word.contains("s3cr3t")), "others see the words of a command");
    assert!(!recipe("process").run.args.iter().any(|word| word == named[0]));
}
