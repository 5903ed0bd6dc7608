//! The client's part of an NBD connection before the kernel takes it over.

use super::wire;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long connecting and each answer of the handshake may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A connection to the export `name` of `bytes` at this address, with the export's flags.
///
/// # Errors
/// What sockets give, a server that speaks another protocol, or an export of another size.
pub(crate) fn connect(address: SocketAddr, name: &str, bytes: u64) -> io::Result<(TcpStream, u16)> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let (found, flags) = wire::ask_for(&mut stream, name)?;
    stream.set_read_timeout(None)?;
    if found == bytes {
        return Ok((stream, flags));
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("the export has {found} bytes in place of {bytes}")))
}
