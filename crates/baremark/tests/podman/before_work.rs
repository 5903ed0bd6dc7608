//! A server in gVisor.

use crate::common::before_work::{apart, one, starts_and_answers};

#[test]
fn a_server_in_gvisor_answers_itself_and_is_weighed() {
    let Some(document) = apart("start-up", "server_environment = \"gvisor\"") else { return };
    starts_and_answers(&document);
    let Some(document) = apart("density", "server_environment = \"gvisor\"\nmost = 2\n") else { return };
    assert!(one(&document, "memory_mib") > 5.0, "{document:#}");
    assert!(document["flags"].to_string().contains("at least 2 copies keep every limit"), "{document:#}");
}
