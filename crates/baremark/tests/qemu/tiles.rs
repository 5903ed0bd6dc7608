//! Guests that are deployed, cloned and moved as members of a tile.

use crate::common::bench::{Bench, text};
use crate::common::consolidation::{command, ran, tile_with_guests};
use crate::common::qemu;
use crate::common::tiers::{all_gone, have, offspring};
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The folder of the kernel for guests; nothing where there is none or no QEMU, with a line that is counted.
fn kernel() -> Option<PathBuf> {
    if !have(&["qemu-system-x86_64"]) {
        return None;
    }
    if !qemu::fetched().join("vmlinuz").exists() {
        eprintln!("skipped: no kernel for guests; run scripts/fetch-kernel");
        return None;
    }
    Some(qemu::fetched().canonicalize().unwrap())
}

#[test]
fn guests_are_deployed_cloned_and_moved_as_members_of_a_tile() {
    let Some(kernel) = kernel() else { return };
    let bench = Bench::new();
    // Each limit needs a metric that its operation alone has, and no more.
    let operations = [
        ("deploy", "operation_s < 300"),
        ("clone", "silent_ms < 300000"),
        ("migrate", "down_ms < 300000"),
        ("migrate-storage", "silent_ms < 300000"),
    ];
    bench.write("tile.toml", tile_with_guests(&kernel, &operations));
    let (result, output) = ran(&bench, "tile.toml");
    let said = text(&output.stderr);
    let document = &result["details"][0]["document"];
    let level = &document["levels"][0];
    assert!((level["score"].as_f64().unwrap_or(0.0) - 1.0).abs() < 1e-9, "of one tile: {result:#}\n{said}");
    for (operation, _) in operations {
        let members = level["members"].as_array().unwrap();
        let member = members.iter().find(|member| member["name"] == operation).unwrap();
        assert!(member["throughput"].as_f64().is_some_and(|rate| rate > 1.0), "{member}");
        assert!(member["limited"].as_f64().is_some_and(|value| value > 0.0), "{member}");
    }
    assert_eq!(document["absent"], serde_json::json!([]), "{document:#}");
    assert!(format!("{said}{result}").contains("guests were emulated"), "{result:#}\n{said}");
}

/// While guests boot, and while one is moved.
#[test]
fn nothing_is_left_of_operations_on_guests_that_are_killed() {
    let Some(kernel) = kernel() else { return };
    for count in [1, 2] {
        let bench = Bench::new();
        let study = format!(
            "[study]\ntitle = \"guests\"\n[workload]\nkind = \"guest-operations\"\noperation = \"migrate\"\nguest_accel = \"tcg\"\n\
             guest_kernel = \"{}\"\nimage = \"8 MiB\"\nguest_memory = \"256 MiB\"\nduration = \"60 s\"\n\
             [factors]\nenvironment = \"native\"\nranks = 1\n\
             [design]\nquads = 0\nleast_blocks = 1\nmost_blocks = 1\nbudget = \"120 s\"\n",
            kernel.display()
        );
        bench.write("guests.toml", study);
        let mut run = command(&bench, &["run", "guests.toml"]);
        let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let emulators = || {
            let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            offspring(child.id()).iter().filter(|pid| name(pid).starts_with("qemu")).count()
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while emulators() < count {
            assert!(Instant::now() < deadline, "{count} emulators do not come");
            std::thread::sleep(Duration::from_millis(2));
        }
        let below = offspring(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        all_gone(&below);
    }
}
