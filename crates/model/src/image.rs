//! References of container images, as engines take them.
//!
//! A name that begins with a hyphen could be taken for an option, and what engines say of a broken one comes late. The grammar
//! is that of the distribution specification, `[HOST[:PORT]/]NAME[:TAG][@DIGEST]`, with podman's transports before it.

use crate::knob::InvalidValue;

/// Transports of containers-transports(5) that are followed by a reference, and those followed by a path and more.
const OF_REFERENCES: [&str; 1] = ["docker://"];
const OF_PATHS: [&str; 7] =
    ["containers-storage:", "dir:", "docker-archive:", "docker-daemon:", "oci:", "oci-archive:", "sif:"];
/// The longest name and tag.
const LONGEST: usize = 255;
const LONGEST_TAG: usize = 128;

/// Whether `text` can name an image.
///
/// # Errors
/// What is wrong and what would be right.
pub fn check(text: &str) -> Result<(), InvalidValue> {
    let path = OF_PATHS.iter().find_map(|transport| text.strip_prefix(transport));
    let valid = match path {
        Some(path) => !path.is_empty() && !path.chars().any(char::is_control),
        None => is_reference(OF_REFERENCES.iter().find_map(|it| text.strip_prefix(it)).unwrap_or(text)),
    };
    if valid {
        return Ok(());
    }
    let shown: String = text.chars().take(LONGEST).collect();
    let what = format!("'{shown}' is not an image reference");
    Err(InvalidValue::new(what, "write [HOST[:PORT]/]NAME[:TAG], such as docker.io/library/debian:13"))
}

fn is_reference(text: &str) -> bool {
    let (rest, digest) = text.split_once('@').map_or((text, None), |(rest, digest)| (rest, Some(digest)));
    // A colon after the last slash begins a tag, one before it a port.
    let last = rest.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match rest[last..].split_once(':') {
        Some((component, tag)) => (&rest[..last + component.len()], Some(tag)),
        None => (rest, None),
    };
    is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

/// Components of a path, the first of which may be a host.
fn is_name(name: &str) -> bool {
    let mut path = name;
    if let Some((host, rest)) = name.split_once('/')
        && (host == "localhost" || host.contains(['.', ':', '[']) || host.bytes().any(|byte| byte.is_ascii_uppercase()))
    {
        if !is_host(host) {
            return false;
        }
        path = rest;
    }
    name.len() <= LONGEST && path.split('/').all(is_component)
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric));
        ends && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    let sound = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => name.split('.').all(label),
    };
    sound && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Lower-case letters and digits, with single dots, one or two underscores or any hyphens between them.
fn is_component(component: &str) -> bool {
    let separators = component.split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    let inner = separators.filter(|separator| !separator.is_empty());
    let letter = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = component.as_bytes();
    let separates = |it: &str| matches!(it, "." | "_" | "__") || it.bytes().all(|byte| byte == b'-');
    letter(bytes.first()) && letter(bytes.last()) && inner.into_iter().all(separates)
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = tag.bytes().next().is_some_and(word);
    first && tag.len() <= LONGEST_TAG && tag.bytes().all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, digits)) = digest.split_once(':') else { return false };
    let named =
        !algorithm.is_empty() && algorithm.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+._-".contains(&byte));
    named && digits.len() >= 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn references_of_engines_are_taken() {
        let digest = format!("debian@sha256:{}", "0123456789abcdef".repeat(4));
        for image in [
            "debian",
            "debian:13",
            "library/debian:13.1-slim",
            "docker.io/library/debian",
            "localhost/own__name:v1_2",
            "localhost:5000/own-name",
            "[::1]:5000/own.name:latest",
            "Registry.example:443/a/b/c",
            "0123456789ab",
            digest.as_str(),
            "docker://debian:13",
            "containers-storage:nosuch",
            "dir:/var/tmp/an image",
        ] {
            check(image).unwrap_or_else(|why| panic!("{why}"));
        }
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        let long = "a".repeat(300);
        for image in [
            "",
            "-",
            "--privileged",
            "-v/:/host",
            "a b",
            "a\nb",
            "Debian",
            "debian:",
            "debian:-x",
            "a//b",
            "/a",
            "a/",
            "-x/a",
            "ho_st.x/a",
            "host:port/a",
            "host:99999/a",
            "a..b",
            "a___b",
            "a@sha256:12",
            "a@b",
            "$(id)",
            "dir:",
            &long,
        ] {
            let why = check(image).expect_err(image).to_string();
            assert!(why.contains("is not an image reference; write [HOST[:PORT]/]NAME[:TAG]"), "{why}");
        }
    }
}
