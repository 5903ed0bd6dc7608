//! What kernels may lack, this machine's among them, in an emulated guest that has it: control groups of version 2 alone, device-mapper, NBD, netem.
//! `make soak` starts these tests; each boots a guest in which this program runs its own tests again.

#[path = "emulated/control_groups.rs"]
mod control_groups;
#[path = "emulated/layouts.rs"]
mod layouts;
#[path = "emulated/mirrors.rs"]
mod mirrors;
#[path = "emulated/netem.rs"]
mod netem;
#[path = "emulated/stock_guest.rs"]
mod stock_guest;
