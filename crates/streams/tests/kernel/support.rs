//! What the tests of transfers share.

use baremark_streams::ends::Path;
use baremark_streams::engine::{Direction, Order, Outcome, Pattern, run};
use std::time::{Duration, Instant};

pub fn order(pattern: Pattern, message: usize) -> Order {
    Order {
        pattern,
        message,
        buffer: None,
        streams: 1,
        direction: Direction::Forward,
        zero_copy: false,
        cpus: None,
        warm_up: Duration::from_millis(50),
        duration: Duration::from_millis(200),
    }
}

/// A transfer in which both ends worked and something arrived. On a machine whose CPUs others have that takes longer than elsewhere: until then it
/// is made again, four times as long. `run` fails where a byte of a stream is lost.
pub fn ran(order: &Order, path: &Path) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut order = order.clone();
    loop {
        let outcome = run(&order, path).unwrap();
        assert!(outcome.seconds >= order.duration.as_secs_f64(), "{outcome:?}");
        let answered = matches!(order.pattern, Pattern::Stream | Pattern::Datagrams) || !outcome.trips.is_empty();
        if outcome.bytes > 0 && outcome.cpu.receiving > 0.0 && outcome.cpu.sending > 0.0 && answered {
            return outcome;
        }
        assert!(Instant::now() < deadline, "nothing arrives: {outcome:?}");
        order.duration *= 4;
    }
}
