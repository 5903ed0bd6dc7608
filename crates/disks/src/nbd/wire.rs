//! The NBD protocol as far as one client with one connection needs it: the fixed newstyle handshake with the option `NBD_OPT_EXPORT_NAME`, then
//! requests and simple replies, as in the protocol's own document (proto.md of the NBD project). All numbers are big-endian.

use std::io::{self, ErrorKind, Read, Write};

/// How a server greets: `NBDMAGIC`, then `IHAVEOPT`, which also begins each option.
const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
/// `NBD_FLAG_FIXED_NEWSTYLE` and `NBD_FLAG_NO_ZEROES`.
const FIXED: u16 = 1;
const NO_ZEROES: u16 = 2;
/// Zeros after an export's size and flags for clients that do not refuse them.
const ZEROES: usize = 124;
const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
/// `NBD_REP_ACK` and `NBD_REP_ERR_UNSUP`.
const ACKNOWLEDGED: u32 = 1;
const UNSUPPORTED: u32 = 0x8000_0001;
/// `NBD_FLAG_HAS_FLAGS`, `NBD_FLAG_SEND_FLUSH` and `NBD_FLAG_SEND_FUA`.
pub(super) const EXPORT_FLAGS: u16 = 1 | 4 | 8;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;
/// `NBD_CMD_FLAG_FUA`.
const DURABLE: u16 = 1;
/// Bytes of an option that a server reads at most: names of exports have up to 4096.
const LONGEST_OPTION: u32 = 4096;

/// What a client wants of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    /// One that was not offered.
    Other(u16),
}

impl Command {
    fn of(number: u16) -> Command {
        match number {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            other => Command::Other(other),
        }
    }
}

/// A request without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) command: Command,
    /// A write is to be on stable storage before it is answered.
    pub(super) durable: bool,
    pub(super) cookie: u64,
    pub(super) offset: u64,
    pub(super) length: u32,
}

impl Request {
    /// The next request; `None` at the end of the connection, which may be silent for any time before that.
    ///
    /// # Errors
    /// What is no request, or the end or the silence of the connection in the middle of one.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Request>> {
        let mut bytes = [0; 28];
        let begun = loop {
            match from.read(&mut bytes) {
                Err(why) if is_silence(&why) || why.kind() == ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if begun == 0 {
            return Ok(None);
        }
        rest(from, &mut bytes[begun..])?;
        let mut left = &bytes[..];
        expect(u32_of(&mut left)?, REQUEST, "a request")?;
        let flags = u16_of(&mut left)?;
        Ok(Some(Request {
            command: Command::of(u16_of(&mut left)?),
            durable: flags & DURABLE != 0,
            cookie: u64_of(&mut left)?,
            offset: u64_of(&mut left)?,
            length: u32_of(&mut left)?,
        }))
    }
}

/// Reads the rest of a request.
///
/// # Errors
/// The end or the silence of the connection before that.
pub(super) fn rest(from: &mut impl Read, into: &mut [u8]) -> io::Result<()> {
    from.read_exact(into).map_err(|why| explained(why, "in the middle of a request"))
}

/// Reads so many bytes of a request that nobody wants.
///
/// # Errors
/// As [`rest`].
pub(super) fn skip(from: &mut impl Read, bytes: u32) -> io::Result<()> {
    let skipped = io::copy(&mut from.take(bytes.into()), &mut io::sink());
    let ended = io::Error::from(ErrorKind::UnexpectedEof);
    let all = skipped.and_then(|skipped| if skipped == u64::from(bytes) { Ok(()) } else { Err(ended) });
    all.map_err(|why| explained(why, "in the middle of a request"))
}

/// An error of a connection, in words where the client has ended it or says nothing.
pub(super) fn explained(why: io::Error, at: &str) -> io::Error {
    match why.kind() {
        ErrorKind::UnexpectedEof => io::Error::new(why.kind(), format!("the client ended {at}")),
        _ if is_silence(&why) => io::Error::new(ErrorKind::TimedOut, format!("the client stopped {at}")),
        _ => why,
    }
}

/// A read or write took longer than its connection allows.
fn is_silence(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A reply without its data: 0, or an error of the protocol.
pub(super) fn reply(error: u32, cookie: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&REPLY.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The server's part of the handshake, for one export of this name and size: whether the client asked for it. Others are refused by the end of
/// the connection, as the protocol has it.
pub(super) fn serve_handshake(stream: &mut (impl Read + Write), name: &str, bytes: u64) -> io::Result<bool> {
    let mut greeting = [GREETING.to_be_bytes(), OPTION.to_be_bytes()].concat();
    greeting.extend((FIXED | NO_ZEROES).to_be_bytes());
    stream.write_all(&greeting)?;
    let client = u32_of(stream)?;
    loop {
        expect(u64_of(stream)?, OPTION, "an option")?;
        let (option, length) = (u32_of(stream)?, u32_of(stream)?);
        if length > LONGEST_OPTION {
            return Err(malformed(format!("an option of {length} bytes")));
        }
        let mut data = vec![0; usize::try_from(length).unwrap_or(0)];
        stream.read_exact(&mut data)?;
        match option {
            EXPORT_NAME if data == name.as_bytes() => break,
            EXPORT_NAME => return Ok(false),
            ABORT => {
                stream.write_all(&option_reply(option, ACKNOWLEDGED))?;
                return Ok(false);
            }
            // A client that would rather have another option then takes this one.
            other => stream.write_all(&option_reply(other, UNSUPPORTED))?,
        }
    }
    let mut export = bytes.to_be_bytes().to_vec();
    export.extend(EXPORT_FLAGS.to_be_bytes());
    if client & u32::from(NO_ZEROES) == 0 {
        export.resize(export.len() + ZEROES, 0);
    }
    stream.write_all(&export)?;
    Ok(true)
}

/// The client's part: size and flags of the export of this name.
pub(super) fn ask_for(stream: &mut (impl Read + Write), name: &str) -> io::Result<(u64, u16)> {
    expect(u64_of(stream)?, GREETING, "an NBD server")?;
    expect(u64_of(stream)?, OPTION, "an NBD server with options")?;
    if u16_of(stream)? & (FIXED | NO_ZEROES) != FIXED | NO_ZEROES {
        return Err(malformed("an NBD server without the fixed newstyle handshake".to_owned()));
    }
    let mut asked = u32::from(FIXED | NO_ZEROES).to_be_bytes().to_vec();
    asked.extend(OPTION.to_be_bytes());
    asked.extend(EXPORT_NAME.to_be_bytes());
    asked.extend(u32::try_from(name.len()).map_err(io::Error::other)?.to_be_bytes());
    asked.extend(name.as_bytes());
    stream.write_all(&asked)?;
    Ok((u64_of(stream)?, u16_of(stream)?))
}

fn option_reply(option: u32, kind: u32) -> Vec<u8> {
    let mut bytes = OPTION_REPLY.to_be_bytes().to_vec();
    for number in [option, kind, 0] {
        bytes.extend(number.to_be_bytes());
    }
    bytes
}

fn expect<N: PartialEq + std::fmt::LowerHex>(found: N, magic: N, what: &str) -> io::Result<()> {
    if found == magic { Ok(()) } else { Err(malformed(format!("{found:#x} where {what} begins with {magic:#x}"))) }
}

fn malformed(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn u16_of(from: &mut impl Read) -> io::Result<u16> {
    let mut bytes = [0; 2];
    from.read_exact(&mut bytes)?;
    Ok(u16::from_be_bytes(bytes))
}

fn u32_of(from: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn u64_of(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One end of a connection whose other end has already sent everything.
    struct Recorded {
        sent: io::Cursor<Vec<u8>>,
        answered: Vec<u8>,
    }

    impl Recorded {
        fn of(sent: &[&[u8]]) -> Recorded {
            Recorded { sent: io::Cursor::new(sent.concat()), answered: Vec::new() }
        }
    }

    impl Read for Recorded {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.sent.read(into)
        }
    }

    impl Write for Recorded {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.answered.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Bytes as proto.md lays them out, written by hand.
    const EXPORT_DISK: &[u8] = b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk";

    #[test]
    fn a_client_that_prefers_another_option_takes_the_export_by_its_name() {
        // NBD_OPT_GO (7) with 3 bytes, which is not supported, then the name.
        let go = b"IHAVEOPT\0\0\0\x07\0\0\0\x03abc";
        let mut client = Recorded::of(&[b"\0\0\0\x03", go, EXPORT_DISK]);
        assert!(serve_handshake(&mut client, "disk", 0x0102).expect("a sound handshake"));
        let expected: &[&[u8]] = &[
            b"NBDMAGICIHAVEOPT\0\x03",
            b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\x80\0\0\x01\0\0\0\0",
            b"\0\0\0\0\0\0\x01\x02\0\x0d",
        ];
        assert_eq!(client.answered, expected.concat());
    }

    #[test]
    fn a_client_that_wants_zeros_gets_them_and_one_without_the_name_gets_nothing() {
        let mut client = Recorded::of(&[b"\0\0\0\x01", EXPORT_DISK]);
        assert!(serve_handshake(&mut client, "disk", 1).expect("a sound handshake"));
        assert_eq!(client.answered.len(), 18 + 10 + 124);
        let mut client = Recorded::of(&[b"\0\0\0\x03", EXPORT_DISK]);
        assert!(!serve_handshake(&mut client, "another", 1).expect("a sound handshake"));
        assert_eq!(client.answered.len(), 18, "neither size nor flags");
        let mut client = Recorded::of(&[b"\0\0\0\x03", b"IHAVEOPT\0\0\0\x02\0\0\0\0"]);
        assert!(!serve_handshake(&mut client, "disk", 1).expect("the client may abort"));
        assert!(client.answered.ends_with(b"\0\0\0\x02\0\0\0\x01\0\0\0\0"), "{:x?}", client.answered);
        let mut client = Recorded::of(&[b"\0\0\0\x03", b"IHAVEOPT\0\0\0\x01\xff\0\0\0"]);
        assert!(serve_handshake(&mut client, "disk", 1).is_err(), "no option of 4 GiB is read");
        let mut client = Recorded::of(&[b"GET / HTTP/1.1\r\n\r\n"]);
        assert!(serve_handshake(&mut client, "disk", 1).is_err(), "no client of this protocol");
    }

    #[test]
    fn what_a_client_asks_for_is_what_a_server_answers() {
        let mut server = Recorded::of(&[b"NBDMAGICIHAVEOPT\0\x03", b"\0\0\0\0\0\x10\0\0\0\x0d"]);
        assert_eq!(ask_for(&mut server, "disk").expect("a sound server"), (1 << 20, EXPORT_FLAGS));
        assert_eq!(server.answered, [b"\0\0\0\x03".as_slice(), EXPORT_DISK].concat());
        let mut old = Recorded::of(&[b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\0"]);
        assert!(ask_for(&mut old, "disk").expect_err("oldstyle").to_string().contains("with options"));
    }

    #[test]
    fn requests_and_replies_are_laid_out_as_the_protocol_has_them() {
        let bytes = b"\x25\x60\x95\x13\0\x01\0\x01cookie!!\0\0\0\0\0\0\x20\0\0\0\x10\0";
        let request = Request::read(&mut &bytes[..]).expect("a request").expect("one");
        let cookie = u64::from_be_bytes(*b"cookie!!");
        assert_eq!(request, Request { command: Command::Write, durable: true, cookie, offset: 8192, length: 4096 });
        assert_eq!(&reply(22, cookie), b"\x67\x44\x66\x98\0\0\0\x16cookie!!");
        assert_eq!(Request::read(&mut &b""[..]).expect("the end"), None);
        let refused = |bytes: &[u8]| Request::read(&mut &*bytes).expect_err("no request").to_string();
        assert_eq!(refused(&[0; 28]), "0x0 where a request begins with 0x25609513");
        assert_eq!(refused(&bytes[..27]), "the client ended in the middle of a request");
        assert!(skip(&mut &bytes[..], 28).is_ok() && skip(&mut &bytes[..], 29).is_err());
    }
}
