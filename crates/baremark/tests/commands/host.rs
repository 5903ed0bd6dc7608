//! Features of the host that this machine lacks.

use crate::common::bench::{Bench, text};
use crate::common::host::STUDY;

#[test]
fn what_this_machine_lacks_is_absent_with_its_reason() {
    let bench = Bench::new();
    let study = STUDY.replace("\"host.swappiness\" = [11, 12]", "\"host.governor\" = [\"userspace\"]");
    bench.write("governor.toml", study.split("[report]").next().unwrap());
    let plan = bench.run(&["plan", "governor.toml"]);
    let said = text(&plan.stdout) + &text(&plan.stderr);
    // A machine with that governor plans it; on others nothing can run.
    let planned = plan.status.success();
    assert!(planned || (plan.status.code() == Some(3) && said.contains("host.governor = userspace: ")), "{said}");
}
