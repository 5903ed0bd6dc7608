//! Everything at once and for longer: clean runs, faults, timeouts, new machines, under a storm of signals.
//!
//! `BAREMARK_SOAK_SECONDS=60 cargo test --release -p baremark-microvm --test microvm -- --ignored --nocapture soak`

use crate::bodies::{Each, digest, scatter};
use crate::results::storm;
use crate::support::{turn, two_cpus};
use baremark_microvm::{Config, Microvm};
use baremark_model::arm::GuestTables;
use baremark_model::page_size::PageSize;
use baremark_model::seam::{Executor, Fault};
use baremark_model::team::Team;
use std::hint::black_box;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a machine goes through: ten clean runs, each followed by a run that cannot end well.
fn one_life(config: &Config, expected: u64) -> (u64, u64) {
    let mut vm = Microvm::start(config).unwrap();
    let (mut clean, mut faulty) = (0, 0);
    for round in 0..10 {
        let mut table = vec![0; 1 << 16];
        vm.touch(&mut table).unwrap();
        let table = Mutex::new(table);
        let body = Each(|rank, team: &Team, _| {
            team.barrier();
            if rank == 0 {
                scatter(&mut table.lock().unwrap(), 1 << 20, 11);
            }
            team.barrier();
        });
        let record = vm.run(&body, 1).unwrap();
        assert_eq!((record.audit.ranks_inside, record.audit.forwarded_syscalls), (config.seats.len(), 0));
        assert_eq!(digest(&table.into_inner().unwrap()), expected);
        clean += 1;
        let spoilt = Each(|rank, team: &Team, _| match (rank, round % 3) {
            // SAFETY: stops in the guest at once, which is what is tested.
            (0, 0) => unsafe { std::arch::asm!("ud2") },
            (0, 1) => while black_box(true) {},
            (0, _) => panic!("on purpose"),
            _ => team.barrier(),
        });
        match (round % 3, vm.run(&spoilt, 1).unwrap_err()) {
            (0, Fault::Exception { vector: 6, .. })
            | (1, Fault::TimedOut { .. })
            | (2, Fault::Panicked { rank: 0 }) => {
                faulty += 1;
            }
            (_, other) => panic!("round {round}: {other}"),
        }
    }
    (clean, faulty)
}

#[test]
#[ignore = "long"]
fn soak() {
    let Some(_turn) = turn() else { return };
    let seconds = std::env::var("BAREMARK_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let mut native = vec![0; 1 << 16];
    scatter(&mut native, 1 << 20, 11);
    let expected = digest(&native);
    std::panic::set_hook(Box::new(|_| ()));
    let (over, begun) = (AtomicBool::new(false), Instant::now());
    let (mut lives, mut clean, mut faulty) = (0, 0, 0);
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| storm(&over, libc::SIGALRM));
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while begun.elapsed() < Duration::from_secs(seconds) {
                let guest_page = [PageSize::Small, PageSize::Large][lives % 2];
                let guest_tables = [GuestTables::Contiguous, GuestTables::Scattered][lives / 2 % 2];
                let watchdog = Duration::from_millis(300);
                let cpus = two_cpus()[..=lives / 4 % 2].to_vec();
                let seed = lives as u64;
                let (c, f) =
                    one_life(&Config { guest_page, guest_tables, watchdog, seed, ..Config::new(cpus) }, expected);
                (lives, clean, faulty) = (lives + 1, clean + c, faulty + f);
            }
        }));
        over.store(true, Ordering::SeqCst);
        let sent = sending.join().unwrap();
        drop(std::panic::take_hook());
        if let Err(why) = lived {
            std::panic::resume_unwind(why);
        }
        sent
    });
    let line = format!("{lives} machines, {clean} clean runs, {faulty} faulty ones, {sent} signals, all as expected\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}
