//! A load from several sites: what each measured is merged here, exactly.

use super::view::View;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::places;
use baremark_lab::link::LinkError;
use baremark_lab::spread::{self, Place, SiteEvent, SitesError};
use baremark_load::document::{Document, SiteRow};
use baremark_load::load::{Load, Stop};
use baremark_load::order::Order;
use baremark_load::record::{MergedSeconds, Part, SecondPart};
use baremark_model::site::{Environment, SiteError};
use baremark_sys::clock::monotonic_ns;
use serde::Deserialize as _;
use std::path::Path;
use std::time::Duration;

/// A site of a load: its name, and where its agent comes from.
pub(super) type Site = (String, Box<dyn Environment>);

/// The sites of these names.
pub(super) fn named(names: &[String], ssh_config: Option<&Path>) -> Result<Vec<Site>, Refusal> {
    names.iter().map(|name| places::of_site(name, ssh_config).map(|place| (name.clone(), place))).collect()
}

/// Runs the order from all sites, dealt among them, and merges what comes home.
pub(super) fn run(
    context: &Context,
    sites: &[Site],
    order: &Order,
    load: &Load,
    view: &mut View<'_>,
) -> Result<(Document, Part), Refusal> {
    let mut members = Vec::new();
    for (at, (name, environment)) in sites.iter().enumerate() {
        let order = serde_json::to_value(order.of_site(at as u64, sites.len() as u64));
        let order = order.map_err(|why| Refusal::failure(format!("writing JSON: {why}")))?;
        members.push(Place { name: format!("{} ({name})", at + 1), environment: &**environment, order });
    }
    let lasting = match load.stop {
        Stop::After(time) => Some(Duration::from_nanos(time.0.saturating_add(load.grace.0))),
        Stop::Count(_) => None,
    };
    let (mut seconds, mut left) = (MergedSeconds::default(), sites.len());
    let ends = spread::run(&members, lasting, monotonic_ns, &context.interrupt, &mut |event| match event {
        SiteEvent::Second { second, part, .. } => {
            if let Ok(part) = SecondPart::deserialize(part) {
                seconds.add(*second, &part, left, &mut |second, part| view.see(second, &part));
            }
        }
        SiteEvent::Lost { site, why } => {
            left = left.saturating_sub(1);
            view.say(&format!("site {} is lost: {why}", members[*site].name));
        }
    });
    let ends = ends.map_err(|why| match why {
        SitesError::Interrupted => Refusal { exit: Exit::Interrupted, message: why.to_string() },
        SitesError::Site { why: LinkError::Site(SiteError::Missing(_)), .. } => {
            Refusal { exit: Exit::Missing, message: why.to_string() }
        }
        SitesError::Site { .. } => Refusal::failure(why),
    })?;
    let mut whole = Part::new(&load.scenario.operation_names());
    let mut rows = Vec::new();
    for end in ends {
        let mut lost = end.lost;
        if let Some(value) = end.part {
            let merged = Part::deserialize(&value).map_err(|why| why.to_string());
            let merged = merged.and_then(|part| whole.merge(&part).map_err(|why| why.to_string()));
            lost = merged.err().map(|why| format!("its result cannot be used: {why}"));
        }
        rows.push(SiteRow { name: end.name, lost, seconds: end.seconds, begin_error_ns: end.begin_error_ns });
    }
    if rows.iter().all(|row| row.lost.is_some()) {
        let why: Vec<String> =
            rows.into_iter().filter_map(|row| Some(format!("{}: {}", row.name, row.lost?))).collect();
        return Err(Refusal::failure(format!("every site was lost: {}", why.join("; "))));
    }
    Ok((Document::new(load, &whole).from_sites(rows), whole))
}
