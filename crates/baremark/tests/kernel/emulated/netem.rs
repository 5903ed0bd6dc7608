//! Links that netem delays: as far apart as requested, as are those that this program delays, and gone with their namespaces.

use super::stock_guest::{StockGuest, is_inside};
use crate::bench::{Bench, text};
use crate::consolidation::{command, records};
use crate::nodes::round_trip;
use std::path::{Path, PathBuf};

/// Boots the guest, which has netem as a module.
#[test]
#[ignore = "soak"]
fn soak_links_that_netem_delays_in_a_guest() {
    let guest = StockGuest {
        modules: &["drivers/net/veth.ko", "drivers/net/tun.ko", "net/bridge", "net/llc", "net/802", "net/sched"],
        programs: &[(Path::new(env!("CARGO_BIN_EXE_baremark")), env!("CARGO_BIN_EXE_baremark"))],
        prepare: "modprobe bridge\nmodprobe veth\nmodprobe tun\nmkdir -p /dev/net",
        tests: "emulated::netem::in_the_guest nodes::a_program_starts nodes::nothing_is_left_of_nodes",
        disk_bytes: 0,
    };
    let Some(shown) = guest.run() else { return };
    let passed = shown.lines().find(|line| line.starts_with("test result: ok. ")).unwrap();
    assert!(passed.starts_with("test result: ok. 3 passed;"), "{shown}");
}

#[test]
#[ignore = "runs inside the guest of a soak test"]
fn in_the_guest_netem_holds_packets_for_the_requested_time() {
    if !is_inside() {
        return;
    }
    let bench = Bench::new();
    let measured = |by: &str, more: &[&str]| {
        let output = command(&bench, &[&["nodes", "--delay-by", by], more, &["--", "true"]].concat()).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        println!("guest: {by} {}: {}", more.join(" "), said.trim());
        round_trip(&said)
    };
    for by in ["netem", "program"] {
        let near = measured(by, &[]);
        for requested in [2000.0, 10_000.0] {
            let far = measured(by, &["--round-trip", &format!("{requested}us")]);
            // Never less, but for what is taken off for late timers; more by what an emulated CPU takes to serve them. A wrong unit of netem's times
            // would be off by 64 or 1000.
            let least = if by == "netem" { requested } else { 0.8 * requested };
            assert!(far >= least && far - near < 3.0 * requested + 20_000.0, "{by}: {far} us, {near} us without");
        }
        let drawn = measured(by, &["--round-trip", "20ms", "--jitter", "5ms"]);
        assert!(drawn > 10_000.0 && drawn < 100_000.0, "{by}: {drawn} us");
    }
    assert_eq!(records(&bench), Vec::<PathBuf>::new(), "everything is undone");
}
