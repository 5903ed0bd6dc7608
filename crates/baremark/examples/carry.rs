//! What bringing a large file to a site takes: time, and the memory of both ends, over the frames that carry trials too.
//!
//! `carry [MIB]` for a file of 100 MiB unless told otherwise. `make bench-carry` runs it. The site is a child of this
//! process, so that the figure is that of the frames; a network's own time comes on top.
#![allow(clippy::print_stdout, clippy::allow_attributes, reason = "it prints a figure")]

use baremark_environments::native::Native;
use baremark_lab::link::AgentLink;
use std::error::Error;
use std::fs;
use std::io::{self, Read};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

const MIB: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mib: u64 = std::env::args().nth(1).map_or(Ok(100), |text| text.parse())?;
    let program = std::env::current_exe()?.with_file_name("../baremark");
    let never = AtomicBool::new(false);
    let mut agent = AgentLink::start(&Native::new(program.canonicalize()?), &never)?;
    let before = [most_memory(std::process::id())?, most_memory(child()?)?];
    let began = Instant::now();
    let there = agent.put("large", &mut Noise { state: 1 }.take(mib * MIB), false)?;
    let seconds = began.elapsed().as_secs_f64();
    let after = [most_memory(std::process::id())?, most_memory(child()?)?];
    let size = fs::metadata(&there)?.len();
    if size != mib * MIB {
        return Err(format!("{size} bytes came of {}", mib * MIB).into());
    }
    #[expect(clippy::cast_precision_loss, reason = "mebibytes")]
    let rate = mib as f64 / seconds;
    let [lab, of_agent] = [0, 1].map(|end| (after[end] - before[end]) / MIB);
    println!(
        "{mib} MiB to a site: {seconds:.2} s, {rate:.0} MiB/s; memory grew by {lab} MiB here and {of_agent} MiB there"
    );
    Ok(())
}

/// Bytes that no program can make smaller.
struct Noise {
    state: u64,
}

impl Read for Noise {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        for bytes in buffer.chunks_mut(8) {
            // Marsaglia's xorshift.
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            bytes.copy_from_slice(&self.state.to_le_bytes()[..bytes.len()]);
        }
        Ok(buffer.len())
    }
}

/// The most memory that a process has had resident, in bytes.
fn most_memory(pid: u32) -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("the kernel does not tell memory")?;
    Ok(1024 * line.trim().trim_end_matches(" kB").parse::<u64>()?)
}

/// The agent: this process's only child, whichever of its threads has started it.
fn child() -> Result<u32, Box<dyn Error>> {
    for thread in fs::read_dir("/proc/self/task")? {
        let children = fs::read_to_string(thread?.path().join("children"))?;
        if let Some(first) = children.split_whitespace().next() {
            return Ok(first.parse()?);
        }
    }
    Err("the agent is gone".into())
}
