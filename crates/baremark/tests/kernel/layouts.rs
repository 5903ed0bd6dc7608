//! Studies of layouts of LUNs to their first block.

use crate::common::bench::root;
use crate::common::one_block::one_block;

/// Each layout of LUNs is made, loaded and taken down again, with as many devices as the study says and little on them.
#[test]
fn the_studies_of_layouts_run_to_their_first_block() {
    if !root() {
        return;
    }
    let little = [
        ("devices = 20", "devices = 12"),
        ("device_size = \"256 MiB\"", "device_size = \"128 MiB\"\npath = \"/var/tmp\""),
        ("[\"50 %\", \"100 %\"]", "[\"1 %\", \"2 %\"]"),
        ("warm_up = \"1 s\"", "warm_up = \"0 s\""),
        ("duration = \"3 s\"", "duration = \"100 ms\""),
    ];
    one_block("provision", &little);
    let little = [
        ("device_size = \"128 MiB\"", "device_size = \"128 MiB\"\npath = \"/var/tmp\""),
        ("\"50 %\"", "\"1 %\""),
        ("warm_up = \"200 ms\"", "warm_up = \"0 s\""),
        ("duration = \"1 s\"", "duration = \"100 ms\""),
    ];
    one_block("provision-layers", &little);
}
