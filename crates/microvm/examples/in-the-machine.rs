//! The same loop in this process and in a virtual machine of this process's own code; needs /dev/kvm.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_kernels::fma::Fma;
use baremark_kernels::isa;
use baremark_microvm::{Config, Microvm, check_clean};
use baremark_model::seam::{Executor, timed_region};
use baremark_model::team::Team;
use baremark_sys::affinity::{allowed_cpus, pin_current_thread};
use baremark_sys::clock::{tick_rate, ticks};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let cpu = *allowed_cpus()?.first().ok_or("no CPU")?;
    let (rate, _) = tick_rate(Duration::from_millis(50))?;
    let body = Fma::new(1, isa::widest())?;
    let mut vm = Microvm::start(&Config::new(vec![cpu]))?;
    vm.run(&body, 1)?; // entries on both levels, untimed
    let record = vm.run(&body, 2_000)?;
    let inside = rate.span(&record.times).ok_or("no rank")?;
    check_clean(&record, 1, inside)?;
    pin_current_thread(cpu)?;
    let native = rate.span(&[timed_region(&body, 0, &Team::new(1), 2_000, ticks)]).ok_or("no rank")?;
    println!("{:.3} ms in the machine, {:.3} ms natively", 1e3 * inside, 1e3 * native);
    Ok(())
}
