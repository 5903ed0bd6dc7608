//! `baremark site --serve`: the same pages, made when they are asked for, so that a browser follows runs that measure.
//!
//! It listens on loopback and answers only requests that name it so: a page of the web that has its name lead here gets nothing.

use super::changes;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch::say;
use crate::{record, sides};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use baremark_model::document::Document;
use baremark_report::html;
use baremark_report::site::{Entry, render};
use baremark_store::{RunState, RunSummary};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;

/// How often a browser loads a page again that shows a run which measures.
const REFRESH: HeaderValue = HeaderValue::from_static("5");
/// How soon the end is seen that a signal asks for.
const LOOK: Duration = Duration::from_millis(100);

/// The store, and the documents of its runs that have ended: those do not change.
struct Pages {
    context: Context,
    ended: Mutex<BTreeMap<String, Arc<Document>>>,
}

impl Pages {
    /// The runs with what is known of each; those that cannot be shown are left out.
    fn runs(&self) -> Result<Vec<(RunSummary, Arc<Document>)>, Refusal> {
        let store = record::open_existing(&self.context)?;
        let runs = store.runs().map_err(Refusal::failure)?;
        let known = |run: RunSummary| {
            let name = run.id.to_string();
            let kept = self.kept().get(&name).cloned();
            let document = kept.map_or_else(|| sides::stored(&store, &name).map(Arc::new), Ok);
            let document = document.inspect_err(|why| say(format_args!("error: {}", why.message))).ok()?;
            if run.state == RunState::Finished {
                self.kept().insert(name, Arc::clone(&document));
            }
            Some((run, document))
        };
        Ok(runs.into_iter().filter_map(known).collect())
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Document>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The index, and whether a run measures.
    fn index(&self) -> Result<(String, bool), Refusal> {
        let runs = self.runs()?;
        let live = runs.iter().any(|(run, _)| run.state == RunState::Live);
        let entry = |(run, document): &(RunSummary, Arc<Document>)| Entry {
            document: Document::clone(document),
            page: format!("{}.html", run.id),
            source: run.state.word().to_owned(),
            live: run.state == RunState::Live,
        };
        let entries: Vec<Entry> = runs.iter().map(entry).collect();
        Ok((render(&entries, &changes::text(&entries)), live))
    }

    /// The report of a run, and whether it measures; `None` where the store has no such run.
    fn report(&self, name: &str) -> Result<Option<(String, bool)>, Refusal> {
        let run = self.runs()?.into_iter().find(|(run, _)| run.id.as_str() == name);
        Ok(run.map(|(run, document)| (html::render(&document), run.state == RunState::Live)))
    }
}

/// Serves until a signal ends it. Port 0 is one that is free.
///
/// # Errors
/// There is no store, or the port cannot be had.
pub fn run(context: Context, port: u16) -> Result<(String, Exit), Refusal> {
    record::open_existing(&context)?;
    let failed = |why: std::io::Error| Refusal::failure(format!("serving on port {port} of 127.0.0.1: {why}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(failed)?;
    runtime.block_on(serve(context, port)).map_err(failed)?;
    Ok((String::new(), Exit::Success))
}

async fn serve(context: Context, port: u16) -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let address = listener.local_addr()?;
    let interrupt = Arc::clone(&context.interrupt);
    let pages = Arc::new(Pages { context, ended: Mutex::default() });
    let routes = Router::new()
        .route("/", get(index))
        .route("/{page}", get(report))
        .with_state(pages)
        .layer(from_fn_with_state(address, for_us));
    say(format_args!("Serving the store's runs at http://{address}/; Ctrl-C ends it"));
    let end = async move {
        while !interrupt.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
    };
    // A browser keeps its connection: an end does not wait for it.
    tokio::select! {
        served = axum::serve(listener, routes) => served,
        () = end => Ok(()),
    }
}

/// Answers only where the request names this address.
async fn for_us(State(address): State<SocketAddr>, request: Request, next: Next) -> Response {
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let ours = [format!("{address}"), format!("localhost:{}", address.port())];
    if named.is_some_and(|host| ours.iter().any(|our| our == host)) {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "this is served at its own address only\n").into_response()
}

async fn index(State(pages): State<Arc<Pages>>) -> Response {
    made(move || pages.index().map(Some)).await
}

async fn report(State(pages): State<Arc<Pages>>, Path(page): Path<String>) -> Response {
    match page.strip_suffix(".html").map(str::to_owned) {
        Some(name) => made(move || pages.report(&name)).await,
        None => missing(),
    }
}

fn missing() -> Response {
    (StatusCode::NOT_FOUND, "the store has no such run\n").into_response()
}

/// A page made from the store, on a thread that may wait.
async fn made(page: impl FnOnce() -> Result<Option<(String, bool)>, Refusal> + Send + 'static) -> Response {
    let failed = |why: String| (StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")).into_response();
    let mut response = match tokio::task::spawn_blocking(page).await {
        Ok(Ok(Some((text, live)))) => {
            let mut response = Html(text).into_response();
            if live {
                response.headers_mut().insert(header::REFRESH, REFRESH);
            }
            response
        }
        Ok(Ok(None)) => missing(),
        Ok(Err(why)) => failed(why.message),
        Err(why) => failed(why.to_string()),
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
