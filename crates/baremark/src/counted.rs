//! The lab's counter of system calls over the kernel's tracepoints.

use baremark_lab::conduct::CallCounter;
use baremark_trace::calls::CallTrace;
use std::collections::BTreeMap;

/// What counts, while it does.
#[derive(Default)]
pub struct Counted(Option<CallTrace>);

/// Of what is not begun.
const NOT_BEGUN: &str = "counting was not begun";

impl CallCounter for Counted {
    fn begin(&mut self) -> Result<(), String> {
        self.0 = Some(CallTrace::start().map_err(|why| why.to_string())?);
        Ok(())
    }

    fn choose(&mut self, calls: u64) -> Result<(), String> {
        let trace = self.0.take().ok_or(NOT_BEGUN)?;
        let chosen = trace.choose(calls).map_err(|why| why.to_string())?;
        chosen.ok_or("those of this environment are not calls of this kernel")?;
        self.0 = Some(trace);
        Ok(())
    }

    fn end(&mut self) -> Result<BTreeMap<u32, u64>, String> {
        let trace = self.0.take().ok_or(NOT_BEGUN)?;
        trace.counts().map_err(|why| why.to_string())
    }
}
