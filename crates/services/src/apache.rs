//! Apache httpd as a web server with a cache.

use crate::balance;
use crate::card::{Card, Install, Tier};
use crate::error::ServiceError;
use crate::exchange;
use crate::order::{Order, Upstream};
use crate::recipe::{Ready, Recipe, Reload, Step};
use crate::service::{Instance, Service};
use crate::settings::{Settings, knob};
use crate::statistics::{Statistics, numbers};
use baremark_model::knob::{Kind, Knob};
use std::fmt::Write as _;

/// The adapter.
pub struct Apache;

const CONFIGURATION: &str = "httpd.conf";
const MODULE_FOLDER: &str = "/usr/lib/apache2/modules";

const CARD: Card = Card {
    kind: "apache",
    tiers: &[Tier::Web],
    knobs: KNOBS,
    install: Install {
        programs: &["/usr/sbin/apache2", "/usr/sbin/httpd"],
        package: "apache2",
        user: Some("www-data"),
    },
};

impl Service for Apache {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError> {
        let settings = &order.settings;
        if !settings.count("connections").is_multiple_of(settings.count("threads").max(1)) {
            return Err(ServiceError::Refused {
                name: order.name.clone(),
                what: format!(
                    "{} connections are not a multiple of {} threads a process",
                    settings.count("connections"),
                    settings.count("threads")
                ),
                remedy: "let connections be a multiple of threads".to_owned(),
            });
        }
        let file = order.folder.join(CONFIGURATION).display().to_string();
        let mut recipe = Recipe::new(
            Step::new(&order.program, ["-D", "FOREGROUND", "-f", &file]),
            Ready::http("/baremark-status?auto"),
        );
        recipe.files = balance::files(order, CONFIGURATION, configuration);
        recipe.folders = vec!["cache", "run"];
        recipe.stop_signal = libc::SIGTERM;
        recipe.death_signal = libc::SIGTERM;
        recipe.reload = Reload::Signal(libc::SIGUSR1);
        recipe.log_file = Some("error.log");
        Ok(recipe)
    }

    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError> {
        let text = instance.ask(|address| exchange::get(address, "/baremark-status?auto"))?;
        let lines = text.lines().filter_map(|line| line.split_once(": "));
        Ok(numbers(lines))
    }

    fn rewire(&self, instance: &mut Instance, upstreams: &[Upstream]) -> Result<(), ServiceError> {
        balance::rewrite(instance, upstreams, CONFIGURATION, configuration)
    }
}

const MODULES: [&str; 13] = [
    "mpm_event",
    "authz_core",
    "authz_host",
    "status",
    "proxy",
    "proxy_http",
    "proxy_balancer",
    "lbmethod_byrequests",
    "lbmethod_bybusyness",
    "slotmem_shm",
    "cache",
    "cache_disk",
    "headers",
];
const TLS_MODULES: [&str; 2] = ["socache_shmcb", "ssl"];

fn configuration(order: &Order) -> String {
    let settings = &order.settings;
    let folder = order.folder.display();
    let mut text = String::new();
    let tls_modules = order.tls.iter().flat_map(|_| TLS_MODULES);
    for module in MODULES.into_iter().chain(tls_modules) {
        let _ = writeln!(text, "LoadModule {module}_module {MODULE_FOLDER}/mod_{module}.so");
    }
    let _ = writeln!(
        text,
        "ServerRoot {folder}\nPidFile {folder}/run/httpd.pid\nErrorLog {folder}/error.log\nLogLevel warn"
    );
    let _ = writeln!(
        text,
        "DefaultRuntimeDir {folder}/run\nMutex pthread default\nServerName localhost\nServerTokens Prod"
    );
    listen(&mut text, order);
    limit(&mut text, settings);
    // On the lab's network this machine has an address of that network.
    let asking = if order.is_on_lab_network() { "ip 10.0.0.0/8" } else { "local" };
    let _ = writeln!(text, "<Location /baremark-status>\n  SetHandler server-status\n  Require {asking}\n</Location>");
    pass_on(&mut text, order);
    settings.pass_through(&mut text, "");
    text
}

fn listen(text: &mut String, order: &Order) {
    let folder = order.folder.display();
    let _ = writeln!(text, "Listen {}\nListenBacklog 4096", order.address);
    if let Some(tls) = &order.tls {
        let _ = writeln!(text, "Listen {}\nSSLSessionCache shmcb:{folder}/run/tls(1048576)", tls.plain);
        let _ = writeln!(text, "<VirtualHost {}>\n  SSLEngine on\n  SSLProtocol -all +TLSv1.3", order.address);
        let (chain, key) = (balance::CHAIN, balance::KEY);
        let _ = writeln!(
            text,
            "  SSLCertificateFile {folder}/{chain}\n  SSLCertificateKeyFile {folder}/{key}\n</VirtualHost>"
        );
    }
}

/// Processes, threads, times and sizes.
fn limit(text: &mut String, settings: &Settings) {
    let (connections, threads) = (settings.count("connections"), settings.count("threads"));
    let _ = writeln!(text, "ThreadsPerChild {threads}\nThreadLimit {threads}\nMaxRequestWorkers {connections}");
    let _ = writeln!(text, "ServerLimit {}\nStartServers {}", connections.div_ceil(threads), settings.count("workers"));
    let _ =
        writeln!(text, "KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout {}ms", settings.ms("keepalive_time"));
    let _ = writeln!(
        text,
        "LimitRequestBody {}\nProxyTimeout {}",
        settings.bytes("body"),
        settings.ms("timeout").div_ceil(1000)
    );
    let _ = writeln!(text, "GracefulShutdownTimeout {}", settings.ms("drain").div_ceil(1000));
}

/// To the servers behind, by way of the cache if there is one.
fn pass_on(text: &mut String, order: &Order) {
    let settings = &order.settings;
    let method = if settings.word("balance") == "least" { "bybusyness" } else { "byrequests" };
    let _ = writeln!(text, "<Proxy balancer://behind>\n  ProxySet lbmethod={method}");
    for upstream in &order.upstreams {
        let _ = writeln!(text, "  BalancerMember http://{} retry=1 keepalive=On", upstream.address);
    }
    let _ =
        writeln!(text, "</Proxy>\nProxyPreserveHost On\nProxyPass /baremark-status !\nProxyPass / balancer://behind/");
    if settings.bytes("cache") > 0 {
        let _ = writeln!(
            text,
            "CacheRoot {}/cache\nCacheEnable disk /api/items\nCacheQuickHandler on\nCacheIgnoreHeaders Set-Cookie",
            order.folder.display()
        );
    }
}

const KNOBS: &[Knob] = &[
    knob("workers", Kind::Count { min: 1, max: 1024 }, "processes at the start (StartServers)"),
    knob("threads", Kind::Count { min: 1, max: 20_000 }, "threads of a process (ThreadsPerChild)"),
    knob("connections", Kind::Count { min: 1, max: 1_000_000 }, "concurrent requests (MaxRequestWorkers)"),
    balance::KEEPALIVE_TIME,
    balance::BODY,
    knob(
        "cache",
        Kind::Size { min: 0, max: 1 << 40 },
        "0 B disables it; any other size caches on disk without a size limit (htcacheclean)",
    ),
    balance::TIMEOUT,
    balance::drain("how long processes of an old configuration may finish"),
    balance::BALANCE,
];
