//! One load from several sites: how they come and what becomes of them when one does not.

use crate::played::{Answer, Played, now_ns, soon};
use baremark_lab::spread::{Place, SiteEnd, SitesError, run};
use baremark_model::site::{Missing, SiteError};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A load from these sites, of which the second may have an order of its own, until the interrupt is given.
fn load(sites: &[Played], second: &str, interrupt: &AtomicBool) -> Result<Vec<SiteEnd>, SitesError> {
    let places: Vec<_> = sites.iter().enumerate().map(|(index, site)| site.clone().at(index)).collect();
    let order = |index| if index == 1 { json!(second) } else { json!(format!("part {index}")) };
    let places: Vec<_> = places
        .iter()
        .enumerate()
        .map(|(index, site)| Place { name: format!("s{index}"), environment: site, order: order(index) })
        .collect();
    run(&places, Some(Duration::from_secs(1)), now_ns, interrupt, &mut |_| {})
}

fn site() -> Played {
    Played::new(|_| Answer::Values(Vec::new()))
}

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn the_sites_of_a_load_start_side_by_side() {
    let begun = Arc::new(AtomicUsize::new(0));
    // None is there before another has begun: one after the other would never come.
    let together = move |_, _: &AtomicBool| {
        let before = begun.fetch_add(1, Ordering::SeqCst);
        match soon(|| begun.load(Ordering::SeqCst) >= before / 2 * 2 + 2) {
            true => Ok(()),
            false => Err(SiteError::NotReady { what: "it started alone".to_owned(), log: Vec::new() }),
        }
    };
    let site = site().starting(together);
    let ends = load(&vec![site.clone(); 4], "part 1", &NEVER).unwrap();
    let parts: Vec<_> = ends.iter().map(|end| (end.name.as_str(), end.part.clone().unwrap())).collect();
    assert_eq!(parts, [0, 1, 2, 3].map(|at| (["s0", "s1", "s2", "s3"][at], json!(format!("part {at}")))));
    assert_eq!(site.there().load(Ordering::SeqCst), 0);
}

#[test]
fn a_site_of_a_load_that_cannot_start_is_named_and_the_others_are_given_up() {
    let missing = || SiteError::from(Missing { what: "no ssh".to_owned(), remedy: "install it".to_owned() });
    for failing in [0, 1] {
        // The other is at its start for as long as nobody tells it.
        let starting = move |index, given_up: &AtomicBool| match index == failing {
            true => Err(missing()),
            false => {
                assert!(soon(|| given_up.load(Ordering::Relaxed)), "it was not told");
                Err(SiteError::Interrupted)
            }
        };
        let site = site().starting(starting);
        let why = load(&[site.clone(), site.clone()], "part 1", &NEVER).unwrap_err();
        assert_eq!(why.to_string(), format!("site s{failing}: no ssh; install it"));
        assert_eq!(site.there().load(Ordering::SeqCst), 0);
    }
}

#[test]
fn sites_that_are_there_end_when_another_cannot_take_part() {
    let site = site();
    let why = load(&[site.clone(), site.clone(), site.clone()], Played::REFUSED, &NEVER).unwrap_err();
    assert_eq!(why.to_string(), "site s1: preparing the load failed: no file");
    assert_eq!(site.there().load(Ordering::SeqCst), 0);
}

#[test]
fn a_user_who_stops_before_the_load_waits_for_no_site() {
    let (interrupt, begun) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&begun);
    let starting = move |_, given_up: &AtomicBool| {
        counted.fetch_add(1, Ordering::SeqCst);
        assert!(soon(|| given_up.load(Ordering::Relaxed)), "it was not told");
        Err(SiteError::Interrupted)
    };
    let site = site().starting(starting);
    thread::scope(|scope| {
        scope.spawn(|| interrupt.fetch_or(soon(|| begun.load(Ordering::SeqCst) == 2), Ordering::SeqCst));
        assert!(matches!(load(&[site.clone(), site.clone()], "part 1", &interrupt), Err(SitesError::Interrupted)));
    });
}
