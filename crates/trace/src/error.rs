//! Why tracing is not available.

use crate::btf::BtfError;
use baremark_sys::bpf::{Link, Map, Program, Refused};
use std::io;

/// Why tracing is not available here; the text is a reason with the remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// This user may not.
    #[error("loading BPF programs is not permitted; run as root (CAP_BPF and CAP_PERFMON)")]
    NotPermitted,
    /// The kernel has no such event.
    #[error("this kernel has no tracepoint {0}")]
    NoTracepoint(&'static str),
    /// The kernel's types are not described, or not as the programs need them.
    #[error(transparent)]
    Types(#[from] BtfError),
    /// A structure of the kernel's is laid out in a way that the programs cannot read.
    #[error("field {0} is farther into its structure than the programs read")]
    Layout(&'static str),
    /// A map cannot be made or read.
    #[error("BPF map {what}: {source}")]
    Map {
        /// Which, and what was tried.
        what: &'static str,
        /// What the system gave.
        source: io::Error,
    },
    /// A program was refused.
    #[error("BPF program {name}: {source}")]
    Refused {
        /// Which.
        name: &'static str,
        /// The verifier's reason.
        source: Refused,
    },
    /// It is not known whose calls are to be counted.
    #[error("two processes identified themselves alike; repeat the run")]
    Several,
    /// Not all that was started is known, or a number may be that of a later process.
    #[error(
        "more than {0} processes were started while system calls were counted; what some of them called is not known"
    )]
    TooManyProcesses(usize),
    /// A program cannot be attached.
    #[error("attaching to tracepoint {name}: {source}")]
    Attach {
        /// To which event.
        name: &'static str,
        /// What the system gave.
        source: io::Error,
    },
}

const EPERM: i32 = 1;
const EACCES: i32 = 13;

/// A map's error; `what` is its name.
pub(crate) fn map_error(what: &'static str) -> impl Fn(io::Error) -> TraceError {
    move |source| match source.raw_os_error() {
        Some(EPERM) => TraceError::NotPermitted,
        _ => TraceError::Map { what, source },
    }
}

/// A hash table or array, by its name.
pub(crate) fn hash(name: &'static str, key: usize, value: usize, entries: u32) -> Result<Map, TraceError> {
    Map::hash(name, key, value, entries).map_err(map_error(name))
}

/// An array with this value as its only element.
pub(crate) fn template(name: &'static str, value: &[u8]) -> Result<Map, TraceError> {
    let map = Map::array(name, value.len(), 1).map_err(map_error(name))?;
    map.update(&[0; 4], value).map_err(map_error(name))?;
    Ok(map)
}

/// Loads a program. `code` is absent where it could not be assembled, which a test rules out.
pub(crate) fn load(name: &'static str, code: Option<Vec<u64>>) -> Result<Program, TraceError> {
    let code = code.ok_or(TraceError::Layout("(a jump)"))?;
    Program::load(name, &code).map_err(|source| match source.error.raw_os_error() {
        Some(EPERM | EACCES) if source.log.is_empty() => TraceError::NotPermitted,
        _ => TraceError::Refused { name, source },
    })
}

/// Attaches a program.
pub(crate) fn attach(program: &Program, name: &'static str) -> Result<Link, TraceError> {
    program.attach(name).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => TraceError::NoTracepoint(name),
        _ => TraceError::Attach { name, source },
    })
}
