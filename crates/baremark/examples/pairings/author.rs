//! STREAM by its author, compiled on this machine: the file that $STREAM_C names, or the copy of stream.c 5.10 in Debian's source of
//! the HPC Challenge.
//!
//! Both sides have the same arrays, threads, number of passes and, with Debian's copy, pages. The arrays of a file of one's own are static: the
//! kernel chooses their pages, which the line says.

use crate::Outcome;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Words of each array: 160 MB, four times the caches of most machines.
pub const WORDS: u64 = 20_000_000;
/// Passes; the first of both sides does not count.
pub const PASSES: u64 = 10;
/// What is around Debian's copy.
const HEADER: &str = include_str!("stream/hpcc.h");
const MAIN: &str = include_str!("stream/main.c");

/// The compiled program.
pub struct Author {
    program: PathBuf,
    /// Which source it is, and whose pages.
    pub source: String,
}

impl Author {
    /// Compiles it into `folder`, in which scripts/bench-peers has unpacked Debian's source.
    ///
    /// # Errors
    /// When there is no source or no compiler.
    pub fn build(folder: &Path) -> Outcome<Author> {
        let program = folder.join("stream");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O3", "-march=native", "-fopenmp", "-w"]).arg(format!("-DNTIMES={PASSES}"));
        let source = match std::env::var_os("STREAM_C").map(PathBuf::from) {
            Some(own) => {
                gcc.arg("-mcmodel=medium").arg(format!("-DSTREAM_ARRAY_SIZE={WORDS}")).arg(&own);
                format!("{}, the kernel's choice of pages", own.display())
            }
            None => {
                let work = folder.join("stream-source");
                fs::create_dir_all(&work)?;
                fs::write(work.join("hpcc.h"), HEADER)?;
                fs::write(work.join("main.c"), MAIN)?;
                let text = String::from_utf8_lossy(&fs::read(copy(folder)?)?).into_owned();
                let passes = "# define NTIMES 10";
                if !text.contains(passes) {
                    return Err(format!("Debian's stream.c has no line '{passes}'").into());
                }
                fs::write(work.join("stream.c"), text.replace(passes, "/* NTIMES is given */"))?;
                gcc.arg("-I").arg(&work).arg(format!("-DWORDS={WORDS}"));
                gcc.args([work.join("stream.c"), work.join("main.c")]);
                "stream.c 5.10 of Debian's hpcc, 2 MiB pages".to_owned()
            }
        };
        let done = gcc.arg("-lm").arg("-o").arg(&program).output().map_err(|why| format!("gcc: {why}"))?;
        match done.status.success() {
            true => Ok(Author { program, source }),
            false => Err(format!("gcc: {}", String::from_utf8_lossy(&done.stderr).trim()).into()),
        }
    }

    /// The best rate of one kernel over the passes, in MB/s.
    ///
    /// # Errors
    /// When it fails, or says that its result is wrong.
    pub fn rate(&self, kernel: &str, threads: usize) -> Outcome<f64> {
        let mut command = Command::new(&self.program);
        command.env("OMP_NUM_THREADS", threads.to_string()).env("OMP_PROC_BIND", "true").env("OMP_PLACES", "threads");
        let done = command.output()?;
        let text = String::from_utf8_lossy(&done.stdout);
        if !done.status.success() || text.contains("Failed Validation") {
            return Err(format!("stream.c ended with {}: {}", done.status, text.trim()).into());
        }
        let name = |line: &&str| line.to_lowercase().starts_with(&format!("{kernel}:"));
        let value = text.lines().find(name).and_then(|line| line.split_whitespace().nth(1));
        Ok(value.ok_or_else(|| format!("stream.c prints no {kernel}"))?.parse()?)
    }
}

/// Debian's copy of stream.c.
fn copy(folder: &Path) -> Outcome<PathBuf> {
    let entries = fs::read_dir(folder)?.flatten().map(|entry| entry.path().join("STREAM/stream.c"));
    let found = entries.filter(|path| path.is_file()).max();
    Ok(found.ok_or("no source of hpcc in the folder of the peers; set STREAM_C to a stream.c")?)
}
