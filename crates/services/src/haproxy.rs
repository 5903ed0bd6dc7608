//! HAProxy as a balancer whose servers come and go by its runtime API, without a reload.

use crate::balance;
use crate::card::{Card, Install, Tier};
use crate::error::ServiceError;
use crate::exchange;
use crate::order::{Order, Upstream};
use crate::recipe::{Ready, Recipe, Step};
use crate::service::{Instance, Service};
use crate::settings::knob;
use crate::statistics::Statistics;
use baremark_model::knob::{Kind, Knob};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant};

/// The adapter.
pub struct Haproxy;

const SOCKET: &str = "admin.sock";
/// How long that may take to be there.
const SOCKET_LIMIT: Duration = Duration::from_secs(5);
const BACKEND: &str = "behind";
/// Certificate and key in one file.
const TLS: &str = "tls.pem";
const STATUS: &str = "/baremark-status";

const CARD: Card = Card {
    kind: "haproxy",
    tiers: &[Tier::Balancer],
    knobs: KNOBS,
    install: Install {
        programs: &["/usr/sbin/haproxy", "/usr/bin/haproxy"],
        package: "haproxy",
        user: Some("haproxy"),
    },
};

impl Service for Haproxy {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError> {
        let file = order.folder.join("haproxy.cfg").display().to_string();
        let mut recipe = Recipe::new(
            Step::new(&order.program, ["-db", "-f", &file]),
            if order.tls.is_some() { Ready::http(STATUS) } else { Ready::Answers { send: Vec::new(), expect: b"" } },
        );
        recipe.files = vec![("haproxy.cfg".to_owned(), configuration(order))];
        recipe.files.extend(order.tls.iter().map(|tls| (TLS.to_owned(), format!("{}{}", tls.chain, tls.key))));
        // A soft stop: it finishes what runs.
        recipe.stop_signal = libc::SIGUSR1;
        Ok(recipe)
    }

    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError> {
        let rows = stat(instance).map_err(|why| instance.io("asking for its statistics", why))?;
        let mut statistics = Statistics::new();
        for row in rows {
            let (proxy, server) =
                (row.get("pxname").cloned().unwrap_or_default(), row.get("svname").cloned().unwrap_or_default());
            for key in ["stot", "bin", "bout", "ereq", "econ", "eresp", "wretr", "wredis", "hrsp_5xx", "qmax", "smax"] {
                if let Some(value) = row.get(key).and_then(|text| text.parse().ok()) {
                    statistics.insert(format!("{proxy}.{server}.{key}"), value);
                }
            }
        }
        Ok(statistics)
    }

    /// New servers join first; then those that are no longer wanted get no more requests, and may finish those that they have.
    fn rewire(&self, instance: &mut Instance, upstreams: &[Upstream]) -> Result<(), ServiceError> {
        let change = balance::Change::between(&instance.order().upstreams, upstreams);
        let options = server_options(instance.order());
        for new in &change.added {
            command(instance, &format!("add server {BACKEND}/{} {} {options}", new.name, new.address))?;
            command(instance, &format!("enable health {BACKEND}/{}", new.name))?;
            command(instance, &format!("enable server {BACKEND}/{}", new.name))?;
        }
        for old in &change.removed {
            command(instance, &format!("set server {BACKEND}/{} state drain", old.name))?;
        }
        instance.order_mut().upstreams = upstreams.to_vec();
        Ok(())
    }
}

fn command(instance: &Instance, text: &str) -> Result<(), ServiceError> {
    let answer = runtime(instance, text).map_err(|why| instance.io("talking to its runtime API", why))?;
    let answer = answer.trim();
    let good = answer.is_empty() || answer.contains("New server registered");
    if good { Ok(()) } else { Err(instance.failed(format!("its runtime API refused '{text}': {answer}"))) }
}

/// What its runtime API answers. Its socket is there a moment after its port is.
fn runtime(instance: &Instance, text: &str) -> io::Result<String> {
    let deadline = Instant::now() + SOCKET_LIMIT;
    loop {
        match exchange::whole_unix(&instance.folder().join(SOCKET), &format!("{text}\n")) {
            Err(why)
                if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            answered => return answered,
        }
    }
}

fn stat(instance: &Instance) -> io::Result<Vec<BTreeMap<String, String>>> {
    let text = runtime(instance, "show stat")?;
    let mut lines = text.trim_start_matches("# ").lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let row =
        |line: &str| names.iter().map(|name| (*name).to_owned()).zip(line.split(',').map(str::to_owned)).collect();
    Ok(lines.filter(|line| !line.is_empty()).map(row).collect())
}

fn configuration(order: &Order) -> String {
    let settings = &order.settings;
    let mut text = String::new();
    let _ =
        writeln!(text, "global\n  nbthread {}\n  maxconn {}", settings.count("threads"), settings.count("connections"));
    let _ = writeln!(text, "  hard-stop-after {}ms", settings.ms("drain"));
    let _ = writeln!(text, "  stats socket {} mode 600 level admin", order.folder.join(SOCKET).display());
    let _ = writeln!(text, "  tune.bufsize {}", settings.bytes("buffer"));
    let _ = writeln!(
        text,
        "defaults\n  mode http\n  timeout connect 2s\n  timeout client {0}ms\n  timeout server {0}ms",
        settings.ms("timeout")
    );
    let _ = writeln!(text, "  timeout http-keep-alive {}ms\n  option http-keep-alive", settings.ms("keepalive_time"));
    let _ = writeln!(text, "  maxconn {}", settings.count("connections"));
    // What was never handed to a server may go to another one, whatever its method.
    let _ = writeln!(
        text,
        "  retries 3\n  option redispatch 1\n  retry-on conn-failure empty-response 503\n  http-reuse aggressive"
    );
    let mut bind = format!("{} backlog 4096", order.address);
    if let Some(tls) = &order.tls {
        let _ = write!(bind, " ssl crt {} alpn http/1.1 ssl-min-ver TLSv1.3", order.folder.join(TLS).display());
        let _ = writeln!(text, "frontend status\n  bind {}\n  monitor-uri {STATUS}", tls.plain);
    }
    let _ = writeln!(text, "frontend front\n  bind {bind}\n  default_backend {BACKEND}");
    let _ = writeln!(
        text,
        "backend {BACKEND}\n  balance {}",
        if settings.word("balance") == "least" { "leastconn" } else { "roundrobin" }
    );
    settings.pass_through(&mut text, "  ");
    for upstream in &order.upstreams {
        let _ = writeln!(text, "  server {} {} {}", upstream.name, upstream.address, server_options(order));
    }
    text
}

/// How each server behind it is looked after.
fn server_options(order: &Order) -> String {
    format!("check inter 500ms fall 2 rise 1 pool-max-conn {}", order.settings.count("keepalive"))
}

const KNOBS: &[Knob] = &[
    knob("threads", Kind::Count { min: 1, max: 64 }, "threads (nbthread)"),
    knob("connections", Kind::Count { min: 64, max: 1_000_000 }, "connections in all (maxconn)"),
    knob("keepalive", Kind::Count { min: 1, max: 100_000 }, "idle connections to each server (pool-max-conn)"),
    balance::KEEPALIVE_TIME,
    knob("buffer", Kind::Size { min: 4096, max: 1 << 24 }, "size of a buffer (tune.bufsize)"),
    balance::TIMEOUT,
    balance::drain("how long running requests may take to finish at the end (hard-stop-after)"),
    balance::BALANCE,
];
