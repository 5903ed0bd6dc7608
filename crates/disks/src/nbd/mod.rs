//! Network block devices: a second copy of a disk, served by the NBD protocol, and the client's part of the handshake.

pub(crate) mod client;
mod replica;
mod wire;

pub use replica::Replica;
