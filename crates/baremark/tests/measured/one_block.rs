//! Studies of kernels and micro-VMs to their first block.

use crate::common::bench::kvm;
use crate::common::one_block::one_block;

#[test]
#[ignore = "soak: wants a machine on which nobody else's work makes the host move pages, which voids trials"]
fn studies_of_kernels_and_micro_vms_run_to_their_first_block() {
    if !kvm() {
        return;
    }
    let small = |text| (text, "\"16 MiB\"");
    one_block("stream", &[]);
    one_block("star-random-access", &[small("\"256 MiB\"")]);
    one_block("hpl", &[("n = 3000", "n = 500")]);
    one_block("mmu-micro", &[(", \"256 MiB\"]", "]")]);
    one_block("page-walks", &[small("\"512 MiB\""), small("\"256 MiB\"")]);
    one_block("consolidation", &[]);
    one_block("monster-vms", &[small("\"256 MiB\"")]);
    one_block("hpl-40000", &[("n = 40000", "n = 500")]);
    one_block("numa", &[]);
    one_block("numa-threads", &[]);
}
