//! How many writes of devices a write of each layout takes.

use crate::devices::{NEVER, can_be_made, folder, small, wait_until_gone};
use crate::plans::plan;
use baremark_disks::access::Mix;
use baremark_disks::engine::{Engine, Plan, Stop, run_on_all};
use baremark_disks::layout::{Built, Layout};

#[test]
fn a_layout_with_parity_takes_more_writes_of_devices() {
    let folder = folder();
    for layout in Layout::WORDS.map(|word| Layout::from_word(word).unwrap()).into_iter().filter(|of| can_be_made(*of)) {
        let built = Built::new(&small(layout), folder.path(), &NEVER).unwrap();
        built.luns().iter().for_each(|lun| lun.fill(1, None, &NEVER).unwrap());
        let engine = if Engine::probe(&built.luns()[0]).is_ok() { Engine::IoUring } else { Engine::Threads };
        let mix = Mix { read_share: 0.0, ..plan().mix };
        let plan = Plan { engine, mix, jobs: 2, stop: Stop::Count(500, 60_000_000_000), ..plan() };
        let written = built.completed();
        let outcome = run_on_all(&plan, built.luns(), &NEVER).unwrap();
        assert!(outcome.by_target.iter().all(|operations| *operations > 0), "{layout:?}: {:?}", outcome.by_target);
        let devices =
            written.zip(built.completed()).map(|(before, after)| [after[0] - before[0], after[1] - before[1]]);
        let writes = devices.map(|[_, writes]| writes as f64 / outcome.all as f64);
        match layout {
            Layout::File => assert_eq!(devices, None),
            // Data and parity, unless writes of one stripe meet.
            Layout::Groups | Layout::Pool | Layout::MdGroups | Layout::ThinPool => {
                assert!(writes > Some(1.2), "{layout:?}: {writes:?} writes of devices a write")
            }
            _ => assert!(writes > Some(0.5), "{layout:?}: {writes:?} writes of devices a write"),
        }
        drop(built);
        wait_until_gone(folder.path());
    }
}
