//! The interface as it is described: schemathesis asks every operation what its description allows, and more.
//!
//! `BAREMARK_INTERFACE_EXAMPLES=200` has as many examples of each operation as `make soak` has.

use crate::http::User;
use crate::process::Site;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn every_operation_answers_as_described() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let program = target.join("python-auction/bin/schemathesis");
    if !program.is_file() {
        return println!("skipped: no schemathesis (./scripts/install-needs puts it into target/)");
    }
    let folder = TempDir::new().unwrap();
    let site = Site::load(&format!("sqlite:{}/site.db", folder.path().display()), folder.path(), 15);
    let server = site.serve("1s");
    let user = User::log_in(&server.address, 1, &site.password);
    let examples = std::env::var("BAREMARK_INTERFACE_EXAMPLES").unwrap_or_else(|_| "5".to_owned());
    let description = root.join("apps/auction/openapi.yaml");
    let output = Command::new(program)
        .current_dir(folder.path())
        .args(["run", description.to_str().unwrap(), "--url", &format!("http://{}", server.address)])
        .args(["--header", &user.head().replacen("authorization", "Authorization", 1)])
        // A logout would end all that follows, a stream does not end; both have tests of their own.
        .args(["--exclude-operation-id", "logout", "--exclude-operation-id", "events"])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,unsupported_method"])
        // One worker: CPython 3.11 loses count of its recursion when several threads parse at once.
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", &examples, "--seed", "1", "--workers", "1", "--request-timeout", "90"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let told: String = told.chars().take(20_000).collect();
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    site.holds(&[&server]);
}
