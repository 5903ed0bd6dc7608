//! What comes after the end of a load is in none of its rates.

use crate::server::{Server, Then, answer, load, serve};
use baremark_load::document::Document;
use baremark_load::load::{Drive, Engine};
use baremark_load::record::Part;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How long a load lasts, and how much later the rest of an answer is sent, whatever the machine does.
const LASTING_MS: u64 = 200;
const LATER: Duration = Duration::from_millis(1500);

/// A closed load, and what it has measured.
fn measured(server: &Server) -> (Document, Part) {
    let engine = Engine::new(load(server.address, Drive::Closed, LASTING_MS), Arc::default()).unwrap();
    let part = engine.run(&mut |_| {}).unwrap();
    (Document::new(engine.load(), &part), part)
}

/// The half of an answer that comes after the end is received, and left out of the bytes per second.
#[test]
fn bytes_after_the_end_are_in_no_rate() {
    const HALF: usize = 50_000;
    let half = vec![b'x'; HALF];
    let server = serve(move |_, stream| {
        let head = format!("HTTP/1.1 200 X\r\nContent-Length: {}\r\n\r\n", 2 * HALF);
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&half));
        thread::sleep(LATER);
        let sent = sent.and_then(|()| stream.write_all(&half));
        if sent.is_ok() { Then::Keep } else { Then::Close }
    });
    let (document, part) = measured(&server);
    // Four connections, each with one request, whose answer came after the end.
    assert_eq!((document.succeeded(), document.counts.answered), ((4, 4), 0));
    let most = 4 * (HALF as u64 + 200);
    assert!(document.counts.received_bytes <= most, "{} bytes of at most {most}", document.counts.received_bytes);
    let seconds: u64 = part.seconds.iter().map(|second| second.received_bytes).sum();
    assert_eq!(document.counts.received_bytes, seconds);
}

/// Twenty requests are answered, and then none before the end: what fails after it takes nothing from what succeeded before.
#[test]
fn failures_after_the_end_are_in_no_rate() {
    let asked = AtomicUsize::new(0);
    let server = serve(move |_, stream| {
        if asked.fetch_add(1, Ordering::Relaxed) < 20 {
            return answer(stream, 200, "", "hello");
        }
        thread::sleep(LATER);
        answer(stream, 503, "", "")
    });
    let (document, part) = measured(&server);
    let failed: u64 = part.seconds.iter().map(|second| second.failed).sum();
    assert_eq!(failed, 0, "in the time: {:?}", document.failure_examples);
    let succeeded = document.achieved.operations_per_s * document.elapsed_s;
    assert!((succeeded - document.counts.ended as f64).abs() < 0.5, "{succeeded} of {:?}", document.counts);
}
