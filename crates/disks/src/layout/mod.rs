//! LUNs on layers of this machine's kernel: groups of devices, one pool of all, or a single layer, over devices made of files; and
//! a disk whose writes wait for a second copy.

mod arrangement;
mod build;
mod file_system;
mod mapped;
mod mirror;
mod needs;

pub use arrangement::{Arrangement, LEAST_DEVICE, Layout};
pub use build::Built;
pub use mirror::{DiskCounts, Mirror};
pub use needs::missing;
