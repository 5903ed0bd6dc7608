//! Streams on which others may speak before the agent does: launchers, batch systems, login scripts.
//!
//! The agent says a line of its own first; what came before is not a frame and is passed over.

use baremark_model::flow_control::READY;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// The longest line that is passed over at once, in bytes.
const LONGEST_LINE: u64 = 4096;

/// What the stream carries after the agent's first line. The channel closes when the stream ends before it.
pub fn agent_in(stream: impl Read + Send + 'static) -> Receiver<Box<dyn Read + Send>> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!((&mut stream).take(LONGEST_LINE).read_until(b'\n', &mut line), Ok(count) if count > 0) {
            if line.ends_with(READY) {
                // Whoever does not wait any more has left.
                return sender.send(Box::new(stream) as Box<dyn Read + Send>).unwrap_or_default();
            }
            line.clear();
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_comes_before_the_agent_is_passed_over() {
        let before = ["welcome\n".to_owned(), "x".repeat(10_000), "\n".to_owned()].concat();
        let stream = [before.as_bytes(), READY, b"\x03\0\0\0abc"].concat();
        let mut agent = agent_in(std::io::Cursor::new(stream)).recv_timeout(Duration::from_secs(60)).expect("it came");
        let mut frames = Vec::new();
        agent.read_to_end(&mut frames).expect("a cursor never fails");
        assert_eq!(frames, b"\x03\0\0\0abc");
        assert!(agent_in(std::io::Cursor::new(before)).recv_timeout(Duration::from_secs(60)).is_err());
    }
}
