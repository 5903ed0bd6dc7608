//! What kernels may lack, this machine's among them, in an emulated guest that has it: control groups of version 2 alone, device-mapper, NBD, netem.
//! `make soak` starts these tests; each boots a guest in which this program runs its own tests again.

mod control_groups;
mod layouts;
mod mirrors;
mod netem;
mod stock_guest;
