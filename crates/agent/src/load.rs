//! This site's part of a load: prepared when it is asked for, begun at the moment that all sites agreed on.

use crate::gate;
use baremark_load::load::{Engine, LoadError, Progress};
use baremark_load::order::{Order, OrderError};
use baremark_load::rate_control::{Asked, RateControl};
use baremark_model::problem::chain;
use baremark_model::units::Nanos;
use baremark_model::wire::{FromAgent, ToAgent, WireError, write_frame};
use serde::Deserialize as _;
use serde_json::Value;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often a load under way looks for what the lab says.
const GLANCE: Duration = Duration::from_millis(20);

/// How often the lab is told how many operations are on their way.
const IN_FLIGHT: Duration = Duration::from_millis(200);

/// A load that can begin.
pub(crate) struct Prepared {
    engine: Engine,
    interrupt: Arc<AtomicBool>,
}

/// Why a load cannot begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    /// The order's JSON is not that of an order.
    #[error("the order cannot be read: {0}")]
    Unread(#[from] serde_json::Error),
    /// The order asks for no load that can be made.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The load cannot be had from here.
    #[error("{}", chain(.0))]
    Load(#[from] LoadError),
}

/// Reads an order and checks everything that can be checked here.
pub(crate) fn prepare(order: Value) -> Result<Prepared, PrepareError> {
    let order = Order::deserialize(&order)?;
    let interrupt = Arc::new(AtomicBool::new(false));
    let engine = Engine::new(order.load()?, Arc::clone(&interrupt))?;
    Ok(Prepared { engine, interrupt })
}

/// Runs the load from `begin_ns` of this machine's monotonic clock on; each second and the end go to the lab. A lab that asks to
/// stop gets what there is; one that is gone ends it.
pub(crate) fn run(
    prepared: Prepared,
    begin_ns: u64,
    heard: &Receiver<Result<ToAgent, WireError>>,
    output: &mut impl Write,
) -> Result<(), WireError> {
    let (told, telling) = channel();
    let Prepared { engine, interrupt } = prepared;
    thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let ended = engine.run_from(begin_ns, &mut |second| {
                let _ = told.send(FromAgent::LoadSecond { second: second.second, part: value(&second.part) });
            });
            drop(told.send(match ended {
                Ok(part) => FromAgent::LoadDone { part: Box::new(value(&part)) },
                Err(why) => FromAgent::Failed { what: "the load".to_owned(), why: chain(&why) },
            }));
        });
        let mut outcome = Ok(());
        loop {
            match telling.recv_timeout(GLANCE) {
                Ok(message) => outcome = outcome.and_then(|()| write_frame(output, &message)),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            }
            let stop = match heard.try_recv() {
                Ok(Ok(ToAgent::StopLoad | ToAgent::Goodbye) | Err(_)) | Err(TryRecvError::Disconnected) => true,
                Ok(Ok(_)) | Err(TryRecvError::Empty) => false,
            };
            if stop || outcome.is_err() {
                interrupt.store(true, Ordering::Relaxed);
            }
        }
        drop(worker.join());
        outcome
    })
}

/// Runs the load from `begin_ns` of this machine's monotonic clock on, at the levels and over the windows that the lab
/// orders, until it asks to stop or is gone.
pub(crate) fn steer(
    prepared: Prepared,
    begin_ns: u64,
    heard: &Receiver<Result<ToAgent, WireError>>,
    output: &mut impl Write,
) -> Result<(), WireError> {
    let (told, seconds) = channel();
    let load = prepared.engine.load().clone();
    // The dial has an engine of its own.
    drop(prepared);
    let watch = move |second: &Progress| drop(told.send(second.clone()));
    let begun = RateControl::start_at(load, begin_ns, watch);
    let steered = begun.and_then(|dial| follow(dial, heard, &seconds, output));
    match steered {
        Ok(written) => written,
        Err(why) => write_frame(output, &FromAgent::Failed { what: "the load".to_owned(), why: chain(&why) }),
    }
}

/// Follows the lab's orders; the outer error is the load's, the inner the stream's.
fn follow(
    mut dial: RateControl,
    heard: &Receiver<Result<ToAgent, WireError>>,
    seconds: &Receiver<Progress>,
    output: &mut impl Write,
) -> Result<Result<(), WireError>, LoadError> {
    let mut window: Option<(u64, Asked)> = None;
    let mut told = Instant::now();
    loop {
        match heard.try_recv() {
            Ok(Ok(ToAgent::SetLevel { at_ns, level })) => drop(dial.set_at(level, at_ns)?),
            Ok(Ok(ToAgent::AskWindow { id, begin_ns, lasting_ns, patience_ns })) => {
                let asked = dial.ask_at(begin_ns, Nanos(lasting_ns), Nanos(patience_ns));
                window = Some((id, asked?));
            }
            Ok(Ok(ToAgent::ReadClock)) => {
                if let Err(why) = write_frame(output, &gate::now()) {
                    return Ok(Err(why));
                }
            }
            Ok(Ok(ToAgent::StopLoad | ToAgent::Goodbye) | Err(_)) | Err(TryRecvError::Disconnected) => break,
            Ok(Ok(_)) | Err(TryRecvError::Empty) => {}
        }
        let mut frames: Vec<FromAgent> = seconds
            .try_iter()
            .map(|second| FromAgent::LoadSecond { second: second.second, part: value(&second.part) })
            .collect();
        match window {
            Some((id, asked)) => {
                if let Some(part) = dial.gather(asked, GLANCE)? {
                    frames.push(FromAgent::LoadWindow { id, part: Box::new(value(&part)) });
                    window = None;
                }
            }
            None => thread::sleep(GLANCE),
        }
        if told.elapsed() >= IN_FLIGHT {
            told = Instant::now();
            frames.push(FromAgent::LoadInFlight { operations: dial.in_flight() });
        }
        if let Some(why) = frames.iter().find_map(|frame| write_frame(output, frame).err()) {
            return Ok(Err(why));
        }
    }
    let part = dial.stop()?;
    Ok(write_frame(output, &FromAgent::LoadDone { part: Box::new(value(&part)) }))
}

fn value(what: &impl serde::Serialize) -> Value {
    // Counts and texts: there is nothing in a part that JSON cannot hold.
    serde_json::to_value(what).unwrap_or(Value::Null)
}
