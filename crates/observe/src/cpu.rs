//! Time of the CPUs by state: `/proc/stat`, in the kernel's own words.
//!
//! The kernel counts in ticks of 10 ms, so that one short phase reports little and many tell much. Idle and iowait may go
//! back by a tick, which counts as no growth.

use crate::source::{Root, Source, numbers, row};
use baremark_model::observer::{Absence, Observer, Readings};
use baremark_model::quantity::Quantity;

const STATES: [&str; 10] = [
    "cpu.user",
    "cpu.nice",
    "cpu.system",
    "cpu.idle",
    "cpu.iowait",
    "cpu.irq",
    "cpu.softirq",
    "cpu.steal",
    "cpu.guest",
    "cpu.guest_nice",
];

pub(crate) struct Cpu {
    root: Root,
    stat: Source,
    states: [&'static Quantity; 10],
    online: &'static Quantity,
}

impl Cpu {
    pub(crate) fn new(root: Root) -> Self {
        Cpu { root, stat: Source::new("cpu", "proc/stat"), states: STATES.map(row), online: row("cpu.online") }
    }

    fn parse(&self, text: &str, into: &mut Readings) -> bool {
        let mut online = 0;
        let mut found = false;
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(cpu) = words.next().and_then(|name| name.strip_prefix("cpu")) else { continue };
            let times = numbers(words);
            if times.len() < 4 || !cpu.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            found = true;
            online += u64::from(!cpu.is_empty());
            for (&state, &ticks) in self.states.iter().zip(&times) {
                match cpu {
                    "" => into.whole(state, ticks),
                    _ => into.beside(state, cpu, ticks),
                }
            }
        }
        if online > 0 {
            into.whole(self.online, online);
        }
        found
    }
}

impl Observer for Cpu {
    fn start(&mut self) -> Result<(), Absence> {
        self.stat.open(&self.root)
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        let text = self.stat.read()?;
        if self.parse(&text, into) { Ok(()) } else { Err(self.stat.unreadable()) }
    }

    fn stop(&mut self) {
        self.stat.close();
    }
}
