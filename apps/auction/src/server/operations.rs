//! Pages for whoever runs the server.

use super::App;
use super::refusal::Refusal;
use super::session;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

type Site = State<Arc<App>>;

pub(crate) async fn health() -> Json<Value> {
    Json(json!({ "alive": true }))
}

pub(crate) async fn ready(State(app): Site) -> Response {
    let durability = app.database.durability().await;
    let reason = match &durability {
        _ if app.is_draining() => Some("draining"),
        Err(_) => Some("the database does not answer"),
        Ok(_) => None,
    };
    let live = app.live_auctions().await.map_or(0, |all| all.len());
    let mut body = json!({
        "ready": reason.is_none(),
        "server": app.id,
        "version": env!("CARGO_PKG_VERSION"),
        "database": app.database.dialect().name(),
        "durability": durability.unwrap_or_default(),
        "bus": app.bus.kind.name(),
        "images": app.images.place.name(),
        "owned_auctions": app.keeper.count(),
        "live_auctions": live,
        "max_users": app.meta.max_users,
        "seed": app.meta.seed,
    });
    let status = match reason {
        None => StatusCode::OK,
        Some(why) => {
            body["reason"] = why.into();
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    (status, Json(body)).into_response()
}

pub(crate) async fn pushes(State(app): Site) -> Json<Value> {
    let mut pushes: Vec<_> = app.hub.all().iter().map(|channel| channel.counts()).collect();
    pushes.sort_by_key(|it| it.auction_id);
    Json(json!({ "server": app.id, "pushes": pushes }))
}

/// Processor time of this process in seconds, and its resident bytes; none where /proc does not say.
fn used() -> Option<(f64, u64)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may hold anything; the numbers follow it. Ticks are hundredths of seconds.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    let pages: u64 = fields.get(21)?.parse().ok()?;
    Some((ticks / 100.0, pages * 4096))
}

/// Processor time of the threads that check passwords, which do nothing else, in seconds; none where /proc does not say.
fn passwords_s() -> Option<f64> {
    let mut sum_ns = 0;
    for thread in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        // A thread that has ended meanwhile has no name any more; those that check passwords end with the process.
        let name = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        if name.trim_end() == session::CHECKERS {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            sum_ns += text.split_whitespace().next()?.parse::<u64>().ok()?;
        }
    }
    Some(std::time::Duration::from_nanos(sum_ns).as_secs_f64())
}

pub(crate) async fn metrics(State(app): Site) -> Response {
    let mut text = String::new();
    let mut put = |name: &str, kind: &str, help: &str, lines: &[(String, String)]| {
        // Writing into a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in lines {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let one = |value: String| vec![(String::new(), value)];
    let mut requests = Vec::new();
    let mut seconds = Vec::new();
    for counter in &app.counters {
        for (class, count) in counter.classes.iter().enumerate() {
            let count = count.load(Relaxed);
            if count > 0 {
                let labels = format!("{{operation=\"{}\",class=\"{}xx\"}}", counter.name, class + 1);
                requests.push((labels, count.to_string()));
            }
        }
        let nanos = counter.nanos.load(Relaxed);
        seconds.push((
            format!("{{operation=\"{}\"}}", counter.name),
            format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000),
        ));
    }
    put("auction_requests_total", "counter", "Requests answered.", &requests);
    put("auction_request_seconds_total", "counter", "Time in which they were answered, waiting included.", &seconds);
    let counts: Vec<_> = app.hub.all().iter().map(|channel| channel.counts()).collect();
    let bids: i64 = counts.iter().map(|it| it.bids).sum();
    let deliveries: u64 = counts.iter().map(|it| it.deliveries).sum();
    let missed: u64 = counts.iter().map(|it| it.missed).sum();
    put("auction_bids_pushed_total", "counter", "Bids that came to this server's attendees.", &one(bids.to_string()));
    put("auction_deliveries_total", "counter", "Bids handed to one attendee each.", &one(deliveries.to_string()));
    put(
        "auction_resyncs_total",
        "counter",
        "Attendees that were too far behind to get every event.",
        &one(missed.to_string()),
    );
    put("auction_owned", "gauge", "Live auctions that this server owns.", &one(app.keeper.count().to_string()));
    put("auction_connections", "gauge", "Open connections.", &one(app.connections.load(Relaxed).to_string()));
    if let Some(trips) = app.database.round_trips() {
        let help = "Times that the database was asked and answered.";
        put("auction_database_round_trips_total", "counter", help, &one(trips.to_string()));
    }
    if let Some((cpu, resident)) = used() {
        put("process_cpu_seconds_total", "counter", "Processor time of the process.", &one(format!("{cpu:.2}")));
        put("process_resident_memory_bytes", "gauge", "Resident memory.", &one(resident.to_string()));
    }
    if let Some(cpu) = passwords_s() {
        let help = "Processor time of checking passwords, a part of the process's.";
        put("auction_password_cpu_seconds_total", "counter", help, &one(format!("{cpu:.6}")));
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

pub(crate) async fn drain(State(app): Site, headers: HeaderMap) -> Result<Response, Refusal> {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).ok_or_else(Refusal::admin_token)?;
    let right = app.admin_token.as_ref().ok_or_else(Refusal::admin_token)?;
    if session::hash_of(given) != session::hash_of(right) {
        return Err(Refusal::admin_token());
    }
    app.drain();
    Ok((StatusCode::ACCEPTED, Json(json!({ "draining": true }))).into_response())
}
