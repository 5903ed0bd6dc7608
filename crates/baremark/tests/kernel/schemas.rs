//! `--json` of what the kernel's own programs count is a document that fits its schema in docs/.

use crate::common::bench::{Bench, root};
use crate::common::schemas::fits;

#[test]
fn documents_of_histograms_fit_their_schemas() {
    if !root() {
        return;
    }
    let bench = Bench::new();
    fits(&bench, &["histograms", "--disk", "--json", "--duration", "100 ms"], "baremark-histograms/1");
    fits(&bench, &["histograms", "--net", "--json", "--duration", "100 ms"], "baremark-net-stats/1");
}
