//! Connections: accepted, limited in number, given up when their peer stalls, ended in good order.

use super::App;
use super::extract::Peer;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// How long sent data may stay unacknowledged, or a peer's window closed.
const STALL_TIME: Duration = Duration::from_secs(20);
/// How long what runs may take when the server ends.
const LAST_TIME: Duration = Duration::from_secs(10);

/// Accepts until the server leaves, then lets what runs come to its end. A request's head may take `head_time`.
pub(crate) async fn serve(app: &Arc<App>, listener: TcpListener, router: Router, head_time: Duration) {
    let graceful = GracefulShutdown::new();
    let mut leaving = app.leaving.subscribe();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head_time).max_buf_size(64 << 10);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = leaving.wait_for(|&leaving| leaving) => break,
        };
        let (stream, peer) = match accepted {
            Ok(pair) => pair,
            Err(why) => {
                // Out of descriptors, most likely: wait for some to be closed.
                super::log::line(&format!("accepting a connection: {why}"));
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&app.places).try_acquire_owned() else {
            super::log::line("as many connections as allowed; one more is closed");
            continue;
        };
        if let Err(why) = tune(&stream) {
            super::log::line(&format!("a connection: {why}"));
        }
        let router = TowerToHyperService::new(router.clone());
        let with_peer = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer.ip()));
            router.call(request)
        });
        let connection = http.serve_connection(TokioIo::new(stream), with_peer);
        let connection = graceful.watch(connection);
        let app = Arc::clone(app);
        app.connections.fetch_add(1, Relaxed);
        tokio::spawn(async move {
            // A peer that breaks off or stalls concerns nobody else.
            let _ = connection.await;
            app.connections.fetch_sub(1, Relaxed);
            drop(place);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(LAST_TIME, graceful.shutdown()).await;
}

fn tune(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_tcp_user_timeout(Some(STALL_TIME))
}
