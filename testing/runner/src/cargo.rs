//! What cargo knows: which targets there are, where their built programs lie, and which tests those have.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    Code,
    Systems,
    Measured,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tier::Code => "code",
            Tier::Systems => "systems",
            Tier::Measured => "measured",
        })
    }
}

/// The name of targets whose tests judge live measurements.
const MEASURED: &str = "measured";

/// One test of a built program.
#[derive(Clone, Debug)]
pub struct Test {
    /// Without the common prefix: `load`.
    pub package: String,
    /// The name of the target: `kernel`, `load`.
    pub target: String,
    pub name: String,
    pub program: PathBuf,
    /// The package's folder, in which its tests start.
    pub folder: PathBuf,
}

impl Test {
    /// `package target`, or the package alone where both have one name.
    pub fn suite(&self) -> String {
        let target = self.target.strip_prefix("baremark_").unwrap_or(&self.target).replace('_', "-");
        if target == self.package { target } else { format!("{} {}", self.package, target) }
    }

    /// What people call it: suite and name.
    pub fn full(&self) -> String {
        format!("{}: {}", self.suite(), self.name)
    }
}

/// The workspace's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap_or_else(|_| PathBuf::from("."))
}

/// Where cargo builds.
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// What cargo knows of the workspace's packages.
fn metadata() -> Result<Value, String> {
    let output = cargo().args(["metadata", "--format-version=1", "--no-deps", "--locked"]).output();
    let output = output.map_err(|why| format!("cargo metadata: {why}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|why| format!("cargo metadata: {why}"))
}

/// Names of test targets that are not run by default, of this tier.
fn suites_of(metadata: &Value, tier: Tier) -> BTreeSet<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let apart = targets.filter(|target| target["kind"][0] == "test" && target["test"] == false);
    let names = apart.filter_map(|target| target["name"].as_str());
    names.filter(|name| (*name == MEASURED) == (tier == Tier::Measured)).map(str::to_owned).collect()
}

/// The package whose own graph of dependencies has the features of the whole workspace's. With it beside a package cargo builds nothing in a
/// second set of features.
const ALL_FEATURES: &str = "baremark";

/// Cargo's arguments that choose the tests of one suite whose outcome follows from the code alone: those of a package, by the name of its
/// folder, or of one target.
fn chosen(metadata: &Value, suite: &str) -> Result<Vec<String>, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all = BTreeSet::new();
    let mut arguments = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = text(&package["manifest_path"]);
        let folder = Path::new(&manifest).parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let targets = package["targets"].as_array().into_iter().flatten().filter(|target| target["test"] == true);
        for (kind, name) in targets.map(|target| (text(&target["kind"][0]), text(&target["name"]))) {
            let option = match kind.as_str() {
                "lib" => vec!["--lib".to_owned()],
                "bin" | "test" => vec![format!("--{kind}"), name.clone()],
                _ => continue,
            };
            if folder == suite || (kind == "test" && name == suite) {
                arguments.extend(["-p".to_owned(), text(&package["name"])].into_iter().chain(option));
            }
            all.insert(folder.clone().into_owned());
            all.extend((kind == "test").then_some(name));
        }
    }
    if arguments.is_empty() {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        return Err(format!("{suite}: no such suite; there are {}", all.join(", ")));
    }
    arguments.extend(["-p", ALL_FEATURES].map(str::to_owned));
    Ok(arguments)
}

/// Builds what the tier needs and lists its tests; those of one suite or of all.
pub fn tests(tier: Tier, suite: Option<&str>) -> Result<Vec<Test>, String> {
    let mut command = cargo();
    command.args(["test", "--release", "--locked", "--no-run", "--message-format=json-render-diagnostics"]);
    match (tier, suite) {
        (Tier::Code, None) => _ = command.args(["--workspace", "--tests"]),
        (Tier::Code, Some(suite)) => _ = command.args(chosen(&metadata()?, suite)?),
        _ => {
            let all = suites_of(&metadata()?, tier);
            if let Some(wanted) = suite.filter(|wanted| !all.contains(*wanted)) {
                let all: Vec<&str> = all.iter().map(String::as_str).collect();
                return Err(format!("{wanted}: no such suite; there are {}", all.join(", ")));
            }
            let names: Vec<&String> = all.iter().filter(|name| suite.is_none_or(|wanted| wanted == *name)).collect();
            if names.is_empty() {
                return Ok(Vec::new());
            }
            command.arg("--workspace").args(names.into_iter().flat_map(|name| ["--test", name.as_str()]));
        }
    }
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|why| format!("cargo test: {why}"))?;
    let mut tests = Vec::new();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|why| format!("cargo test: {why}"))?;
            if let Some((program, package, target, folder)) = built(&line) {
                let found = listed(&program, &folder)?;
                let of = |name| Test {
                    package: package.clone(),
                    target: target.clone(),
                    name,
                    program: program.clone(),
                    folder: folder.clone(),
                };
                tests.extend(found.into_iter().map(of));
            }
        }
    }
    let status = child.wait().map_err(|why| format!("cargo test: {why}"))?;
    if !status.success() {
        return Err("the tests could not be built".to_owned());
    }
    Ok(tests)
}

/// Program, package, target and folder of a built test program, from one of cargo's messages.
fn built(line: &str) -> Option<(PathBuf, String, String, PathBuf)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let program = message["executable"].as_str().filter(|_| is_test)?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    Some((PathBuf::from(program), package, message["target"]["name"].as_str()?.to_owned(), folder))
}

/// The names of a program's tests, without those that are ignored.
fn listed(program: &Path, folder: &Path) -> Result<Vec<String>, String> {
    let asked = |arguments: &[&str]| -> Result<Vec<String>, String> {
        let output = Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).output();
        let output = output.map_err(|why| format!("{}: {why}", program.display()))?;
        if !output.status.success() {
            return Err(format!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr)));
        }
        Ok(names(&String::from_utf8_lossy(&output.stdout)))
    };
    let ignored: BTreeSet<String> = asked(&["--list", "--format", "terse", "--ignored"])?.into_iter().collect();
    let all = asked(&["--list", "--format", "terse"])?;
    Ok(all.into_iter().filter(|name| !ignored.contains(name)).collect())
}

fn names(listing: &str) -> Vec<String> {
    listing.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{Test, Tier, built, chosen, names, suites_of};
    use serde_json::json;
    use std::path::PathBuf;

    #[test]
    fn the_tier_of_a_test_is_that_of_its_target() {
        let target = |name: &str, kind: &str, test: bool| json!({ "name": name, "kind": [kind], "test": test });
        let metadata = json!({ "packages": [
            { "targets": [target("load", "lib", true), target("load", "test", true), target("kernel", "test", false)] },
            { "targets": [target("kernel", "test", false), target("measured", "test", false), target("tool", "bin", false)] },
        ]});
        let names = |tier| suites_of(&metadata, tier).into_iter().collect::<Vec<_>>();
        assert_eq!(names(Tier::Systems), ["kernel"]);
        assert_eq!(names(Tier::Measured), ["measured"]);
    }

    #[test]
    fn a_suite_of_code_is_a_package_or_a_target_built_with_the_features_of_all() {
        let target = |name: &str, kind: &str, test: bool| json!({ "name": name, "kind": [kind], "test": test });
        let metadata = json!({ "packages": [
            { "name": "baremark-report", "manifest_path": "/r/crates/report/Cargo.toml", "targets": [
                target("baremark_report", "lib", true), target("pages", "test", true), target("browser", "test", false), target("speed", "example", true),
            ] },
            { "name": "baremark", "manifest_path": "/r/crates/baremark/Cargo.toml", "targets": [target("runs", "test", true)] },
        ]});
        let arguments = |suite| chosen(&metadata, suite).map(|all| all.join(" "));
        let report = "-p baremark-report --lib -p baremark-report --test pages -p baremark";
        assert_eq!(arguments("report").as_deref(), Ok(report));
        assert_eq!(arguments("pages").as_deref(), Ok("-p baremark-report --test pages -p baremark"));
        let none = "browser: no such suite; there are baremark, pages, report, runs";
        assert_eq!(arguments("browser"), Err(none.to_owned()));
    }

    #[test]
    fn built_test_programs_are_found_among_cargos_messages() {
        let message = json!({
            "reason": "compiler-artifact", "profile": { "test": true }, "executable": "/t/deps/kernel-0", "manifest_path": "/r/crates/load/Cargo.toml",
            "target": { "name": "kernel" },
        });
        let (program, package, target, folder) = built(&message.to_string()).unwrap_or_default();
        assert_eq!((program, folder), (PathBuf::from("/t/deps/kernel-0"), PathBuf::from("/r/crates/load")));
        assert_eq!((package.as_str(), target.as_str()), ("load", "kernel"));
        let mut library = message.clone();
        library["profile"]["test"] = false.into();
        for other in [library.to_string(), json!({ "reason": "build-finished" }).to_string(), "no JSON".to_owned()] {
            assert_eq!(built(&other), None, "{other}");
        }
    }

    #[test]
    fn tests_are_listed_and_benches_are_not() {
        assert_eq!(names("a::b: test\nc: benchmark\n\n"), ["a::b"]);
    }

    #[test]
    fn a_suite_is_named_by_package_and_target() {
        let suite = |package: &str, target: &str| {
            let [name, program, folder] = ["", "", ""];
            let test = Test {
                package: package.into(),
                target: target.into(),
                name: name.into(),
                program: program.into(),
                folder: folder.into(),
            };
            test.suite()
        };
        assert_eq!(suite("load", "kernel"), "load kernel");
        assert_eq!(suite("load", "load"), "load");
        assert_eq!(suite("guest-program", "baremark_guest_program"), "guest-program");
    }
}
