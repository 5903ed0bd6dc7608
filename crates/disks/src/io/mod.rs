//! System calls of the engine and of layouts: io_uring, aligned buffers, space, CPU time, loop devices, network block devices, device-mapper
//! and mounts. The crate's only unsafe code is here.

pub(crate) mod buffers;
pub(crate) mod calls;
pub(crate) mod detached;
pub(crate) mod loops;
pub(crate) mod mapper;
pub(crate) mod nbd;
pub(crate) mod ring;
