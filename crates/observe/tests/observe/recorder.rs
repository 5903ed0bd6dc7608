//! What recorders make of machines that change under them.

use crate::machines::Machine;
use baremark_model::observation::{Observation, Values};
use baremark_model::observer::{Absence, OBSERVERS, ObserveSpec, Observer, Readings};
use baremark_model::quantity::{Growth, Quantity};
use baremark_model::units::Nanos;
use baremark_model::view;
use baremark_observe::recorder::Recorder;
use baremark_observe::{LIST, Row};
use baremark_sys::clock;
use std::fs;
use std::thread;
use std::time::Duration;

fn spec(which: &[&str]) -> ObserveSpec {
    let which = which.iter().map(|&name| name.to_owned()).collect();
    ObserveSpec { interval: Nanos(3_600_000_000_000), which, per_cpu: false }
}

fn files() -> Vec<&'static str> {
    OBSERVERS
        .iter()
        .copied()
        .filter(|name| !["kvm", "counters", "io-histograms", "net-stats", "lost"].contains(name))
        .collect()
}

/// What is observed of a machine while `change` changes it.
fn observed(machine: &mut Machine, which: &[&str], change: impl FnOnce(&mut Machine, &mut Recorder)) -> Observation {
    let mut recorder = Recorder::start(&spec(which), &machine.root());
    change(machine, &mut recorder);
    recorder.finish()
}

#[track_caller]
fn value(values: &Values, key: &str) -> f64 {
    *values.get(key).unwrap_or_else(|| panic!("no {key} in {:?}", values.keys()))
}

#[test]
fn totals_of_a_large_machine_are_what_its_counters_grew_by() {
    let mut machine = Machine::new(512, 8);
    let seen = observed(&mut machine, &files(), |machine, _| machine.go_on());
    let whole = &seen.whole;
    assert_eq!(seen.absent, []);
    assert_eq!(value(whole, "cpu.user"), 512.0 * 0.3, "in seconds");
    assert_eq!(value(whole, "cpu.steal:511"), 0.07);
    assert_eq!((value(whole, "cpu.guest:0"), value(whole, "cpu.guest")), (0.1, 51.2));
    assert_eq!(value(whole, "cpu.online"), 512.0);
    assert_eq!(value(whole, "kernel.interrupts"), 327_000.0);
    assert_eq!(value(whole, "kernel.context_switches"), 287_000.0);
    assert_eq!(value(whole, "kernel.load1"), 231.07);
    assert_eq!(value(whole, "interrupts.source:24 mlx5_comp3@pci:0000:17:00.0"), 512.0);
    assert_eq!(value(whole, "tlb.shootdowns"), 1024.0);
    assert!(!whole.contains_key("interrupts.source:NMI"), "none happened");
    assert_eq!(value(whole, "disk.reads"), 20.0, "two disks; what lies on them is not counted twice");
    assert_eq!(value(whole, "disk.read_bytes:dm-0"), 80.0 * 512.0);
    assert!(!whole.keys().any(|key| key.ends_with(":vda1")), "a partition is part of its device");
    assert_eq!(value(whole, "net.receive_bytes"), 1500.0, "neither loopback nor bridge");
    assert_eq!(value(whole, "net.transmit_packets:br0"), 2.0);
    assert_eq!(value(whole, "memory.total"), 498_073_600.0 * 1024.0);
    assert_eq!(value(whole, "vm.thp_fault_alloc"), 2.0);
    assert_eq!(value(whole, "vm.allocstall"), 0.0, "there, and nothing happened");
    assert_eq!(value(whole, "numa.local_node"), 24.0);
    assert_eq!(value(whole, "pressure.cpu_some"), 0.001);
}

#[test]
fn views_of_a_large_machine_are_what_they_say() {
    let mut machine = Machine::new(512, 8);
    let seen = observed(&mut machine, &files(), |machine, _| machine.go_on());
    let view = |key: &str| view::of_machine(key, &seen.whole, 2.0).unwrap_or_else(|| panic!("no {key}"));
    assert_eq!((view("net.receive_packet_bytes"), view("net.transmit_packet_bytes")), (1500.0, 300.0));
    assert_eq!((view("tlb.shootdowns"), view("kernel.context_switches")), (512.0, 143_500.0));
    assert_eq!((view("numa.local_share"), view("pressure.io")), (75.0, 0.05));
    assert_eq!((view("disk.iops"), view("disk.latency")), (15.0, 140.0 / 30.0), "10 reads and 5 writes of each of two");
    assert!((view("cpu.steal_share") - 7.0).abs() < 1e-9, "of user, nice, system, idle, iowait, interrupts and steal");
    assert_eq!(view::of_machine("kvm.exits", &seen.whole, 2.0), None, "what was not read has no view");
}

#[test]
fn kvm_tells_exits_and_page_tables_of_all_machines_together() {
    let mut machine = Machine::new(2, 1);
    let tell = |machine: &Machine, exits: u64, pages: u64| {
        let file = |name: &str, text: &str| machine.write(&format!("sys/kernel/debug/kvm/{name}"), text);
        file("exits", &format!("{exits}\n"));
        file("tlb_flush", &format!("{}\n", exits / 10));
        file("pages_2m", &format!("{pages}\n"));
        // What is there alongside: one machine's own, which is in the sums, and what is not a number.
        file("4242-11/exits", "999999\n");
        file("halt_wait_hist", "3 1 4 1 5\n");
    };
    tell(&machine, 1000, 7);
    let seen = observed(&mut machine, &["kvm"], |machine, _| tell(machine, 5000, 9));
    assert_eq!(seen.absent, []);
    let whole = &seen.whole;
    assert_eq!((value(whole, "kvm.event:exits"), value(whole, "kvm.event:tlb_flush")), (4000.0, 400.0));
    assert_eq!(value(whole, "kvm.level:pages_2m"), 8.0, "what it stood at, on the average");
    assert_eq!(whole.len(), 3, "{whole:?}");
    assert_eq!(view::of_machine("kvm.exits", whole, 2.0), Some(2000.0));
}

#[test]
fn a_counter_of_32_bits_may_wrap() {
    let mut machine = Machine::new(2, 1);
    machine.beat = u64::from(u32::MAX) / 50;
    machine.tell();
    let seen = observed(&mut machine, &["disk"], |machine, _| {
        machine.go_on();
        machine.go_on();
    });
    assert_eq!(value(&seen.whole, "disk.write_time:vda"), 0.1, "two times 50 ms, across the wrap");
    assert_eq!(seen.notes, [""; 0]);
}

#[test]
fn a_cpu_that_goes_and_one_that_comes_are_told() {
    let mut machine = Machine::new(4, 1);
    let seen = observed(&mut machine, &["cpu", "interrupts"], |machine, recorder| {
        machine.go_on();
        recorder.lap();
        machine.cpus = vec![0, 1, 2, 7];
        machine.go_on();
        recorder.lap();
        machine.go_on();
    });
    assert_eq!(value(&seen.whole, "cpu.user:0"), 0.9);
    assert!((value(&seen.whole, "cpu.user:3") - 0.3).abs() < 1e-9, "until it went");
    assert!((value(&seen.whole, "cpu.user:7") - 0.3).abs() < 1e-9, "since it came");
    assert_eq!(
        seen.notes,
        [
            "cpu 7 appeared during observation; its earlier activity is not counted",
            "cpu 3 disappeared during observation; its activity until then is counted"
        ]
    );
}

#[test]
fn a_sum_over_cpus_of_which_one_goes_loses_one_step_and_no_more() {
    let mut machine = Machine::new(4, 1);
    let seen = observed(&mut machine, &["interrupts"], |machine, recorder| {
        machine.cpus.pop();
        machine.go_on();
        recorder.lap();
        machine.go_on();
    });
    assert_eq!(value(&seen.whole, "tlb.shootdowns"), 6.0, "the second step of three CPUs");
    assert!(
        seen.notes.contains(&"tlb.shootdowns: a counter went back; that step is not counted".to_owned()),
        "{seen:?}"
    );
}

#[test]
fn a_device_that_disappears_keeps_what_it_did_and_fails_nothing() {
    let mut machine = Machine::new(2, 2);
    let seen = observed(&mut machine, &["disk", "network", "numa"], |machine, recorder| {
        machine.go_on();
        recorder.lap();
        let without = |name: &str, gone: &str| {
            let text = fs::read_to_string(machine.path(name)).unwrap();
            let kept: Vec<&str> = text.lines().filter(|line| !line.contains(gone)).collect();
            machine.write(name, &format!("{}\n", kept.join("\n")));
        };
        without("proc/diskstats", "nvme0n1");
        without("proc/net/dev", "eth0");
        recorder.lap();
    });
    assert_eq!(value(&seen.whole, "disk.reads"), 20.0);
    assert_eq!(value(&seen.whole, "disk.reads:nvme0n1"), 10.0);
    assert_eq!(seen.absent, []);
    assert_eq!(seen.notes.len(), 2, "{:?}", seen.notes);
}

#[test]
fn a_file_that_turns_to_nonsense_makes_its_observer_absent_from_then_on() {
    let mut machine = Machine::new(2, 1);
    let seen = observed(&mut machine, &["cpu", "kernel"], |machine, recorder| {
        machine.go_on();
        recorder.lap();
        machine.write("proc/stat", "out of order\n");
        recorder.lap();
        machine.go_on();
        recorder.lap();
    });
    let absent: Vec<String> = seen.absent.iter().map(ToString::to_string).collect();
    let expected =
        ["cpu", "kernel"].map(|name| format!("{name} is absent: /proc/stat has nothing that is known to us"));
    assert_eq!(absent, expected);
    assert_eq!(value(&seen.whole, "cpu.user"), 0.6, "what it gave before stays");
}

#[test]
fn phases_are_told_apart_by_arm_and_what_lies_between_is_neithers() {
    let mut machine = Machine::new(2, 1);
    let seen = observed(&mut machine, &["cpu", "disk", "interrupts"], |machine, recorder| {
        machine.go_on();
        recorder.begin_phases();
        for (arm, beats) in [(0, 1), (1, 5), (1, 5), (0, 1)] {
            for _ in 0..beats {
                machine.go_on();
            }
            recorder.phase_done(arm, 1);
        }
        machine.go_on();
    });
    assert_eq!(value(&seen.whole, "disk.reads"), 280.0);
    let [first, second] = seen.arms.as_slice() else { panic!("{:?}", seen.arms) };
    assert_eq!((first.phases, second.phases), (2, 2));
    assert_eq!(value(&first.values, "disk.reads:vda"), 20.0);
    assert_eq!(value(&second.values, "disk.reads:vda"), 100.0);
    assert!((value(&second.values, "cpu.user") - 6.0).abs() < 1e-9);
    assert!(!second.values.contains_key("cpu.user:0"), "single CPUs are told of whole trials");
    assert!(!second.values.contains_key("tlb.shootdowns"), "too dear to be read between phases");
}

static TURNS: Quantity =
    Quantity { key: "toy.turns", unit: "turns", scale: 1.0, growth: Growth::Counter, per_cpu: false, help: "turns" };

/// Turns ten times at each reading, which costs too little for it to be left out of any point.
struct Toy(u64);

impl Observer for Toy {
    fn start(&mut self) -> Result<(), Absence> {
        Ok(())
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        self.0 += 10;
        into.whole(&TURNS, self.0);
        Ok(())
    }
}

/// The same, and takes a millisecond of a CPU for it.
struct Dear(Toy);

impl Observer for Dear {
    fn start(&mut self) -> Result<(), Absence> {
        Ok(())
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let begun = clock::thread_cpu_ns();
        while clock::thread_cpu_ns() - begun < 1_000_000 {}
        self.0.read(into)
    }
}

#[test]
fn of_short_phases_whole_quads_are_left_out_and_belong_to_no_arm() {
    let list: &[Row] = &[("dear", |_| Box::new(Dear(Toy(0))))];
    let spec = ObserveSpec { interval: Nanos(3_600_000_000_000), ..spec(&["dear"]) };
    let mut recorder = Recorder::start_of(list, &spec, &Machine::new(2, 1).root());
    recorder.begin_phases();
    for quad in 0..60 {
        for arm in if quad % 2 == 0 { [0, 1, 1, 0] } else { [1, 0, 0, 1] } {
            recorder.phase_done(arm, 1);
        }
    }
    let seen = recorder.finish();
    let [first, second] = seen.arms.as_slice() else { panic!("{:?}", seen.arms) };
    assert_eq!(first.phases, second.phases, "both arms have the same part of each quad");
    // All would be 120.
    assert!(first.phases >= 2 && first.phases % 2 == 0 && first.phases < 120, "{}", first.phases);
    for arm in [first, second] {
        assert_eq!(value(&arm.values, "toy.turns"), 10.0 * f64::from(arm.phases), "one reading ends each phase");
    }
    assert_eq!(value(&seen.whole, "toy.turns"), 10.0 * f64::from(u32::try_from(seen.cost.readings).unwrap() - 1));
}

#[test]
fn points_come_with_the_interval_and_hold_rates() {
    let list: &[Row] = &[("toy", |_| Box::new(Toy(0)))];
    let mut machine = Machine::new(2, 1);
    let spec = ObserveSpec { interval: Nanos(100_000_000), ..spec(&["toy"]) };
    let mut recorder = Recorder::start_of(list, &spec, &machine.root());
    // A reading in which the machine stood still for a while is too dear for so short an interval, and the next points do without.
    while recorder.cost().readings < 4 {
        thread::sleep(Duration::from_millis(110));
        recorder.point();
        recorder.point();
    }
    let seen = recorder.finish();
    let points: Vec<(f64, f64)> = {
        let rates = &seen.series.values["toy.turns"];
        assert_eq!(seen.series.at_s.len(), rates.len());
        seen.series.at_s.iter().copied().zip(rates).filter_map(|(at_s, rate)| Some((at_s, (*rate)?))).collect()
    };
    // One for each point that has a value, one at the start, and one at the end where that is no point.
    let readings = usize::try_from(seen.cost.readings).unwrap();
    let is_point_at_end = readings == points.len() + 1;
    assert!(is_point_at_end || readings == points.len() + 2, "{readings} readings, {points:?}");
    assert_eq!(value(&seen.whole, "toy.turns"), 10.0 * (readings - 1) as f64);
    let mut until_s = 0.0;
    for (index, (at_s, rate)) in points.iter().enumerate() {
        // Ten turns in this time, which the first five digits of the rate give.
        let took_s = 10.0 / rate;
        until_s += took_s;
        let least_s = if is_point_at_end && index + 1 == points.len() { 0.05 } else { 0.1 };
        assert!(took_s >= least_s * 0.999 && until_s <= at_s * 1.001, "{index}: {points:?}");
    }
    assert!(seen.cost.cpu_ns > 0, "{:?}", seen.cost);
    let spec = ObserveSpec { which: vec!["cpu".to_owned()], ..spec };
    let mut recorder = Recorder::start_of(LIST, &spec, &machine.root());
    thread::sleep(Duration::from_millis(110));
    machine.go_on();
    recorder.point();
    assert!(!recorder.finish().series.values.contains_key("cpu.user:0"), "unless asked for");
}
