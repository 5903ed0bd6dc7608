//! What conductor, primary and secondary say to each other: a message as JSON, and bytes behind it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// The longest message, and the most bytes behind one.
const LONGEST: u64 = 1 << 32;

/// What is protected, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// The length of an epoch in microseconds.
    pub epoch_us: u64,
    /// 10^6 bit/s from the primary to the secondary; `None` for what sockets give.
    pub link_mbit: Option<u64>,
    /// One-way delay between the two in microseconds.
    pub link_delay_us: u64,
    /// The CPUs of the program; none for any.
    pub cpus: Vec<usize>,
    /// How long a secondary that has a checkpoint waits for the next one before it takes over, and a primary for an answer before it gets
    /// another secondary, in milliseconds; 0 for any time.
    pub heartbeat_ms: u64,
}

impl Order {
    /// The fewest epochs that a secondary waits.
    pub const FEWEST_EPOCHS: u64 = 2;

    /// How long primary and secondary wait for each other; `None` for any time.
    #[must_use]
    pub fn heartbeat(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.heartbeat_ms)).filter(|limit| !limit.is_zero())
    }

    /// How long a secondary waits where nothing else is requested: 50 epochs and two delays of the link, at least a second, in milliseconds.
    #[must_use]
    pub fn default_heartbeat_ms(epoch_us: u64, link_delay_us: u64) -> u64 {
        let wait_us = epoch_us.saturating_mul(50).saturating_add(link_delay_us.saturating_mul(2));
        wait_us.div_ceil(1000).max(1000)
    }
}

/// From the conductor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToReplica {
    /// What is protected. Comes first.
    Begin(Order),
    /// Be the secondary: wait for a primary that knows the token.
    Listen { token: u64 },
    /// Be the primary: with the last checkpoint or, where there is none yet, from the program's start.
    TakeOver,
    /// To the primary: send checkpoints to the secondary of this number there. Output up to this epoch was released.
    Protect { secondary: u32, at: SocketAddr, token: u64, released: u64 },
    /// A client has connected; the addresses are as the program knows them.
    Connect { channel: u64, server: String, client: String },
    /// Bytes from a client, or its end behind them.
    Input { channel: u64, offset: u64, ended: bool },
    /// A client takes no more output. Comes behind all of its input.
    Lost { channel: u64 },
}

/// To the conductor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromReplica {
    /// The secondary waits here.
    Listening { at: SocketAddr },
    /// The primary's program runs, from this epoch on, in this process.
    Running { epoch: u64, process: u32 },
    /// The secondary has a checkpoint, whose output may leave.
    Released(Release),
    /// The primary has lost the secondary of this number, which may have been replaced already.
    Unprotected { secondary: u32 },
    /// The secondary has heard nothing from the primary for so many milliseconds. It takes nothing from that primary any more.
    Silent { silent_ms: f64 },
    /// The program cannot run.
    Failed { message: String },
}

/// Output of one connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    pub channel: u64,
    /// How many bytes were sent before these.
    pub offset: u64,
    /// How many these are.
    pub bytes: usize,
    /// Whether the program will send no more.
    pub ended: bool,
    /// Whether the program has closed the connection.
    pub closed: bool,
}

/// What a checkpoint allows to leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    pub epoch: u64,
    pub outputs: Vec<Output>,
    /// Connections that the program has accepted, and how many bytes it has read of each.
    pub consumed: Vec<(u64, u64)>,
    /// Addresses where the program listens.
    pub listeners: Vec<String>,
    /// Calls that were refused in the epoch.
    pub refused: Vec<String>,
    /// The program's exit code, where it has ended.
    pub ended: Option<i32>,
    pub threads: u64,
    pub pages: u64,
    pub link_bytes: u64,
    pub paused_ns: u64,
}

/// Sends a message with bytes behind it.
///
/// # Errors
/// What writing gives.
pub fn send(mut stream: impl Write, message: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let json = serde_json::to_vec(message)?;
    let mut all = Vec::with_capacity(16 + json.len() + bytes.len());
    [json.len(), bytes.len()].iter().for_each(|length| all.extend_from_slice(&(*length as u64).to_le_bytes()));
    all.extend_from_slice(&json);
    all.extend_from_slice(bytes);
    stream.write_all(&all)
}

/// Receives a message and the bytes behind it; `None` at the end of the stream.
///
/// # Errors
/// What reading gives; `InvalidData` for what is no message.
pub fn receive<T: DeserializeOwned>(mut stream: impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut lengths = [0; 16];
    match stream.read_exact(&mut lengths) {
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        done => done?,
    }
    let length = |at: usize| lengths[at..at + 8].try_into().map_or(u64::MAX, u64::from_le_bytes);
    let mut part = |length: u64| {
        if length > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes")));
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        stream.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let json = part(length(0))?;
    let bytes = part(length(8))?;
    Ok(Some((serde_json::from_slice(&json)?, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_follows_the_epoch_and_the_delay_and_is_a_second_at_least() {
        assert_eq!(Order::default_heartbeat_ms(20_000, 0), 1000);
        assert_eq!(Order::default_heartbeat_ms(100_000, 0), 5000);
        assert_eq!(Order::default_heartbeat_ms(100_000, 50_000), 5100);
        assert_eq!(Order::default_heartbeat_ms(1, 0), 1000);
    }

    #[test]
    fn messages_come_back_and_torn_ones_are_errors() {
        let message = ToReplica::Input { channel: 7, offset: 3, ended: true };
        let mut sent = Vec::new();
        send(&mut sent, &message, b"abc").expect("written");
        let received: Option<(ToReplica, Vec<u8>)> = receive(sent.as_slice()).expect("a message");
        assert_eq!(received, Some((message, b"abc".to_vec())));
        assert_eq!(receive::<ToReplica>(io::empty()).expect("the end"), None);
        receive::<ToReplica>(&sent[..sent.len() - 1]).expect_err("torn");
        sent[7] = 1;
        receive::<ToReplica>(sent.as_slice()).expect_err("too long");
    }
}
