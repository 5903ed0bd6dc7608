//! `[elastic]`: how the numbers of servers change while an application runs.

use super::defaults::DEFAULTS_FILE;
use crate::elastic::{Change, Elastic, Policy, Signal};
use baremark_model::config::{Reader, Section};
use baremark_services::card::Tier;
use std::collections::BTreeMap;

pub(super) fn elastic(reader: &mut Reader, root: &Section<'_>) -> Elastic {
    let section = reader.section(root, "elastic");
    // Without a capacity, nothing is said of servers that were missing or too many.
    reader.known_by(&section, DEFAULTS_FILE, &["capacity"]);
    let schedule = reader.sections(&section, "schedule").iter().map(|entry| change(reader, entry)).collect();
    let policies = [
        ("none", None),
        ("utilization", Some(Signal::Utilization)),
        ("latency", Some(Signal::Latency)),
        ("queue", Some(Signal::Queue)),
    ];
    let chosen = reader.choice(&section, "policy", &policies.map(|(word, _)| word));
    let signal = chosen.and_then(|at| policies[at].1);
    let tier = match reader.text(&section, "tier").unwrap_or_default() {
        "web" => Tier::Web,
        "app" => Tier::App,
        other => {
            reader.wrong(&section, "tier", format!("the tier '{other}' cannot be scaled"), "write app or web");
            Tier::App
        }
    };
    let number = |reader: &mut Reader, key: &str| reader.count(&section, key, (1, 64)).unwrap_or(1);
    let (least, most) = (number(reader, "least"), number(reader, "most"));
    if least > most {
        reader.wrong(&section, "least", format!("least = {least} above most = {most}"), "let least be at most most");
    }
    let policy = signal.map(|signal| Policy {
        signal,
        tier,
        least,
        most,
        high: reader.text(&section, "high").unwrap_or_default().to_owned(),
        low: reader.text(&section, "low").unwrap_or_default().to_owned(),
        every_s: reader.seconds(&section, "every"),
        cooldown_s: reader.seconds(&section, "cooldown"),
    });
    if let Some(policy) = &policy
        && let Err(why) = policy.thresholds()
    {
        reader.wrong(
            &section,
            "high",
            why,
            "write such as high = \"70 %\", low = \"30 %\"; times for latency; numbers for queue",
        );
    }
    Elastic {
        schedule,
        repeat_s: reader.seconds(&section, "repeat"),
        policy,
        capacity: reader.count(&section, "capacity", (1, 10_000_000)),
    }
}

fn change(reader: &mut Reader, entry: &Section<'_>) -> Change {
    reader.known(entry, &["at", "app", "web"]);
    let mut counts = BTreeMap::new();
    for (key, tier) in [("app", Tier::App), ("web", Tier::Web)] {
        if let Some(count) = reader.count(entry, key, (1, 64)) {
            counts.insert(tier, count);
        }
    }
    if counts.is_empty() {
        reader.wrong(entry, "at", "a change sets no tier", "write such as { at = \"60 s\", app = 2 }");
    }
    Change { at_s: reader.seconds(entry, "at"), counts }
}
