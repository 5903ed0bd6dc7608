//! Users of a scenario, and the shop of shop.toml.

use crate::server::{Request, Server, Then, answer, load};
use baremark_load::load::{Drive, Load};
use baremark_load::profile::Profile;
use baremark_load::scenario::{Scenario, file};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Users whose paths are their numbers.
pub(crate) const NUMBERED: &str = r#"
    [scenario]
    cycle = "50 ms"
    [operations.only]
    [[operations.only.requests]]
    get = "/{user}"
"#;

pub(crate) fn scenario(text: &str, server: &Server) -> Scenario {
    let base = format!("http://{}", server.address);
    file::parse("shop.toml", text.as_bytes(), Some(&base), ".".as_ref()).unwrap_or_else(|why| panic!("{why}"))
}

/// Users of a scenario at a server, as a profile says.
pub(crate) fn users(text: &str, server: &Server, profile: &str, lasting_ms: u64) -> Load {
    let drive = Drive::Users { profile: profile.parse::<Profile>().unwrap() };
    let mut load = Load { scenario: scenario(text, server), ..load(server.address, drive, lasting_ms) };
    load.connections = 200;
    load
}

pub(crate) fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// The shop of shop.toml; complains about what a careful server would.
pub(crate) fn shop(request: &Request, stream: &mut TcpStream) -> Then {
    let line = request.line.as_str();
    let body = String::from_utf8_lossy(&request.body);
    let signed_in = request.head.contains("Authorization: Bearer t-user");
    match line {
        "GET /" => answer(stream, 200, "Set-Cookie: session=s1; Path=/\r\n", "welcome"),
        "POST /login" => {
            let good = body.starts_with("user=user") && body.ends_with("&secret=a%20b%26c");
            let user = body.trim_start_matches("user=").split('&').next().unwrap_or_default();
            let token = format!("{{\"auth\": {{\"token\": \"t-{user}\"}}}}");
            let has_cookie = request.head.contains("Cookie: session=s1");
            answer(stream, if good && has_cookie { 200 } else { 400 }, "", &token)
        }
        "GET /items?page=1" if signed_in => {
            let items = r#"{"items": [{"id": 3, "thumb": "/t/3"}, {"id": 4, "thumb": "/t/4"}]}"#;
            answer(stream, 200, "ETag: v1\r\n", items)
        }
        "GET /t/3" | "GET /t/4" => answer(stream, 200, "", "picture"),
        "POST /join" => {
            let sound = serde_json::from_slice::<serde_json::Value>(&request.body).is_ok_and(|join| {
                join["count"] == 1 && join["tags"][0] == "x" && (join["item"] == "3" || join["item"] == "4")
            });
            answer(stream, if sound { 200 } else { 400 }, "", r#"{"high": 100}"#)
        }
        "POST /bid" => {
            let sound =
                serde_json::from_slice::<serde_json::Value>(&request.body).is_ok_and(|bid| bid["amount"].is_number());
            answer(stream, if sound { 201 } else { 400 }, "", "")
        }
        "POST /image" => {
            let sound = request.head.contains("multipart/form-data; boundary=") && body.contains("filename=\"a.jpg\"");
            answer(stream, if sound && request.body.len() > 20 << 10 { 200 } else { 400 }, "", "")
        }
        _ if line.starts_with("GET /next?item=") => {
            thread::sleep(Duration::from_millis(20));
            answer(stream, 200, "", &format!("{{\"high\": 120, \"at\": {}}}", now_ns()))
        }
        _ => answer(stream, 404, "", ""),
    }
}
