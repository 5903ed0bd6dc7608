//! A database in an emulated guest.

use crate::common::bench::{Bench, text};
use crate::common::databases::{left, study};
use crate::common::qemu;
use crate::common::tiers::have;

/// Linux in a guest is observed as this machine is: each row of the guest's table has a value, or the reason why there is none.
#[test]
#[ignore = "soak: an emulated processor loads order-entry"]
fn soak_order_entry_in_a_guest_fills_the_guests_table() {
    let kernel = qemu::fetched();
    if !have(&["qemu-system-x86_64"]) {
        return;
    }
    if !kernel.join("vmlinuz").exists() {
        eprintln!("skipped: no kernel for guests; run scripts/fetch-kernel");
        return;
    }
    let bench = Bench::new();
    let study = study(&bench, "kind = \"order-entry\"\nconnections = 2").replace("300 ms", "2 s");
    let study = study.replace("least_blocks = 4\nmost_blocks = 4", "least_blocks = 1\nmost_blocks = 1");
    let places = format!(
        "[factors]\nenvironment = [\"native\", \"qemu\"]\nranks = 1\n\
         [environments.qemu]\naccel = \"tcg\"\nmemory = \"1536 MiB\"\nkernel = {:?}\nstart_limit = \"2 min\"\n",
        kernel.canonicalize().unwrap()
    );
    bench.write("study.toml", study + &places);
    let output = bench.run(&["run", "study.toml"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let tables = text(&bench.run(&["report", "--tables", "d1"]).stdout);
    let (_, guest) = tables.split_once("System activity in the guest").unwrap_or_else(|| panic!("{tables}"));
    let (guest, _) = guest.split_once("Published, on other hardware").unwrap();
    let row = |label: &str| guest.lines().find_map(|line| line.trim().strip_prefix(label)).unwrap().trim();
    for label in ["interrupts/s", "context switches/s", "load average"] {
        let value = row(label).trim_end_matches(['K', 'M']).parse::<f64>();
        assert!(value.is_ok_and(|value| value > 0.0), "{label}: {guest}");
    }
    // Its data are in its memory.
    assert_eq!(row("disk IOPS"), "not available here [1]");
    assert!(guest.contains("[1]  not available here: qemu has no disk of its own"), "{guest}");
    eprint!("{guest}");
    assert_eq!(left(&bench), [""; 0]);
    assert_eq!(qemu::left(), [""; 0]);
}
