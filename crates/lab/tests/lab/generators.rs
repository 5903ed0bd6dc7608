//! Load generators that are steered: what all sites are told and tell, and which one is named when it is lost.

use crate::played::{Answer, Played, now_ns};
use baremark_lab::generators::{Generators, Heard, MakeOrder, Place};
use baremark_lab::spread::SitesError;
use baremark_model::site::Environment;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Generators at two sites, of which the second has this order.
fn start(site: &Played, second: &'static str) -> Result<Generators, SitesError> {
    let place = |index: usize| {
        let own = site.clone().at(index);
        Place {
            name: format!("s{index}"),
            environment: Box::new(move || Ok(Box::new(own) as Box<dyn Environment>)),
            offers: Vec::new(),
        }
    };
    let order = move |index: usize, _: &[SocketAddr]| Ok(if index == 1 { json!(second) } else { json!("part 0") });
    let order: Arc<MakeOrder> = Arc::new(order);
    Generators::start(vec![place(0), place(1)], &order, now_ns, &Arc::new(AtomicBool::new(false)))
}

fn site() -> Played {
    Played::new(|_| Answer::Values(Vec::new()))
}

/// Everything that comes until `enough`, within a minute.
fn heard(
    generators: &mut Generators,
    enough: impl Fn(&Generators, &BTreeMap<usize, Heard>) -> bool,
) -> Result<BTreeMap<usize, Heard>, SitesError> {
    let (mut all, deadline) = (BTreeMap::new(), Instant::now() + Duration::from_secs(60));
    while !enough(generators, &all) {
        assert!(Instant::now() < deadline, "{all:?}");
        all.extend(generators.next(Duration::from_millis(20))?);
    }
    Ok(all)
}

#[test]
fn levels_and_windows_go_to_every_site_and_come_home_by_site() {
    let site = site();
    let mut generators = start(&site, "part 1").unwrap();
    generators.set(21.0).unwrap();
    heard(&mut generators, |generators, _| generators.in_flight() == 42).unwrap();
    generators.ask(7, 1_000_000_000, 0).unwrap();
    let all = heard(&mut generators, |_, all| all.len() == 2).unwrap();
    let part = |index: usize| Heard::Window { id: 7, part: json!(format!("part {index}")) };
    assert_eq!(all, BTreeMap::from([(0, part(0)), (1, part(1))]));
    assert_eq!(generators.sites().map(|(name, _)| name.to_owned()).collect::<Vec<_>>(), ["s0", "s1"]);
    drop(generators);
    assert_eq!(site.there().load(Ordering::SeqCst), 0, "all sites are gone with the load");
}

#[test]
fn a_site_that_cannot_take_part_or_dies_is_an_error_that_names_it() {
    let site = site();
    let why = start(&site, Played::REFUSED).err().unwrap();
    assert_eq!(why.to_string(), "site s1: preparing the load failed: no file");
    let mut generators = start(&site, Played::DYING).unwrap();
    generators.ask(1, 1_000_000_000, 0).unwrap();
    let why = heard(&mut generators, |_, _| false).unwrap_err().to_string();
    assert!(why.starts_with("site s1: the agent is lost: "), "{why}");
    drop(generators);
    assert_eq!(site.there().load(Ordering::SeqCst), 0);
}
