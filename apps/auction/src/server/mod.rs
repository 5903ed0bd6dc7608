//! One app server: stateless but for what it can read again, any number of them over one database.

mod accept;
mod api;
mod auctioneer;
mod bus;
mod extract;
mod failed_logins;
mod follow;
mod hub;
mod keeper;
mod log;
mod operations;
mod peers;
mod refusal;
mod routes;
mod session;
mod site;

pub(crate) use bus::Kind as BusKind;

use crate::database::{self, Address, Database, Fault};
use crate::duration::now_ms;
use crate::images::{Images, Place};
use crate::nouns::{Auction, Event, Id};
use crate::store::schema::{self, Meta};
use crate::store::{accounts, browse, leases};
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};

/// The times of an auction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// OPEN lasts this long without a bid.
    pub open: Duration,
    /// And LASTCALL this long.
    pub last_call: Duration,
    /// A server that has not been heard of for this long loses its auctions.
    pub lease: Duration,
}

/// What a server is told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub listen: SocketAddr,
    /// What other servers call, if it is not what is listened on.
    pub advertise: Option<SocketAddr>,
    pub database: Address,
    pub bus: BusKind,
    /// The password of Redis as the bus.
    pub bus_password: Option<String>,
    pub images: Place,
    pub pace: Pace,
    pub session_time: Duration,
    /// How long requests are still taken after it was asked to end, for balancers to notice.
    pub drain: Duration,
    pub threads: usize,
    pub connections: usize,
    /// How long a request's head may take; it also bounds how long a connection may be idle before its first request.
    pub head_time: Duration,
    pub waiters: usize,
    pub admin_token: Option<String>,
    /// Balancers that say whom they forward.
    pub proxies: Vec<IpAddr>,
}

/// Everything that handlers share.
pub(crate) struct App {
    pub id: String,
    pub address: String,
    pub database: Arc<dyn Database>,
    pub database_address: Address,
    pub meta: Meta,
    pub images: Arc<Images>,
    pub hub: hub::Hub,
    pub keeper: keeper::Keeper,
    pub bus: bus::Bus,
    pub bus_password: Option<String>,
    pub peers: peers::Peers,
    pub sessions: session::Sessions,
    pub hashing: session::Hashing,
    /// Somebody's password hash, to check against when there is no such user.
    pub some_hash: String,
    pub pace: Pace,
    pub session_time: Duration,
    pub admin_token: Option<String>,
    pub proxies: Vec<IpAddr>,
    pub counters: Vec<Arc<routes::Counter>>,
    pub places: Arc<Semaphore>,
    pub waiters: Arc<Semaphore>,
    pub connections: AtomicUsize,
    /// It hands its auctions over and takes no new ones.
    draining: watch::Sender<bool>,
    /// It takes no more requests, and those that wait end.
    pub leaving: watch::Sender<bool>,
    live: tokio::sync::Mutex<Option<(Instant, Arc<Vec<Auction>>)>>,
}

/// How long the list of live auctions is remembered.
const LIST_TIME: Duration = Duration::from_secs(1);

impl App {
    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    pub(crate) fn drain(&self) {
        self.draining.send_replace(true);
        self.keeper.look.notify_one();
    }

    /// Pushes an event of an auction that this server owns to everybody.
    pub(crate) fn publish(&self, event: Event) {
        self.hub.push(&self.database, &event);
        self.bus.send(bus::Message::Event(event));
    }

    /// A message of another server.
    pub(crate) fn receive(&self, message: bus::Message) {
        match message {
            bus::Message::Event(event) => self.hub.push(&self.database, &event),
            bus::Message::Logout(digits) => self.sessions.forget_digits(&digits),
            bus::Message::Leases => self.keeper.look.notify_one(),
        }
    }

    /// All live auctions, at most a second old.
    pub(crate) async fn live_auctions(&self) -> Result<Arc<Vec<Auction>>, Fault> {
        let mut live = self.live.lock().await;
        if let Some((read, auctions)) = &*live
            && read.elapsed() < LIST_TIME
        {
            return Ok(Arc::clone(auctions));
        }
        let auctions = Arc::new(browse::live_auctions(&*self.database).await?);
        *live = Some((Instant::now(), Arc::clone(&auctions)));
        Ok(auctions)
    }

    pub(crate) async fn is_live(&self, auction: Id) -> Result<bool, Fault> {
        let auctions = self.live_auctions().await?;
        Ok(auctions.binary_search_by_key(&auction, |it| it.auction_id).is_ok())
    }
}

/// Why a server did not start or ended badly.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("listening on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    #[error("{0}")]
    Database(#[from] Fault),
    #[error("{0}")]
    Start(String),
}

/// Serves until SIGTERM, SIGINT or `/drain`; says where on `out` when it is ready.
pub(crate) fn serve(settings: Settings, out: &mut (dyn Write + Send)) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.threads)
        // Files and SQLite's readers; every thread more costs memory that it keeps.
        .max_blocking_threads(settings.threads * 4 + 4)
        .thread_name("auction")
        .enable_all()
        .build()
        .map_err(|why| ServeError::Start(why.to_string()))?;
    let served = runtime.block_on(serve_on(settings, out));
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

async fn serve_on(settings: Settings, out: &mut (dyn Write + Send)) -> Result<(), ServeError> {
    let listener = TcpListener::bind(settings.listen).await.map_err(|why| ServeError::Listen(settings.listen, why))?;
    let address = listener.local_addr().map_err(|why| ServeError::Listen(settings.listen, why))?;
    let (drain, head_time) = (settings.drain, settings.head_time);
    let (app, router, outgoing) = build(settings, address).await?;
    if let Some(outgoing) = outgoing {
        tokio::spawn(bus::carry(Arc::clone(&app), outgoing));
    }
    let before = keeper::beat(&app, &HashMap::new()).await?;
    drop(before);
    let keeping = tokio::spawn(keeper::keep(Arc::clone(&app)));
    let sweeping = tokio::spawn(sweep(Arc::clone(&app)));
    let ready = serde_json::json!({ "address": address.to_string(), "server": app.id, "pid": std::process::id() });
    writeln!(out, "{ready}")
        .and_then(|()| out.flush())
        .map_err(|why| ServeError::Start(format!("standard output: {why}")))?;
    let leave = tokio::spawn(until_asked(Arc::clone(&app), drain));
    accept::serve(&app, listener, router.with_state(Arc::clone(&app)), head_time).await;
    keeping.abort();
    sweeping.abort();
    leave.abort();
    leases::farewell(&*app.database, &app.id).await.or_else(|why| {
        log::line(&format!("leaving: {why}"));
        Ok(())
    })
}

type Built = (Arc<App>, axum::Router<Arc<App>>, Option<tokio::sync::mpsc::UnboundedReceiver<bus::Message>>);

async fn build(settings: Settings, address: SocketAddr) -> Result<Built, ServeError> {
    let database = database::open(&settings.database).await?;
    let meta = schema::meta(&*database).await?;
    let some_hash = accounts::by_name(&*database, "user1").await?.map(|(_, hash)| hash).unwrap_or_default();
    let (bus, outgoing) = bus::Bus::new(settings.bus);
    let (router, counters) = routes::table();
    let id = crate::password::random::<8>().map_err(ServeError::Start)?;
    let started = |why: io::Error| ServeError::Start(format!("starting threads: {why}"));
    let images = Images::new(settings.images, meta.seed, Arc::clone(&database)).map_err(started)?;
    let app = Arc::new(App {
        id: crate::password::hex(&id),
        address: settings.advertise.unwrap_or(address).to_string(),
        images: Arc::new(images),
        database,
        database_address: settings.database,
        meta,
        hub: hub::Hub::default(),
        keeper: keeper::Keeper::default(),
        bus,
        bus_password: settings.bus_password,
        peers: peers::Peers::new(),
        sessions: session::Sessions::default(),
        hashing: session::Hashing::new(settings.threads, 10_000).map_err(started)?,
        some_hash,
        pace: settings.pace,
        session_time: settings.session_time,
        admin_token: settings.admin_token,
        proxies: settings.proxies,
        counters,
        places: Arc::new(Semaphore::new(settings.connections)),
        waiters: Arc::new(Semaphore::new(settings.waiters)),
        connections: AtomicUsize::new(0),
        draining: watch::Sender::new(false),
        leaving: watch::Sender::new(false),
        live: tokio::sync::Mutex::default(),
    });
    Ok((app, router, outgoing))
}

/// Waits until somebody asks this server to end; hands over first, then leaves.
async fn until_asked(app: Arc<App>, drain: Duration) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        log::line("signals cannot be caught; this server ends by a kill only");
        return;
    };
    let mut draining = app.draining.subscribe();
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = draining.wait_for(|&draining| draining) => {}
    }
    app.drain();
    let until = Instant::now() + drain;
    let patience = until + Duration::from_secs(10);
    while Instant::now() < until || (app.keeper.count() > 0 && Instant::now() < patience) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    app.leaving.send_replace(true);
}

async fn sweep(app: Arc<App>) {
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        if let Err(why) = accounts::sweep_sessions(&*app.database, now_ms()).await {
            log::line(&format!("old sessions: {why}"));
        }
    }
}
