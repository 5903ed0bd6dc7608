//! The study that a command line of `baremark load` describes: what `--print-study` prints, and what the record of the load keeps.

use super::args::{Gaps, LoadArgs};
use crate::context::Context;
use crate::exit::Refusal;
use crate::planning;
use crate::source::Source;
use baremark_load::load::Pin;
use baremark_load::order::Order;
use baremark_load::transport::Trust;
use baremark_load::workload;
use baremark_model::literal::{section, whole};
use baremark_model::plan::{LoadRequest, Mode, Plan};
use baremark_store::RunId;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Value;

/// The name of the study file of a run that `baremark load` has recorded.
pub const NAME: &str = baremark_model::codes::Origin::LOAD;

/// Beyond the load's own time, a trial may take so long.
const MARGIN_NS: u64 = 600_000_000_000;

/// What of a command line may be shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    /// Everything: the user has typed it.
    Shown,
    /// Neither headers nor the URL's query and fragment, which may hold a token.
    LeftOut,
}

/// The study as text.
pub(super) fn text(args: &LoadArgs, secrets: Secrets) -> String {
    let shown = secrets == Secrets::Shown;
    let url = args.url.as_deref().map(|url| if shown { url } else { without_query(url) });
    let scenario = args.scenario.as_deref().map(absolute);
    let title = url.map(without_query).map(str::to_owned).or_else(|| scenario.clone()).unwrap_or_default();
    let mut workload = section([("kind", workload::KIND.into())]);
    let mut put = |key: &str, value: Option<Value>| workload.extend(value.map(|value| (key.to_owned(), value)));
    let text = |text: &str| Some(text.into());
    let list = |texts: Vec<String>| (!texts.is_empty()).then(|| texts.into());
    let file = |path: &Option<std::path::PathBuf>| path.as_deref().map(|path| absolute(path).into());
    let switch = |on: bool| on.then(|| true.into());
    put("url", url.and_then(text));
    put("scenario", scenario.as_deref().and_then(text));
    put("rate", args.rate.as_deref().and_then(text));
    put("users", args.users.as_deref().and_then(text));
    put("trace", file(&args.trace));
    put("repeat", switch(args.repeat));
    put("replay", file(&args.replay));
    put("arrival", text("poisson").filter(|_| args.arrival == Gaps::Poisson));
    put("connections", args.connections.map(whole));
    put("shared", switch(args.shared));
    put("http2", switch(args.http2));
    put("streams", args.http2.then(|| whole(args.streams)));
    put("threads", Some(whole(args.threads)));
    put("duration", text(&format!("{} ns", args.duration.0)));
    put("operations", args.count.map(whole));
    put("warm_up", text("0 s"));
    put("request_timeout", text(&format!("{} ns", args.timeout.0)));
    put("cycle", args.cycle.map(|cycle| format!("{} ns", cycle.0).into()));
    put("error_limit", args.error_limit.map(|share| format!("{} %", 100.0 * share.0).into()));
    put("limit", list(args.limit.iter().map(ToString::to_string).collect()));
    put("header", list(args.header.clone()).filter(|_| shown));
    put("ca", file(&args.ca));
    put("insecure", switch(args.insecure));
    put("source", list(args.source.iter().map(ToString::to_string).collect()));
    put("timeout", text(&format!("{} ms", args.duration.0.saturating_add(MARGIN_NS) / 1_000_000)));
    let design = if shown {
        section([("quads", 1.into()), ("least_blocks", 4.into())])
    } else {
        // A trial, or one for each search from a fresh start, and one more where a load was interrupted.
        let trials = args.search.find_max.map_or(1, |_| args.search.trials);
        let (least, most) = (whole(trials), whole(trials.saturating_add(1)));
        section([("quads", 0.into()), ("least_blocks", least), ("most_blocks", most), ("budget", "168 h".into())])
    };
    let mut study = section([
        ("study", section([("title", format!("load: {title}").into())]).into()),
        ("workload", workload.into()),
        ("design", design.into()),
    ]);
    let metric = args.search.find_max.map(|factor| section([("metric", factor.metric().into())]));
    study.extend(metric.map(|report| ("report".to_owned(), report.into())));
    study.to_string()
}

/// What the command line says that a study cannot, as comments.
pub(super) fn left_out(args: &LoadArgs) -> String {
    let mut text = String::new();
    if args.seed != 1 {
        text.push_str("# --seed is left out: a study draws a seed for each run, or names one in [design]\n");
    }
    if !args.cpus.is_empty() {
        text.push_str("# --cpus is left out: the generator runs on the CPUs of its environment\n");
    }
    text
}

/// Whether the stored study lacks something of the command line that may be secret.
pub(super) fn has_secrets(args: &LoadArgs) -> bool {
    !args.header.is_empty() || args.url.as_deref().is_some_and(|url| url != without_query(url))
}

/// What a load is resumed with in addition to its study; `None` where something of its command line is not stored.
pub(super) fn request(args: &LoadArgs, order: &Order) -> Option<LoadRequest> {
    (!has_secrets(args)).then(|| LoadRequest {
        seed: args.seed,
        cpus: args.cpus.clone(),
        files: files(order),
        sites: args.site.clone(),
        ssh_config: args.ssh_config.as_deref().map(absolute),
    })
}

/// Digests of what an order has read from files. A trace and a recording are its arrivals.
fn files(order: &Order) -> BTreeMap<String, String> {
    let scenario = order.scenario.as_ref().map(|(_, text)| text.as_bytes().to_vec());
    let certificates = match &order.trust {
        Trust::Certificates { pem, .. } => Some(pem.as_bytes().to_vec()),
        Trust::System | Trust::Authority(_) | Trust::Anything => None,
    };
    let arrivals = serde_json::to_vec(&(&order.drive, &order.points)).ok();
    let all = [("scenario", scenario), ("certificates", certificates), ("arrivals", arrivals)];
    all.into_iter().filter_map(|(what, read)| Some((what.to_owned(), baremark_bundle::digest(&read?)))).collect()
}

/// Refuses to resume a load whose files hold something else than when it began: that would be another load.
pub(super) fn same_files(id: &RunId, request: &LoadRequest, order: &Order) -> Result<(), Refusal> {
    let now = files(order);
    let others = now.iter().filter(|(what, digest)| request.files.get(*what) != Some(*digest));
    let others: Vec<&str> = others.map(|(what, _)| what.as_str()).collect();
    if others.is_empty() {
        return Ok(());
    }
    let others = others.join(", ");
    Err(Refusal::bad_input(format!(
        "not known to be what run {id} has read from its files: {others}; run the load again"
    )))
}

/// The study of a command line, its plan, and the order of its only arm. What may be secret is in the order alone, with what else no study says.
pub(super) fn plan(context: &Context, args: &LoadArgs) -> Result<(Source, Plan, Order), Refusal> {
    let source = Source::new(NAME.to_owned(), text(args, Secrets::LeftOut).into_bytes());
    let plan = planning::of(&source, Mode::default(), &context.interrupt)?;
    let arm = plan.arms.first().ok_or_else(|| Refusal::failure("the study has no arm"))?;
    let order = workload::order(&arm.arm).map_err(Refusal::bad_input)?;
    let headers = args.header.iter().map(|text| workload::header(text)).collect::<Result<Vec<_>, _>>();
    let headers = headers.map_err(|why| Refusal::bad_input(format!("{NAME}: {why}")))?;
    let mut order = Order { url: args.url.clone(), headers, ..with(order, args.seed, &args.cpus) };
    // Messages name the file as it was typed.
    if let (Some((name, _)), Some(typed)) = (&mut order.scenario, &args.scenario) {
        *name = typed.display().to_string();
    }
    Ok((source, plan, order))
}

/// An order with what no study says.
pub(super) fn with(order: Order, seed: u64, cpus: &[usize]) -> Order {
    Order { seed, pin: if cpus.is_empty() { Pin::Spread } else { Pin::On(cpus.to_vec()) }, ..order }
}

/// A URL without what may hold a token: neither query nor fragment.
pub(super) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_hold_a_token_is_cut_off_a_url() {
        for end in ["", "?token=own", "#token=own", "#/a?token=own", "?a=1#token=own"] {
            assert_eq!(without_query(&format!("http://127.0.0.1/a{end}")), "http://127.0.0.1/a");
        }
    }
}
