//! What a study may say of the workload.

use baremark_key_value::ALL;
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::Descriptor;
use baremark_model::page_size::PageSize;
use baremark_model::percentile::Percentile;
use baremark_model::value::Value;

fn descriptor() -> &'static Descriptor {
    ALL[0].descriptor()
}

fn arm(typed: &[(&str, &str)]) -> ResolvedArm {
    let mut arm = ResolvedArm::native(1, PageSize::Small);
    for (key, text) in typed {
        let value = descriptor().parameter(key).unwrap().read_text(text).unwrap();
        arm.parameters.insert((*key).to_owned(), value);
    }
    arm
}

#[test]
fn what_cannot_be_together_is_refused_with_what_would_be_right() {
    let refused = |typed: &[(&str, &str)]| (descriptor().check)(&arm(typed)).unwrap_err().to_string();
    let why = refused(&[("driver_threads", "4"), ("connections", "3")]);
    assert_eq!(
        why,
        "driver_threads = 4 with 3 connections and 100000 keys; each thread needs a connection and a key of its own"
    );
    assert!(refused(&[("driver_threads", "4"), ("keys", "2")]).contains("and 2 keys"));
    assert!(
        refused(&[("distribution", "zipf"), ("exponent", "-1")])
            .starts_with("exponent = \"-1\" is not a number above 0")
    );
    assert!(refused(&[("data", "here")]).ends_with("begin it with /"));
    assert!(refused(&[("server_cpus", "a")]).contains("must be a list of CPUs"));
    assert!(refused(&[("duration", "1 h"), ("timeout", "10 min")]).contains("the timeout is 10 min"));
    assert_eq!((descriptor().check)(&arm(&[])), Ok(()));
    assert_eq!((descriptor().check)(&arm(&[("exponent", "x")])), Ok(()), "of zipf alone");
}

#[test]
fn the_server_that_is_started_is_the_one_that_is_looked_for() {
    let server = |typed: &[(&str, &str)]| ALL[0].server(&arm(typed)).unwrap();
    let found = server(&[]);
    assert_eq!((found.parameter, found.name, found.package, found.instead), ("server", "redis", "redis-server", None));
    assert_eq!(server(&[("server", "valkey")]).files, ["/usr/bin/valkey-server"]);
}

/// What a server has appended, and the removal of its file, the kernel writes later.
#[test]
fn a_server_that_writes_files_takes_no_turns_with_another_site() {
    let alternates = |persistence, line: &str| {
        let mut arm = arm(&[("persistence", persistence)]);
        arm.parameters.insert("server_settings".to_owned(), Value::Words(vec![line.to_owned()]));
        (descriptor().alternates)(&arm)
    };
    assert!(alternates("none", "io-threads-do-reads yes"));
    for (persistence, line) in
        [("everysec", "hz 10"), ("always", "hz 10"), ("none", "appendonly yes"), ("none", " Save 60 1")]
    {
        assert!(!alternates(persistence, line), "{persistence}, {line}");
    }
}

/// Keys and values are in the server, and what is known of each in the driver.
#[test]
fn memory_grows_with_keys_and_values() {
    let bytes = |typed: &[(&str, &str)]| (descriptor().footprint.unwrap().bytes)(&arm(typed)).unwrap();
    let few = bytes(&[("keys", "1000"), ("value", "1 KiB")]);
    assert!(few > 1000 * 1024);
    assert_eq!(bytes(&[("keys", "2000"), ("value", "1 KiB")]), 2 * few);
}

#[test]
fn each_command_has_its_percentiles() {
    for command in ["get", "set"] {
        let of: Vec<String> = descriptor()
            .metrics
            .iter()
            .filter_map(|metric| Percentile::of_key(metric.key))
            .filter(|percentile| percentile.of == format!("{command}_latency_us"))
            .map(|percentile| format!("{:.3}", percentile.share))
            .collect();
        assert_eq!(of, ["0.500", "0.900", "0.990", "0.999", "1.000"]);
    }
}
