//! On which NUMA nodes memory lies: asking for nodes, and reading back what was got.
//!
//! A policy is set on memory that nobody has touched yet, since it decides where pages come from and moves none that are
//! there. What came of it is asked page by page: a policy that is in force says nothing of a page that was there before.

use crate::calls::checked;
use std::collections::BTreeMap;
use std::io;
use std::ptr;

/// Pages of one span that are asked at most; they are spread evenly over it.
pub const MOST_ASKED: usize = 4096;

const MPOL_BIND: libc::c_int = 2;
const MPOL_INTERLEAVE: libc::c_int = 3;
/// What move_pages(2) gives for a page that is not there.
const NOT_THERE: i32 = -libc::ENOENT;

/// Binds untouched memory to `nodes`: to the one, or page by page over several.
///
/// # Errors
/// `InvalidInput` for no node, else what `mbind(2)` gives; `ENOSYS` from a kernel without NUMA.
pub fn bind(start: u64, bytes: u64, nodes: &[usize]) -> io::Result<()> {
    let Some(&last) = nodes.iter().max() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "memory cannot be bound to no node"));
    };
    let mut mask = vec![0_u64; last / 64 + 1];
    nodes.iter().for_each(|&node| mask[node / 64] |= 1 << (node % 64));
    let mode = if nodes.len() == 1 { MPOL_BIND } else { MPOL_INTERLEAVE };
    // One more than the bits: the kernel takes the count as exclusive.
    let bits = 64 * mask.len() + 1;
    // SAFETY: mbind changes the policy of the pages named, never their contents, and reads `bits - 1` bits of `mask`, which
    // has as many and lives through the call.
    checked(unsafe { libc::syscall(libc::SYS_mbind, start, bytes, mode, mask.as_ptr(), bits, 0) }).map(drop)
}

/// Whether binding was refused whatever the nodes: by a kernel without NUMA, or by a filter of system calls, as docker and podman have it.
#[must_use]
pub fn is_unsupported(why: &io::Error) -> bool {
    [Some(libc::ENOSYS), Some(libc::EPERM)].contains(&why.raw_os_error())
}

/// How many of the 4 KiB pages requested lie on each node. Every page is asked, or [`MOST_ASKED`] of them where there are
/// more; pages that are not in memory are on none.
///
/// # Errors
/// What `move_pages(2)` gives; `ENOSYS` from a kernel without NUMA.
pub fn nodes_of(start: u64, bytes: u64) -> io::Result<BTreeMap<u64, u64>> {
    const PAGE: u64 = 4096;
    let pages = bytes.div_ceil(PAGE);
    let asked = pages.min(MOST_ASKED as u64);
    let addresses: Vec<u64> = (0..asked).map(|index| start + index * pages / asked * PAGE).collect();
    let mut status = vec![NOT_THERE; addresses.len()];
    let nowhere: *const i32 = ptr::null();
    // SAFETY: without a list of nodes move_pages moves nothing; it reads `addresses` and writes `status`, both as long as
    // the count that is passed.
    checked(unsafe {
        libc::syscall(libc::SYS_move_pages, 0, addresses.len(), addresses.as_ptr(), nowhere, status.as_mut_ptr(), 0)
    })?;
    let mut counts = BTreeMap::new();
    for node in status.into_iter().filter_map(|node| u64::try_from(node).ok()) {
        *counts.entry(node).or_default() += 1;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Map;
    use crate::topology;
    use baremark_model::arm::Frames;
    use baremark_model::page_size::PageSize;

    #[test]
    #[expect(clippy::print_stdout, reason = "a skip is counted")]
    fn memory_bound_to_a_node_is_read_back_on_it() {
        let node = topology::this().expect("affinity").memory_nodes[0];
        let map = Map::reserve(&[4 << 20], PageSize::Small, Frames::AsGiven).expect("4 MiB");
        match bind(map.address(), map.bytes(), &[node]) {
            Err(why) if is_unsupported(&why) => return println!("skipped: mbind(2): {why}"),
            bound => bound.expect("a node of this machine"),
        }
        assert_eq!(nodes_of(map.address(), map.bytes()).expect("readable"), BTreeMap::new(), "nobody has touched it");
        map.touch(std::slice::from_ref(&(0..map.bytes())), 1);
        let seen = nodes_of(map.address(), map.bytes()).expect("readable");
        assert_eq!(seen, BTreeMap::from([(node as u64, 1024)]));
    }

    #[test]
    fn nodes_that_are_not_there_are_refused() {
        let map = Map::reserve(&[2 << 20], PageSize::Small, Frames::AsGiven).expect("2 MiB");
        assert!(bind(map.address(), map.bytes(), &[]).is_err());
        assert!(bind(map.address(), map.bytes(), &[1000]).is_err(), "no machine of this test has that node");
    }
}
