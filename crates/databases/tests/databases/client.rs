//! What the client of MariaDB reads by regular expressions, on the small `regex` of vendor/, which is in the place of the whole crate.

use mysql::{Value, from_value_opt};
use regex::bytes::Regex;
use std::time::Duration;

/// The expressions of mysql_common for versions of servers.
const VERSION: &str = r"^(\d{1,2})\.(\d{1,2})\.(\d{1,3})(.*)";
const MARIADB: &str = r"^(?:5.5.5-)?(\d{1,2})\.(\d{1,2})\.(\d{1,3})-MariaDB";

fn groups(expression: &str, text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let captures = Regex::new(expression).unwrap().captures(text)?;
    (1..4).map(|group| captures.get(group).map(|found| found.as_bytes().to_vec())).collect()
}

fn words(text: &[&str]) -> Option<Vec<Vec<u8>>> {
    Some(text.iter().map(|word| word.as_bytes().to_vec()).collect())
}

#[test]
fn versions_of_servers_are_read() {
    assert_eq!(groups(MARIADB, b"5.5.5-10.11.6-MariaDB-0+deb12u1"), words(&["10", "11", "6"]));
    assert_eq!(groups(MARIADB, b"11.8.2-MariaDB"), words(&["11", "8", "2"]));
    assert_eq!(groups(MARIADB, b"8.0.36"), None);
    assert_eq!(groups(VERSION, b"8.0.36-log"), words(&["8", "0", "36"]));
    assert_eq!(groups(VERSION, "٨.0.36".as_bytes()), None, "a digit that is not ASCII is not a number");
    assert_eq!(groups(VERSION, b"8.0.36\xff"), None, "not UTF-8");
}

#[test]
fn the_client_reads_times() {
    let read = |text: &str| from_value_opt::<Duration>(Value::Bytes(text.as_bytes().to_vec())).ok();
    assert_eq!(read("12:34:56"), Some(Duration::from_secs(12 * 3600 + 34 * 60 + 56)));
    assert_eq!(read("123:34:56.5"), Some(Duration::from_millis(1000 * (123 * 3600 + 34 * 60 + 56) + 500)));
    assert_eq!(read("12:74:56"), None);
    assert_eq!(read("12:3٤:56"), None);
}
