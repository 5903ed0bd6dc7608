//! Where studies come from: a file that the user names, or one of those that are built into the program.

use crate::exit::Refusal;
use baremark_model::problem::nearest;
use baremark_model::study::LONGEST_STUDY;
use baremark_model::units::Bytes;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A study that ships with the program.
pub struct Shipped {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// All of them; the first is what `baremark` alone runs.
pub const SHIPPED: &[Shipped] = &[
    Shipped { name: "standard", text: include_str!("../../../studies/standard.toml") },
    Shipped { name: "stream", text: include_str!("../../../studies/stream.toml") },
    Shipped { name: "star-random-access", text: include_str!("../../../studies/star-random-access.toml") },
    Shipped { name: "hpl", text: include_str!("../../../studies/hpl.toml") },
    Shipped { name: "mmu-micro", text: include_str!("../../../studies/mmu-micro.toml") },
    Shipped { name: "page-walks", text: include_str!("../../../studies/page-walks.toml") },
    Shipped { name: "calibrate", text: include_str!("../../../studies/calibrate.toml") },
    Shipped { name: "places", text: include_str!("../../../studies/places.toml") },
    Shipped { name: "consolidation", text: include_str!("../../../studies/consolidation.toml") },
    Shipped { name: "consolidation-guests", text: include_str!("../../../studies/consolidation-guests.toml") },
    Shipped { name: "hpcc", text: include_str!("../../../studies/hpcc.toml") },
    Shipped { name: "lammps-melt", text: include_str!("../../../studies/lammps-melt.toml") },
    Shipped { name: "gromacs-mpi", text: include_str!("../../../studies/gromacs-mpi.toml") },
    Shipped { name: "gromacs-water", text: include_str!("../../../studies/gromacs-water.toml") },
    Shipped { name: "sysbench-cpu", text: include_str!("../../../studies/sysbench-cpu.toml") },
    Shipped { name: "sysbench-memory", text: include_str!("../../../studies/sysbench-memory.toml") },
    Shipped { name: "sysbench-threads", text: include_str!("../../../studies/sysbench-threads.toml") },
    Shipped { name: "stress-ng", text: include_str!("../../../studies/stress-ng.toml") },
    Shipped { name: "fio", text: include_str!("../../../studies/fio.toml") },
    Shipped { name: "block", text: include_str!("../../../studies/block.toml") },
    Shipped { name: "iperf3", text: include_str!("../../../studies/iperf3.toml") },
    Shipped { name: "order-entry", text: include_str!("../../../studies/order-entry.toml") },
    Shipped { name: "oltp-hammer", text: include_str!("../../../studies/oltp-hammer.toml") },
    Shipped { name: "ping-pong", text: include_str!("../../../studies/ping-pong.toml") },
    Shipped { name: "offloads", text: include_str!("../../../studies/offloads.toml") },
    Shipped { name: "mtu", text: include_str!("../../../studies/mtu.toml") },
    Shipped { name: "compile-apache", text: include_str!("../../../studies/compile-apache.toml") },
    Shipped { name: "jvm-warehouse", text: include_str!("../../../studies/jvm-warehouse.toml") },
    Shipped { name: "mmu-guests", text: include_str!("../../../studies/mmu-guests.toml") },
    Shipped { name: "wakeup", text: include_str!("../../../studies/wakeup.toml") },
    Shipped { name: "start-up", text: include_str!("../../../studies/start-up.toml") },
    Shipped { name: "density", text: include_str!("../../../studies/density.toml") },
    Shipped { name: "mitigations", text: include_str!("../../../studies/mitigations.toml") },
    Shipped { name: "runtimes", text: include_str!("../../../studies/runtimes.toml") },
    Shipped { name: "seccomp", text: include_str!("../../../studies/seccomp.toml") },
    Shipped { name: "sessions", text: include_str!("../../../studies/sessions.toml") },
    Shipped { name: "auction", text: include_str!("../../../studies/auction.toml") },
    Shipped { name: "load", text: include_str!("../../../studies/load.toml") },
    Shipped { name: "monster-vms", text: include_str!("../../../studies/monster-vms.toml") },
];

/// A complete study of one's own programs, which `baremark init` prints.
pub const EXAMPLE: &str = include_str!("../../../docs/example-command.toml");

/// A study's text, and the name by which messages call it.
pub struct Source {
    /// The file as the user named it, or the shipped study's name.
    pub name: String,
    /// Its bytes; whether they are text is the parser's business.
    pub bytes: Vec<u8>,
}

/// The study that the user named: a file if there is one by that name, else a shipped study.
pub fn find(named: &str) -> Result<Source, Refusal> {
    let path = Path::new(named);
    if path.is_dir() {
        return Err(Refusal::bad_input(format!("{named} is a folder; name a study file in it")));
    }
    if path.exists() {
        let bytes = read(path).map_err(|why| Refusal::bad_input(format!("reading {named}: {why}")))?;
        if bytes.len() > LONGEST_STUDY {
            let most = Bytes(LONGEST_STUDY as u64);
            return Err(Refusal::bad_input(format!("{named} has more than {most}; a study is a short TOML file")));
        }
        return Ok(Source { name: named.to_owned(), bytes });
    }
    match SHIPPED.iter().find(|study| study.name == named) {
        Some(study) => Ok(shipped(study)),
        None => {
            let names: Vec<&str> = SHIPPED.iter().map(|study| study.name).collect();
            let hint = nearest(named, &names);
            Err(Refusal::bad_input(format!("there is no file and no shipped study '{named}'; {hint}")))
        }
    }
}

/// What is in a file, up to one byte more than a study may have: a device or a pipe has no end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST_STUDY as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A shipped study as a source.
pub fn shipped(study: &Shipped) -> Source {
    Source { name: study.name.to_owned(), bytes: study.text.as_bytes().to_vec() }
}

/// A text as TOML writes it.
pub fn toml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
