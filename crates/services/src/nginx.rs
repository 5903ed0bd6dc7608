//! nginx as a web server with a cache, or as a balancer.

use crate::balance;
use crate::card::{Card, Install, Tier};
use crate::error::ServiceError;
use crate::exchange;
use crate::order::{Order, Upstream};
use crate::recipe::{Ready, Recipe, Reload, Step};
use crate::service::{Instance, Service};
use crate::settings::{Settings, knob};
use crate::statistics::Statistics;
use baremark_model::knob::{Kind, Knob};
use std::fmt::Write as _;

/// The adapter.
pub struct Nginx;

/// The file that is written anew when the servers behind it change.
const CONFIGURATION: &str = "nginx.conf";

const CARD: Card = Card {
    kind: "nginx",
    tiers: &[Tier::Balancer, Tier::Web],
    knobs: KNOBS,
    install: Install { programs: &["/usr/sbin/nginx", "/usr/bin/nginx"], package: "nginx", user: Some("www-data") },
};

impl Service for Nginx {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError> {
        let folder = order.folder.display().to_string();
        let args = ["-p", &folder, "-c", &format!("{folder}/{CONFIGURATION}"), "-e", "stderr"].map(str::to_owned);
        let mut recipe = Recipe::new(Step::new(&order.program, args), Ready::http("/baremark-status"));
        recipe.files = balance::files(order, CONFIGURATION, configuration);
        recipe.folders = vec!["body", "proxy", "fastcgi", "uwsgi", "scgi", "cache"];
        // A graceful end; the master's death would leave its workers, so that it gets a signal that it can act on.
        recipe.stop_signal = libc::SIGQUIT;
        recipe.death_signal = libc::SIGTERM;
        recipe.reload = Reload::Signal(libc::SIGHUP);
        Ok(recipe)
    }

    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError> {
        let text = instance.ask(|address| exchange::get(address, "/baremark-status"))?;
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let names = ["active", "accepts", "handled", "requests", "reading", "writing", "waiting"];
        Ok(names.iter().map(|name| (*name).to_owned()).zip(numbers).collect())
    }

    fn rewire(&self, instance: &mut Instance, upstreams: &[Upstream]) -> Result<(), ServiceError> {
        balance::rewrite(instance, upstreams, CONFIGURATION, configuration)
    }
}

fn configuration(order: &Order) -> String {
    let settings = &order.settings;
    let mut text = String::new();
    let _ = writeln!(text, "daemon off;\npid {}/nginx.pid;\nerror_log stderr warn;", order.folder.display());
    let _ = writeln!(text, "worker_processes {};\nworker_rlimit_nofile {};", settings.count("workers"), files(order));
    let _ = writeln!(text, "worker_shutdown_timeout {}ms;", settings.ms("drain"));
    let _ = writeln!(text, "events {{ worker_connections {}; }}", settings.count("connections"));
    answers(&mut text, settings);
    upstream(&mut text, order);
    server(&mut text, order);
    settings.pass_through(&mut text, "  ");
    text + "}\n"
}

/// How any request is taken and handed on.
fn answers(text: &mut String, settings: &Settings) {
    let _ = writeln!(text, "http {{\n  server_tokens off; default_type application/octet-stream;");
    let log = if settings.on("access_log") { "/dev/stderr" } else { "off" };
    let _ = writeln!(text, "  access_log {log}; sendfile on; tcp_nodelay on;");
    for (key, name) in
        [("client_body", "body"), ("proxy", "proxy"), ("fastcgi", "fastcgi"), ("uwsgi", "uwsgi"), ("scgi", "scgi")]
    {
        let _ = writeln!(text, "  {key}_temp_path {name};");
    }
    let _ = writeln!(text, "  client_max_body_size {};", settings.bytes("body"));
    let _ = writeln!(text, "  keepalive_timeout {}ms; keepalive_requests 1000000;", settings.ms("keepalive_time"));
    let size = settings.bytes("buffer");
    let _ = writeln!(text, "  proxy_buffer_size {size}; proxy_buffers {} {size};", settings.count("buffers"));
    let _ =
        writeln!(text, "  proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $http_host;");
    let _ = writeln!(text, "  proxy_read_timeout {}ms; proxy_connect_timeout 2s;", settings.ms("timeout"));
    let _ = writeln!(text, "  proxy_next_upstream error timeout http_503 non_idempotent; proxy_next_upstream_tries 3;");
    let _ = writeln!(text, "  gzip {};", if settings.on("gzip") { "on" } else { "off" });
    let cache = settings.bytes("cache");
    if cache > 0 {
        let _ = writeln!(
            text,
            "  proxy_cache_path cache levels=1:2 keys_zone=images:8m max_size={cache} inactive=1d use_temp_path=off;"
        );
    }
}

/// The servers behind it.
fn upstream(text: &mut String, order: &Order) {
    let settings = &order.settings;
    let _ = writeln!(
        text,
        "  upstream behind {{\n    {}",
        if settings.word("balance") == "least" { "least_conn;" } else { "" }
    );
    for upstream in &order.upstreams {
        let _ = writeln!(text, "    server {} max_fails=1 fail_timeout=1s;", upstream.address);
    }
    if order.upstreams.is_empty() {
        let _ = writeln!(text, "    server 127.0.0.1:1 down;");
    }
    let _ = writeln!(text, "    keepalive {};\n  }}", settings.count("keepalive"));
}

/// Where it listens, and which way each path goes.
fn server(text: &mut String, order: &Order) {
    // On the lab's network this machine has an address of that network.
    let asking = if order.is_on_lab_network() { "10.0.0.0/8" } else { "127.0.0.1" };
    let status = format!("location = /baremark-status {{ stub_status; allow {asking}; deny all; }}");
    match &order.tls {
        None => {
            let _ = writeln!(text, "  server {{\n    listen {} backlog=4096;\n    {status}", order.address);
        }
        Some(tls) => {
            let _ = writeln!(text, "  server {{ listen {}; {status} }}", tls.plain);
            let _ =
                writeln!(text, "  server {{\n    listen {} ssl backlog=4096; ssl_protocols TLSv1.3;", order.address);
            let _ = writeln!(
                text,
                "    ssl_certificate {}; ssl_certificate_key {}; ssl_session_cache shared:tls:8m;",
                balance::CHAIN,
                balance::KEY
            );
        }
    }
    let _ = writeln!(
        text,
        "    location ~ ^/api/auctions/[0-9]+/events$ {{ proxy_pass http://behind; proxy_buffering off; }}"
    );
    if order.settings.bytes("cache") > 0 {
        let _ = writeln!(
            text,
            "    location ~ ^/api/items/[0-9]+/images/ {{ proxy_pass http://behind; proxy_cache images; proxy_cache_valid 200 1d; proxy_cache_lock on; }}"
        );
    }
    let _ = writeln!(text, "    location / {{ proxy_pass http://behind; }}\n  }}");
}

/// Descriptors that a worker needs: two for each connection, and some.
fn files(order: &Order) -> u64 {
    2 * order.settings.count("connections") + 256
}

const KNOBS: &[Knob] = &[
    knob("workers", Kind::Count { min: 1, max: 1024 }, "worker processes (worker_processes)"),
    knob("connections", Kind::Count { min: 64, max: 1_000_000 }, "connections of a worker (worker_connections)"),
    knob("keepalive", Kind::Count { min: 1, max: 100_000 }, "idle connections to the servers behind it, a worker"),
    balance::KEEPALIVE_TIME,
    knob("buffers", Kind::Count { min: 2, max: 1024 }, "buffers for an answer (proxy_buffers)"),
    knob("buffer", Kind::Size { min: 4096, max: 1 << 24 }, "size of a buffer"),
    balance::BODY,
    knob("cache", Kind::Size { min: 0, max: 1 << 40 }, "cache for images; 0 B disables it"),
    balance::TIMEOUT,
    balance::drain("how long workers of an old configuration may finish"),
    balance::BALANCE,
    knob("gzip", Kind::Switch, "compress answers"),
    knob("access_log", Kind::Switch, "log every request"),
];
