//! Apache httpd as a web server with a cache.

use crate::exchange;
use crate::instance::Instance;
use crate::recipe::{Ready, Recipe, Reload, Step};
use crate::service::{Install, Order, Service, ServiceError, Statistics, Tier, Upstream};
use baremark_model::descriptor::{Default, Kind, Knob};
use std::fmt::Write as _;

/// The adapter.
pub struct Apache;

const CONFIGURATION: &str = "httpd.conf";
const MODULES: &str = "/usr/lib/apache2/modules";

impl Service for Apache {
    fn kind(&self) -> &'static str {
        "apache"
    }

    fn tiers(&self) -> &'static [Tier] {
        &[Tier::Web]
    }

    fn knobs(&self) -> &'static [Knob] {
        KNOBS
    }

    fn extra_help(&self) -> &'static str {
        "directives of the server"
    }

    fn install(&self) -> Install {
        Install { programs: &["/usr/sbin/apache2", "/usr/sbin/httpd"], package: "apache2", user: Some("www-data") }
    }

    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError> {
        let settings = &order.settings;
        if !settings.count("connections").is_multiple_of(settings.count("threads").max(1)) {
            return Err(ServiceError::Refused {
                name: order.name.clone(),
                what: format!(
                    "{} connections are no multiple of {} threads a process",
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
        recipe.files = vec![(CONFIGURATION.to_owned(), configuration(order))];
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
        Ok(lines.filter_map(|(key, value)| Some((key.to_owned(), value.trim().parse().ok()?))).collect())
    }

    fn rewire(&self, instance: &mut Instance, upstreams: &[Upstream]) -> Result<(), ServiceError> {
        instance.order_mut().upstreams = upstreams.to_vec();
        let text = configuration(instance.order());
        instance.write(CONFIGURATION, &text)?;
        instance.reload()
    }
}

fn configuration(order: &Order) -> String {
    let settings = &order.settings;
    let folder = order.folder.display();
    let mut text = String::new();
    for module in [
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
    ] {
        let _ = writeln!(text, "LoadModule {module}_module {MODULES}/mod_{module}.so");
    }
    let threads = settings.count("threads");
    let _ = writeln!(
        text,
        "ServerRoot {folder}\nPidFile {folder}/run/httpd.pid\nErrorLog {folder}/error.log\nLogLevel warn"
    );
    let _ = writeln!(
        text,
        "DefaultRuntimeDir {folder}/run\nMutex pthread default\nServerName localhost\nServerTokens Prod"
    );
    let _ = writeln!(text, "Listen {}\nListenBacklog 4096", order.address);
    let _ = writeln!(
        text,
        "ThreadsPerChild {threads}\nThreadLimit {threads}\nMaxRequestWorkers {}",
        settings.count("connections")
    );
    let _ = writeln!(
        text,
        "ServerLimit {}\nStartServers {}",
        settings.count("connections").div_ceil(threads),
        settings.count("workers")
    );
    let _ =
        writeln!(text, "KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout {}ms", settings.ms("keepalive_time"));
    let _ = writeln!(
        text,
        "LimitRequestBody {}\nProxyTimeout {}",
        settings.bytes("body"),
        settings.ms("timeout").div_ceil(1000)
    );
    let _ = writeln!(text, "GracefulShutdownTimeout {}", settings.ms("drain").div_ceil(1000));
    let _ = writeln!(text, "<Location /baremark-status>\n  SetHandler server-status\n  Require local\n</Location>");
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
            "CacheRoot {folder}/cache\nCacheEnable disk /api/items\nCacheQuickHandler on\nCacheIgnoreHeaders Set-Cookie"
        );
    }
    for line in &settings.extra {
        let _ = writeln!(text, "{line}");
    }
    text
}

const KNOBS: &[Knob] = &[
    Knob {
        key: "workers",
        kind: Kind::Count { min: 1, max: 1024 },
        default: Default::Required,
        help: "processes at the start (StartServers)",
    },
    Knob {
        key: "threads",
        kind: Kind::Count { min: 1, max: 20_000 },
        default: Default::Required,
        help: "threads of a process (ThreadsPerChild)",
    },
    Knob {
        key: "connections",
        kind: Kind::Count { min: 1, max: 1_000_000 },
        default: Default::Required,
        help: "requests at once (MaxRequestWorkers)",
    },
    Knob {
        key: "keepalive_time",
        kind: Kind::Time { min: 1_000_000, max: 3_600_000_000_000 },
        default: Default::Required,
        help: "how long a browser's idle connection is kept",
    },
    Knob {
        key: "body",
        kind: Kind::Size { min: 1024, max: 1 << 30 },
        default: Default::Required,
        help: "the largest body of a request",
    },
    Knob {
        key: "cache",
        kind: Kind::Size { min: 0, max: 1 << 40 },
        default: Default::Required,
        help: "0 B keeps none; any other size caches on disk without a limit of its own (htcacheclean)",
    },
    Knob {
        key: "timeout",
        kind: Kind::Time { min: 1_000_000_000, max: 3_600_000_000_000 },
        default: Default::Required,
        help: "how long a server behind it may be silent",
    },
    Knob {
        key: "drain",
        kind: Kind::Time { min: 1_000_000, max: 600_000_000_000 },
        default: Default::Required,
        help: "how long processes of an old configuration may finish",
    },
    Knob {
        key: "balance",
        kind: Kind::Choice(&["round-robin", "least"]),
        default: Default::Required,
        help: "how servers are chosen",
    },
];
