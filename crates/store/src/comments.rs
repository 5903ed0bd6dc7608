//! What earlier versions wrote into comments of a run's study: the request of a search, and what the labels of blinded arms
//! represent. Both belong to the plan.

use baremark_model::plan::Plan;
use baremark_model::scale::InjectedCosts;

/// How the line began that held the request of a search.
const SEARCH: &str = "# search: ";
/// How the line began that held the injected costs.
const INJECTED: &str = "# blinded until everything is found: ";

/// Moves into the plan what is in comments of the study; the text without these. A comment that cannot be read stays.
pub(crate) fn into_plan(study: &str, plan: &mut Plan) -> String {
    let remains = |line: &&str| {
        if let Some(text) = line.strip_prefix(SEARCH) {
            let request = serde_json::from_str(text).ok();
            let read = request.is_some();
            plan.search = plan.search.take().or(request);
            return !read;
        }
        let costs = line.strip_prefix(INJECTED).and_then(|text| text.trim_end().parse::<InjectedCosts>().ok());
        let read = costs.is_some();
        plan.injected = plan.injected.take().or(costs);
        !read
    };
    study.split_inclusive('\n').filter(remains).collect()
}
