//! A new observer: one file and one line of a list, and the recorder does the rest.

use crate::machines::Machine;
use baremark_model::observer::{Absence, OBSERVERS, ObserveSpec, Observer, Readings};
use baremark_model::quantity::{Growth, Quantity};
use baremark_model::units::Nanos;
use baremark_observe::recorder::Recorder;
use baremark_observe::{LIST, Root, Row};

/// The line of it.
const TOYS: &[Row] = &[("toy", |_| Box::new(Toy { turns: 40 }))];

static TURNS: Quantity = Quantity {
    key: "toy.turns",
    unit: "turns",
    scale: 0.5,
    growth: Growth::Counter,
    per_cpu: false,
    help: "half turns",
};

/// Turns twice at each reading.
struct Toy {
    turns: u64,
}

impl Observer for Toy {
    fn start(&mut self) -> Result<(), Absence> {
        Ok(())
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        self.turns += 2;
        into.whole(&TURNS, self.turns);
        Ok(())
    }
}

#[test]
fn an_observer_is_recorded_by_its_line_of_the_list() {
    let machine = Machine::new(2, 1);
    let root: Root = machine.root();
    let which = ["toy", "cpu"].map(str::to_owned).to_vec();
    let spec = ObserveSpec { interval: Nanos(3_600_000_000_000), which, per_cpu: false };
    let mut recorder = Recorder::start_of(TOYS, &spec, &root);
    recorder.begin_phases();
    recorder.phase_done(0, 1);
    recorder.phase_done(1, 1);
    let seen = recorder.finish();
    // Five readings, of which each after the first adds two half turns.
    assert_eq!(seen.whole.get("toy.turns"), Some(&4.0), "{:?}", seen.whole);
    assert_eq!(seen.arms.iter().map(|arm| arm.values["toy.turns"]).collect::<Vec<_>>(), [1.0, 1.0]);
    let absent: Vec<&str> = seen.absent.iter().map(|absence| absence.observer.as_str()).collect();
    assert_eq!(absent, ["cpu"], "it is not in this list");
}

#[test]
fn studies_can_name_just_the_observers_that_there_are() {
    let names: Vec<&str> = LIST.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, OBSERVERS);
}
