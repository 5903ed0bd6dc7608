//! A frame: written, read, and what may be wrong with it.

use super::PROTOCOL;
use serde::Deserialize;
use std::io::{self, Read, Write};

/// The longest frame that is accepted, in bytes: a torn or foreign stream must not make us allocate what it claims.
pub const LONGEST_FRAME: u32 = 64 << 20;

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The stream ended between frames: the other side is gone.
    #[error("the other side closed the connection")]
    Closed,
    /// The stream ended inside a frame.
    #[error("the connection ended inside a frame: {got} of {want} bytes came")]
    Torn {
        /// Bytes that came.
        got: usize,
        /// Bytes that the frame should have had.
        want: usize,
    },
    /// The length is beyond what is accepted.
    #[error("a frame of {0} bytes was announced, more than {LONGEST_FRAME}; the stream is not baremark's")]
    TooLong(u32),
    /// The bytes are not the message that was expected.
    #[error("a frame is not a message of protocol {PROTOCOL}: {0}")]
    Garbled(#[source] serde_json::Error),
    /// The message cannot be written as JSON.
    #[error("a message could not be written: {0}")]
    Unwritable(#[source] serde_json::Error),
    /// The other side speaks another protocol.
    #[error("the other side speaks protocol {theirs}, this one {PROTOCOL}; use the same version of baremark on both")]
    Version {
        /// Its protocol.
        theirs: u32,
    },
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A message that travels in frames. [`frames`](crate::frames) writes its code once, where the type is: a generic codec would be compiled
/// again in every crate that sends or reads one.
pub trait Message: Sized {
    /// The body of its frame, JSON.
    ///
    /// # Errors
    /// When a part of it cannot be JSON.
    fn encoded(&self) -> serde_json::Result<Vec<u8>>;

    /// The message that such a body is.
    ///
    /// # Errors
    /// When the body is another one.
    fn decoded(body: &[u8]) -> serde_json::Result<Self>;
}

/// Makes types that serde knows messages of frames: `frames!(ToKeeper, FromKeeper);`.
#[macro_export]
macro_rules! frames {
    ($($message:ty),+) => {$(
        impl $crate::wire::Message for $message {
            fn encoded(&self) -> serde_json::Result<Vec<u8>> {
                serde_json::to_vec(self)
            }

            fn decoded(body: &[u8]) -> serde_json::Result<Self> {
                serde_json::from_slice(body)
            }
        }
    )+};
}

/// Writes one frame and flushes.
///
/// # Errors
/// When the message is too long or the stream fails.
pub fn write_frame(stream: &mut impl Write, message: &impl Message) -> Result<(), WireError> {
    let body = message.encoded().map_err(WireError::Unwritable)?;
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if length > LONGEST_FRAME {
        return Err(WireError::TooLong(length));
    }
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(&body)?;
    stream.flush()?;
    Ok(())
}

/// Reads one frame.
///
/// # Errors
/// [`WireError::Closed`] at a clean end, [`WireError::Version`] of an older version's greeting; else what is wrong with the stream or the frame.
pub fn read_frame<T: Message>(stream: &mut impl Read) -> Result<T, WireError> {
    let mut header = [0_u8; 4];
    match fill(stream, &mut header)? {
        0 => return Err(WireError::Closed),
        4 => {}
        got => return Err(WireError::Torn { got, want: 4 }),
    }
    let length = u32::from_le_bytes(header);
    if length > LONGEST_FRAME {
        return Err(WireError::TooLong(length));
    }
    let want = length as usize;
    let mut body = Vec::new();
    let got = stream.take(u64::from(length)).read_to_end(&mut body)?;
    if got < want {
        return Err(WireError::Torn { got, want });
    }
    T::decoded(&body).map_err(|why| match greeting(&body) {
        Some(theirs) => WireError::Version { theirs },
        None => WireError::Garbled(why),
    })
}

/// The protocol of a greeting of versions before 10, whose messages had their name as a field `type`; `None` of anything else.
fn greeting(body: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Greeting {
        r#type: String,
        protocol: u32,
    }
    let found: Greeting = serde_json::from_slice(body).ok()?;
    (found.r#type == "hello" && found.protocol < 10).then_some(found.protocol)
}

/// Reads until `buffer` is full or the stream ends; how much came.
fn fill(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match stream.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(got)
}
