//! What pages in docs/ have readers run.

use std::path::Path;

/// A page of docs/.
pub fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

/// The examples in YAML of docs/ci.md.
pub fn jobs() -> Vec<String> {
    let page = page("ci.md");
    page.split("```yaml\n").skip(1).map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

/// The commands of docs/guide.md with the exit codes that a comment announces (`# exit 4`, `# exit 0 or 5`).
pub fn guide() -> Vec<(String, Vec<i32>)> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in page("guide.md").lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside && let Some(command) = line.strip_prefix("$ ") {
            let (command, comment) = command.split_once("  # ").unwrap_or((command, ""));
            let codes = comment.strip_prefix("exit ").unwrap_or("0").split(" or ");
            found.push((command.to_owned(), codes.map(|code| code.parse().expect("an exit code")).collect()));
        }
    }
    assert!(found.len() > 10, "{found:?}");
    found
}
