//! The lab's counter of system calls over the kernel's tracepoints.

use baremark_lab::conduct::{CallCounter, Uncounted};
use baremark_trace::calls::CallTrace;
use std::collections::BTreeMap;

/// What counts, while it does.
#[derive(Default)]
pub struct Counted(Option<CallTrace>);

/// Of what is not begun.
const NOT_BEGUN: &str = "counting was not begun";

fn uncounted(why: impl ToString) -> Uncounted {
    Uncounted(why.to_string())
}

impl CallCounter for Counted {
    fn begin(&mut self, argument: u32) -> Result<(), Uncounted> {
        self.0 = Some(CallTrace::start(argument).map_err(uncounted)?);
        Ok(())
    }

    fn choose(&mut self) -> Result<(), Uncounted> {
        let trace = self.0.take().ok_or_else(|| uncounted(NOT_BEGUN))?;
        let chosen = trace.choose().map_err(uncounted)?;
        chosen
            .ok_or_else(|| uncounted("this environment's system calls are not made to this kernel (as with gVisor)"))?;
        self.0 = Some(trace);
        Ok(())
    }

    fn end(&mut self) -> Result<BTreeMap<u32, u64>, Uncounted> {
        let trace = self.0.take().ok_or_else(|| uncounted(NOT_BEGUN))?;
        trace.counts().map_err(uncounted)
    }
}
