//! The settings of the shipped study.

use baremark_services::service::Service;
use baremark_services::settings::Settings;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// The shipped defaults of a service.
pub fn defaults(service: &dyn Service) -> Settings {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/auction/defaults.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let document = DeTable::parse(&text).unwrap();
    let DeValue::Table(services) = document.get_ref().get("services").unwrap().get_ref() else { panic!("no table") };
    let mut settings = Settings::default();
    let table = services.get(service.kind()).map(|table| table.get_ref());
    if let Some(DeValue::Table(table)) = table {
        let problems = settings.read(table, service.knobs(), service.kind(), &|_| 0);
        assert_eq!(problems, []);
    }
    settings
}
