//! The settings of the shipped study.

use baremark_model::config;
use baremark_services::service::Service;
use baremark_services::settings::Settings;
use std::path::Path;

/// The shipped defaults of a service.
pub fn defaults(service: &dyn Service) -> Settings {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/auction/defaults.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let read = config::read("defaults.toml", &text, |reader, root| {
        let services = reader.section(root, "services");
        // Valkey's knobs are Redis's, and an application has none of it.
        let own = reader.section(&services, if service.kind() == "valkey" { "redis" } else { service.kind() });
        Some(Settings::read(reader, service.kind(), service.knobs(), &[&own]))
    });
    read.unwrap()
}
