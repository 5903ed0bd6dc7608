//! An application of images, each built from its file.

use crate::common::bench::{Bench, root, text};
use crate::common::tiers::{FULL, FULL_NEEDS, assert_at_work, document, have, ran, sound};
use std::path::Path;
use std::process::Command;

const BASE: &str = "localhost/baremark-debian";
/// Tier and service, and the file's name.
const FILES: [(&str, &str); 6] = [
    ("balancer", "balancer"),
    ("web", "web"),
    ("web", "web-apache"),
    ("database", "database"),
    ("database", "database-mariadb"),
    ("bus", "bus"),
];

fn image(file: &str) -> String {
    format!("localhost/baremark-test-{file}")
}

fn podman(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("podman").args(arguments).output().map_err(|why| why.to_string())?;
    if output.status.success() { Ok(()) } else { Err(text(&output.stdout) + &text(&output.stderr)) }
}

/// Images that go with the test.
struct Images(Vec<String>);

impl Images {
    /// Builds the image of a file, in `context`.
    fn build(&mut self, file: &str, context: &Path) {
        let (name, base) = (image(file), format!("BASE={BASE}"));
        let path = folder().join(format!("{file}.Containerfile"));
        let words = ["build", "--isolation=chroot", "--network=host", "--build-arg", &base, "--tag", &name, "--file"];
        let built = podman(&[&words[..], &[path.to_str().unwrap(), context.to_str().unwrap()]].concat());
        assert_eq!(built, Ok(()), "{file}");
        self.0.push(name);
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        for image in &self.0 {
            drop(podman(&["rmi", "--force", image]));
        }
    }
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/auction/containers")
}

#[test]
#[ignore = "installs packages into seven images: part of `make soak`"]
fn every_tier_runs_in_an_image_of_its_file() {
    if !have(&[FULL_NEEDS, &["podman"]].concat()) || !root() {
        return;
    }
    if podman(&["image", "exists", BASE]).is_err() {
        return eprintln!("skipped: no base image; run scripts/make-base");
    }
    let bench = Bench::new();
    std::fs::copy(env!("CARGO_BIN_EXE_baremark"), bench.path("baremark")).unwrap();
    let mut images = Images(Vec::new());
    for (_, file) in FILES {
        images.build(file, &folder());
    }
    images.build("app", bench.folder.path());
    for files in
        [["balancer", "web", "database", "bus", "app"], ["balancer", "web-apache", "database-mariadb", "bus", "app"]]
    {
        let mut set: Vec<String> = FULL.iter().map(|text| (*text).to_owned()).collect();
        for file in files {
            let tier = FILES.iter().find(|(_, of)| *of == file).map_or(file, |(tier, _)| tier);
            set.extend([format!("{tier}.on=container"), format!("{tier}.image={}", image(file))]);
        }
        // Of two values for a key the first counts.
        let other = ["web.service=apache", "database.service=mariadb"].map(str::to_owned);
        let first = if files[1] == "web" { Vec::new() } else { other.to_vec() };
        // Containers may have fewer open files than this machine.
        let set: Vec<&str> =
            first.iter().chain(&set).map(String::as_str).chain(["services.haproxy.connections=400"]).collect();
        let result = document(&ran(&bench, &set, &[]));
        let row = sound(&result);
        assert_at_work(row, &["balancer-1", "web-1", "app-1", "app-2", "database-1", "bus-1"]);
        let failed = &row["load"]["failures"];
        assert!(failed.as_object().is_some_and(serde_json::Map::is_empty), "{files:?}: {failed}");
    }
}
