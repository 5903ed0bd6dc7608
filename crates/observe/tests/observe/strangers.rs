//! Whatever a file says, an observer neither panics nor invents growth.

use crate::machines::Machine;
use baremark_model::observer::{ObserveSpec, Readings};
use baremark_model::units::Nanos;
use baremark_observe::recorder::Recorder;
use proptest::prelude::*;
use std::fs;

const FILES: &[(&str, &str)] = &[
    ("cpu", "proc/stat"),
    ("kernel", "proc/stat"),
    ("kernel", "proc/loadavg"),
    ("interrupts", "proc/interrupts"),
    ("interrupts", "proc/softirqs"),
    ("disk", "proc/diskstats"),
    ("network", "proc/net/dev"),
    ("memory", "proc/meminfo"),
    ("paging", "proc/vmstat"),
    ("numa", "sys/devices/system/node/node0/numastat"),
    ("pressure", "proc/pressure/cpu"),
];

fn reads(machine: &Machine, name: &str) {
    let mut observer = baremark_observe::observer(baremark_observe::LIST, name, &machine.root()).unwrap();
    if observer.start().is_ok() {
        drop(observer.read(&mut Readings::default()));
    }
    let which = vec![name.to_owned()];
    let recorder = Recorder::start(&ObserveSpec { interval: Nanos(1), which, per_cpu: true }, &machine.root());
    drop(recorder.finish());
}

#[test]
fn files_cut_anywhere_are_read_as_far_as_they_go() {
    let machine = Machine::new(3, 1);
    for (name, file) in FILES {
        let whole = fs::read(machine.path(file)).unwrap();
        for length in (0..whole.len().min(400)).step_by(3).chain([whole.len() - 1]) {
            fs::write(machine.path(file), &whole[..length]).unwrap();
            reads(&machine, name);
        }
        fs::write(machine.path(file), &whole).unwrap();
    }
}

#[test]
fn a_truncated_second_reading_never_shows_more_than_happened() {
    let mut machine = Machine::new(3, 1);
    for (name, file) in FILES {
        let which = vec![(*name).to_owned()];
        let length = fs::read(machine.path(file)).unwrap().len();
        for cut in (0..length.min(300)).step_by(29) {
            let spec = ObserveSpec { interval: Nanos(1 << 60), which: which.clone(), per_cpu: false };
            let recorder = Recorder::start(&spec, &machine.root());
            machine.go_on();
            let text = fs::read(machine.path(file)).unwrap();
            fs::write(machine.path(file), &text[..cut.min(text.len())]).unwrap();
            let seen = recorder.finish();
            for (key, value) in &seen.whole {
                assert!(value.is_finite() && *value >= 0.0, "{key} = {value} of {file} cut at {cut}");
            }
            machine.tell();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_any_kind_are_survived(file in 0..FILES.len(), bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let machine = Machine::new(2, 1);
        let (name, file) = FILES[file];
        fs::write(machine.path(file), &bytes).unwrap();
        reads(&machine, name);
    }

    #[test]
    fn words_in_any_order_are_survived(
        file in 0..FILES.len(),
        words in proptest::collection::vec("(cpu[0-9]{0,3}|CPU0|[0-9]{1,22}|-1|TLB:|eth0:|vda|vda1|254|:|\\||total=|total=9|some|\n|\t|é)", 0..120),
    ) {
        let machine = Machine::new(2, 1);
        let (name, file) = FILES[file];
        fs::write(machine.path(file), words.join(" ")).unwrap();
        reads(&machine, name);
    }
}
