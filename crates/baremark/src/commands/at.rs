//! `baremark at`: one program at a site of its own, for as long as somebody holds standard input.
//!
//! Whoever runs applications handles this process as if it were the program: its output is the program's, a signal to stop
//! is handed on, and when it is killed the site goes and the program with it.

use crate::exit::{Exit, Refusal};
use crate::places;
use baremark_lab::remote_program::{Account, Orders, attend};
use baremark_model::spawned::Spawned;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

/// Carries out the orders in a file.
pub fn run(orders: &Path, stop: &AtomicBool) -> Result<(String, Exit), Refusal> {
    let name = orders.display();
    let text = fs::read(orders).map_err(|why| Refusal::bad_input(format!("{name}: {why}")))?;
    let orders: Orders =
        serde_json::from_slice(&text).map_err(|why| Refusal::bad_input(format!("{name} holds no orders: {why}")))?;
    let environment = places::place(&orders.environment, &orders.settings, places::program()?)?
        .ok_or_else(|| Refusal::bad_input(format!("{name}: no environment is '{}'", orders.environment)))?;
    let abandoned = Arc::new(AtomicBool::new(false));
    let alone = Arc::clone(&abandoned);
    thread::spawn(move || {
        drop(baremark_sys::process::wait_for_hang_up_of_stdin());
        alone.store(true, Ordering::Relaxed);
    });
    let mut watch = |account: Account<'_>| match account {
        Account::Line(line) => eprintln!("{line}"),
        Account::Missed(lines) => eprintln!("({lines} lines came too fast to be shown)"),
        Account::State(state) => write_down(state, &orders.account),
    };
    let ended = attend(&*environment, &orders.attended, &orders.program, (stop, &abandoned), &mut watch);
    let ended = ended.map_err(|why| Refusal::failure(format!("the site {} is lost: {why}", orders.environment)))?;
    match ended.ended.as_deref() {
        Some("exit status: 0") | None => Ok((String::new(), Exit::Success)),
        Some(how) => Err(Refusal::failure(format!("{} at {} ended: {how}", orders.program.name, orders.environment))),
    }
}

/// Writes the file completely or not at all; readers tolerate that it is missing.
fn write_down(state: &Spawned, account: &Path) {
    let new = account.with_extension("new");
    let written = serde_json::to_vec(state).map_err(std::io::Error::other).and_then(|text| fs::write(&new, text));
    drop(written.and_then(|()| fs::rename(&new, account)));
}
