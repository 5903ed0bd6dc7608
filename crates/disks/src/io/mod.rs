//! System calls of the engine: io_uring, aligned buffers, space and CPU time. The crate's only unsafe code is here.

pub(crate) mod buffers;
pub(crate) mod calls;
pub(crate) mod ring;
