//! System activity, as reports show it.

use crate::documents::{self, arm};
use baremark_model::document::{Document, TrialRow, UsedEnvironment};
use baremark_model::event::TrialStatus;
use baremark_model::observation::*;
use baremark_model::observer::Absence;
use baremark_model::plan::{Absent, Treatment};
use baremark_model::view;
use baremark_report::{Color, Style, csv, html, import, live, terminal};

const STYLE: Style = Style { width: 80, color: Color::Never, unicode: true };

fn row(treatment: &Treatment, place: &str, quantity: &str, instance: &str, value: f64) -> ObservedRow {
    let unit = view::find(quantity).map_or("1/s", |view| view.unit).to_owned();
    let half = value / 100.0;
    ObservedRow {
        treatment: treatment.clone(),
        place: place.to_owned(),
        quantity: quantity.to_owned(),
        instance: instance.to_owned(),
        unit,
        n: 20,
        value,
        lo: Some(value - half),
        hi: Some(value + half),
    }
}

/// A run natively and in a guest, both seen from the host and the guest from inside.
fn observed() -> Document {
    let mut document = documents::empty();
    document.run.machine.cpu.logical_cpus = Some(72);
    let (native, guest) = (arm("native", "4k"), arm("qemu", "4k"));
    document.estimates = vec![
        documents::estimate("gups", &native, 66_500.0, 300.0),
        documents::estimate("gups", &guest, 59_500.0, 300.0),
    ];
    document.ratios = vec![documents::ratio(&guest, &native, [0.895, 0.89, 0.9])];
    let host = [
        ("cpu.utilization", [84.7, 85.1]),
        ("disk.iops", [173_000.0, 155_000.0]),
        ("disk.mb_per_s", [929.0, 831.0]),
        ("net.receive_packets", [71_000.0, 63_000.0]),
        ("net.transmit_packets", [71_000.0, 64_000.0]),
        ("net.receive_mb_per_s", [15.0, 13.0]),
        ("net.transmit_mb_per_s", [36.0, 32.0]),
    ];
    let inside = [
        ("kernel.interrupts", 327_000.0),
        ("disk.iops", 155_000.0),
        ("kernel.context_switches", 287_000.0),
        ("kernel.load1", 231.0),
    ];
    let mut rows = Vec::new();
    for (quantity, [of_native, of_guest]) in host {
        rows.push(row(&native, THIS_MACHINE, quantity, "", of_native));
        rows.push(row(&guest, THIS_MACHINE, quantity, "", of_guest));
    }
    rows.extend(inside.map(|(quantity, value)| row(&guest, "qemu", quantity, "", value)));
    rows.push(row(&Treatment::new(), THIS_MACHINE, "interrupts.source", "36 <virtio>", 5.0));
    let line = |place: &str, scale: f64| ObservedSeries {
        place: place.to_owned(),
        quantity: "cpu.utilization".to_owned(),
        instance: String::new(),
        unit: "%".to_owned(),
        points: (0..60).map(|second| [f64::from(second), scale * f64::from(second % 7)]).collect(),
    };
    document.observed = Some(Observed {
        interval_ns: 1_000_000_000,
        rows,
        series: vec![line(THIS_MACHINE, 10.0), line("qemu", 5.0)],
        absent: vec![ObservedAbsence {
            place: THIS_MACHINE.to_owned(),
            absence: Absence::new("kvm", "there is no KVM here"),
        }],
        notes: vec!["disk vdb went while it was observed".to_owned()],
        cost: vec![ObservedCost {
            place: THIS_MACHINE.to_owned(),
            readings: 1200,
            share: 0.000_52,
            reading_ns: 48_000.0,
        }],
    });
    document
}

#[test]
fn a_short_table_stands_in_the_terminal() {
    let text = terminal::render(&observed(), &STYLE);
    let from = text.find("System activity").expect("the table");
    let to = text.find("\nRun\n").expect("provenance");
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    insta::assert_snapshot!(&text[from..to]);
}

/// Of 59 s in 406 units, with 6 % as a margin.
#[test]
fn trials_that_do_not_count_and_stalls_are_marked_in_every_figure() {
    let mut document = observed();
    let native = arm("native", "4k");
    let trial = |block: u64, status: TrialStatus, observed_s: [f64; 2]| {
        let row = documents::trial(block, 0, &[(&native, 66_500.0)], status);
        TrialRow { observed_s: Some(observed_s), ..row }
    };
    let discarded = TrialStatus::Void { reasons: vec!["the clock was set".to_owned()] };
    let flagged = TrialRow { flags: vec!["a gap".to_owned()], ..trial(1, TrialStatus::Ok, [30.0, 35.0]) };
    document.trials = vec![trial(0, discarded, [10.0, 20.0]), flagged, trial(2, TrialStatus::Ok, [40.0, 50.0])];
    let waited = |second: i32| if (40..=42).contains(&second) { 50.0 } else { 1.0 };
    document.observed.as_mut().expect("an observed run").series.push(ObservedSeries {
        place: THIS_MACHINE.to_owned(),
        quantity: "pressure.cpu".to_owned(),
        instance: String::new(),
        unit: "%".to_owned(),
        points: (0..60).map(|second| [f64::from(second), waited(second)]).collect(),
    });
    let page = html::render(&document);
    for shape in [
        r#"<rect class="discarded" x="145.2" y="28.0" width="61.4" height="130.0"/>"#,
        r#"<rect class="stall" x="323.4" y="154.0" width="18.4" height="4.0"/>"#,
    ] {
        assert_eq!(page.matches(shape).count(), 2, "of CPU utilization and of waiting: {shape}");
    }
    assert_eq!(page.matches("<rect class=\"doubtful\"").count(), 2);
    let caption = "; shaded: trials that do not count; grey: trials with a flag; bar at the bottom: for more than 10\u{a0}% of the time \
                   some task waited for a CPU, a disk or memory, or the hypervisor kept a CPU, here or where an arm ran";
    assert!(page.contains(caption), "{page}");

    // What is beyond the axis is neither drawn nor named, and what cannot be told apart is one.
    let far = |row: &TrialRow| TrialRow { observed_s: Some([5000.0, 5010.0]), ..row.clone() };
    let discarded = document.trials[0].clone();
    document.trials[1] = far(&document.trials[1]);
    let many = (0..400)
        .map(|n| TrialRow { observed_s: Some([10.0, 10.02].map(|at| at + f64::from(n) * 0.025)), ..discarded.clone() });
    document.trials = many.chain(document.trials[1..].iter().cloned()).collect();
    let page = html::render(&document);
    // From 10 to 19.995 s.
    let shape = r#"<rect class="discarded" x="145.2" y="28.0" width="61.4" height="130.0"/>"#;
    assert_eq!((page.matches(shape).count(), page.matches("<rect class=\"discarded\"").count()), (2, 2));
    assert!(!page.contains("class=\"doubtful\"") && !page.contains("grey: trials with a flag"));
}

/// Of many arms the short table reports what all of them saw, by place; members of one place are left to the page.
#[test]
fn a_short_table_of_many_arms_tells_of_places_and_of_no_members() {
    let mut document = observed();
    let rows = &mut document.observed.as_mut().expect("an observed run").rows;
    rows.clear();
    let guests = ["qemu", "qemu, 1 of 2", "qemu, 2 of 2", "container, 1 of 2"];
    for place in guests {
        for page in ["4k", "2m"] {
            rows.push(row(&arm("qemu", page), place, "cpu.utilization", "", 80.0));
        }
    }
    for place in guests.into_iter().chain([THIS_MACHINE]) {
        rows.push(row(&Treatment::new(), place, "cpu.utilization", "", 70.0));
    }
    let short = |document: &Document| {
        let text = terminal::render(document, &STYLE);
        let (from, to) = (text.find("System activity"), text.find("\nRun\n"));
        from.zip(to).map(|(from, to)| text[from..to].to_owned()).expect("the table")
    };
    let text = short(&document);
    assert!(text.contains("--html and --csv=observations have each arm"), "{text}");
    assert!(text.contains("all arms, qemu") && text.contains("all arms, this machine"), "{text}");
    assert!(!text.contains(" of 2") && !text.contains("80.0"), "{text}");
    // Where members are all that there is, they are told of.
    let rows = &mut document.observed.as_mut().expect("an observed run").rows;
    rows.retain(|row| row.place.contains(" of 2"));
    let text = short(&document);
    assert!(text.contains("qemu, 1 of 2") && text.contains("container, 1 of 2"), "{text}");
}

#[test]
fn the_two_tables_of_the_published_study() {
    insta::assert_snapshot!(terminal::order_entry(&observed(), &Style { width: 100, ..STYLE }));
}

#[test]
fn the_tables_say_what_a_run_does_not_have() {
    let text = terminal::order_entry(&documents::typical(), &STYLE);
    assert!(text.contains("This run was not observed"), "{text}");
    assert!(text.contains("no guest OS") && !text.contains("0.00"), "absence is never 0: {text}");
}

/// Whatever a run lacks, each cell of the two tables has a value or the number of a printed reason.
#[test]
fn the_tables_have_no_blank_without_a_reason() {
    let tables = |document: &Document| {
        let text = terminal::order_entry(document, &Style { width: 200, ..STYLE });
        let (ours, _) = text.split_once("Published, on other hardware").expect("the published tables");
        ours.to_owned()
    };
    let mut unobserved = observed();
    unobserved.observed = None;
    let text = tables(&unobserved);
    assert!(text.contains("[1]  not available here: the run was not observed"), "{text}");

    let mut partly = observed();
    let seen = partly.observed.as_mut().expect("an observed run");
    seen.rows.retain(|row| !row.quantity.starts_with("disk.") && row.quantity != "kernel.load1");
    seen.absent.push(ObservedAbsence {
        place: THIS_MACHINE.to_owned(),
        absence: Absence::new("disk", "/proc/diskstats: permission denied"),
    });
    let text = tables(&partly);
    for reason in [
        "this machine: /proc/diskstats: permission denied",
        "qemu has no disk of its own",
        "qemu did not report kernel.load1",
    ] {
        assert!(text.contains(&format!("not available here: {reason}")), "{reason}: {text}");
    }

    let mut unseen = observed();
    unseen.observed.as_mut().expect("an observed run").rows.retain(|row| row.place != "qemu");
    let guest = arm("qemu", "2m");
    unseen.absent = vec![Absent { treatment: guest, reason: "no huge pages; reserve 512".to_owned(), code: None }];
    let text = tables(&unseen);
    assert!(text.contains("qemu was not observed in a trial that counts"), "{text}");
    assert!(text.contains("qemu with 2m pages: no column: no huge pages; reserve 512"), "{text}");

    for document in [&unobserved, &partly, &unseen, &observed()] {
        let text = tables(document);
        assert!(!text.contains('–'), "a blank: {text}");
    }
}

/// Clients and servers of one machine talk over the loopback, which the sums over its interfaces leave out.
#[test]
fn the_loopback_has_rows_of_its_own_where_it_was_used() {
    let mut document = observed();
    let without = terminal::order_entry(&document, &STYLE);
    assert!(!without.contains("loopback packets/s"), "{without}");
    let seen = document.observed.as_mut().expect("an observed run");
    for place in ["native", "qemu"] {
        for (quantity, value) in [("net.receive_packets", 5000.0), ("net.transmit_packets", 5000.0)] {
            seen.rows.push(row(&arm(place, "4k"), THIS_MACHINE, quantity, "lo", value));
        }
    }
    let text = terminal::order_entry(&document, &Style { width: 120, ..STYLE });
    assert!(text.contains("loopback packets/s (receive / send)") && text.contains("5000 / 5000"), "{text}");
    assert!(!text.contains("loopback MB/s"), "what was not observed has no row: {text}");
}

/// What a container reads of its kernel is its machine's; what an emulated guest keeps is nothing that a virtual machine does.
#[test]
fn the_tables_tell_guests_from_containers_and_emulated_ones() {
    let place = |name: &str| {
        let mut document = observed();
        let treatments = document.estimates.iter_mut().map(|row| &mut row.treatment);
        let rows = document.observed.as_mut().expect("an observed run").rows.iter_mut();
        let rows = rows.map(|row| {
            row.place = row.place.replace("qemu", name);
            &mut row.treatment
        });
        let ratios = document.ratios.iter_mut().map(|row| &mut row.treatment);
        for treatment in treatments.chain(rows).chain(ratios) {
            treatment.values_mut().filter(|level| *level == "qemu").for_each(|level| name.clone_into(level));
        }
        document
    };
    let text = terminal::order_entry(&place("container"), &STYLE);
    assert!(
        !text.contains("System activity in the guest\n") && text.contains("container: its kernel is this machine's"),
        "{text}"
    );
    let mut named = place("tuned");
    let used = |name: &str, settings: &[(&str, &str)]| {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        UsedEnvironment { name: name.to_owned(), place: "qemu".to_owned(), settings, lacks: Vec::new() }
    };
    let tuned = used("tuned", &[("accel", "auto"), ("backing", "2m"), ("vcpus", "2")]);
    named.run.environments = vec![tuned.clone()];
    let (text, qemu) = (terminal::order_entry(&named, &STYLE), terminal::order_entry(&place("qemu"), &STYLE));
    let renamed = qemu.replace("qemu", "tuned");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&text), words(&renamed), "a guest under another name is one: {text}");
    let report = terminal::render(&named, &STYLE);
    assert!(report.contains("  tuned: qemu with backing = 2m, vcpus = 2."), "what is not a default: {report}");
    assert!(!report.contains("places "), "{report}");
    named.run.environments.insert(0, used("qemu", &[("accel", "auto"), ("backing", "as-is"), ("vcpus", "2")]));
    let report = terminal::render(&named, &STYLE);
    assert!(report.contains("  tuned: qemu with backing = 2m."), "what differs from the other: {report}");
    assert!(report.contains("  places      qemu: vcpus = 2\n"), "what the study set: {report}");
    let mut emulated = place("qemu");
    assert!(terminal::order_entry(&emulated, &STYLE).contains("59.5K (90 %)"));
    for row in &mut emulated.ratios {
        row.emulated = true;
    }
    let text = terminal::order_entry(&emulated, &STYLE);
    assert!(
        text.contains("59.5K") && !text.contains("(90 %)") && text.contains("An emulated machine exercises"),
        "{text}"
    );
}

#[test]
fn the_page_has_figures_and_everything_by_kind() {
    let page = html::render(&observed());
    for words in ["System activity", "<details><summary>Disks</summary>", "around-cpu-utilization", "course course-1"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(page.contains("36 &lt;virtio&gt;") && !page.contains("<virtio>"), "what others wrote is escaped");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

#[test]
fn lines_for_programs() {
    let text = csv::observations(&observed());
    assert!(text.starts_with("place,quantity,instance,unit,environment,page,"), "{text}");
    assert!(text.contains("qemu,kernel.load1,,,qemu,4k"), "{text}");
    let series = csv::series(&observed());
    assert_eq!(series.lines().count(), 1 + 120);
    assert!(series.contains("this machine,cpu.utilization,,%,3,30\r\n"), "{series}");
}

#[test]
fn the_live_screen() {
    let mut values = Values::new();
    for (state, seconds) in [("user", 3.0), ("system", 1.0), ("idle", 4.0), ("steal", 0.5)] {
        for (instance, share) in [("", 1.0), (":0", 0.75), (":1", 0.25)] {
            values.insert(format!("cpu.{state}{instance}"), seconds * share);
        }
    }
    for state in ["nice", "irq", "softirq", "iowait"] {
        values.insert(format!("cpu.{state}"), 0.0);
    }
    values.insert("kernel.context_switches".to_owned(), 12_345.0);
    values.insert("kernel.load1".to_owned(), 2.5);
    for (key, value) in [("reads", 100.0), ("writes", 50.0), ("read_bytes", 4e6), ("write_bytes", 2e6)] {
        values.insert(format!("disk.{key}"), value);
        values.insert(format!("disk.{key}:nvme0n1"), value);
    }
    values.insert("interrupts.source:LOC".to_owned(), 2000.0);
    let mut screen = live::Live::new("a machine\x1b[2J", "1 s");
    let absent = [Absence::new("kvm", "there is no KVM here")];
    screen.take(&values, 1.0, &absent, Some(0.000_52));
    screen.take(&values, 1.0, &absent, Some(0.000_52));
    let text = screen.render(&STYLE, 40);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    insta::assert_snapshot!(text);
    let narrow = screen.render(&Style { width: 40, unicode: false, ..STYLE }, 5);
    assert!(narrow.is_ascii() && narrow.lines().count() == 5, "{narrow}");
}

#[test]
fn what_was_imported_stands_by_itself() {
    let series = baremark_model::imported::ImportedSeries {
        quantity: "esxtop.Physical Cpu % Util Time".to_owned(),
        instance: "_Total".to_owned(),
        unit: "%".to_owned(),
        n: 3,
        mean: 41.0,
        min: 40.0,
        max: 42.0,
        points: Vec::new(),
    };
    let imported = baremark_model::imported::Imported {
        program: "esxtop".to_owned(),
        host: "esx1".to_owned(),
        file: "night.csv".to_owned(),
        rows: 3,
        began_unix_ns: 1_795_240_800_000_000_000,
        seconds: 10.0,
        series: vec![series],
        notes: vec!["row 5: 1 row of those that have no time".to_owned()],
    };
    insta::assert_snapshot!(import::render(&imported, &STYLE));
}
