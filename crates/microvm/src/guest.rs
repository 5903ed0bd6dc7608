//! The code that runs inside the machine around a body.
//!
//! A rank enters at [`enter`], sends its token, goes through the region, sends its token again and leaves. Both tokens
//! lie outside the region's barriers, so no rank's exit falls into another rank's time. A token is an `out` from ring 3,
//! which outside of the machine would end the process: that it arrives proves where the rank executed.

use baremark_model::seam::{Body, RankTime, timed_region};
use baremark_model::team::{Rest, Team};
use baremark_sys::clock::ticks;
use std::arch::naked_asm;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a rank is to run. The references are as long-lived as the run; whoever makes an order answers for that.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    /// The measured region.
    pub(crate) body: &'static dyn Body,
    /// The team of this run.
    pub(crate) team: &'static Team,
    /// Which rank this is.
    pub(crate) rank: usize,
    /// Repetitions.
    pub(crate) reps: u64,
    /// What the rank sends to prove where it is.
    pub(crate) token: u64,
}

/// An order and, afterwards, what came of it.
pub(crate) struct Passage {
    order: Order,
    times: Option<RankTime>,
    panicked: bool,
}

/// How a rank that came back came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// Through the whole region.
    Whole(RankTime),
    /// By a panic that was caught inside.
    Panicked,
    /// Without having finished, which cannot be.
    Never,
}

impl Passage {
    /// A passage not yet begun.
    pub(crate) fn new(order: Order) -> Self {
        Passage { order, times: None, panicked: false }
    }

    /// What the rank will send.
    pub(crate) fn token(&self) -> u64 {
        self.order.token
    }

    /// What came of it.
    pub(crate) fn outcome(&self) -> Return {
        match (self.panicked, self.times) {
            (true, _) => Return::Panicked,
            (false, Some(times)) => Return::Whole(times),
            (false, None) => Return::Never,
        }
    }
}

/// The first instructions: RSI is called with RDI and a stack from which nothing returns; then the rank leaves.
#[unsafe(naked)]
pub(crate) extern "C" fn enter() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "call rsi",
        "2:",
        "out {leave}, al",
        "jmp 2b",
        ".cfi_endproc",
        leave = const crate::layout::PORT_LEAVE,
    )
}

#[unsafe(naked)]
extern "C" fn token_begin(_token: u64) {
    naked_asm!("mov rax, rdi", "out {port}, al", "ret", port = const crate::layout::PORT_BEGIN)
}

#[unsafe(naked)]
extern "C" fn token_end(_token: u64) {
    naked_asm!("mov rax, rdi", "out {port}, al", "ret", port = const crate::layout::PORT_END)
}

#[unsafe(naked)]
extern "C" fn port_sleep(_word: *const u32, _value: u32) {
    naked_asm!("out {port}, al", "ret", port = const crate::layout::PORT_SLEEP)
}

#[unsafe(naked)]
extern "C" fn port_wake(_word: *const u32) {
    naked_asm!("out {port}, al", "ret", port = const crate::layout::PORT_WAKE)
}

/// How a rank rests inside the machine: it leaves the guest, and its thread sleeps. That is not a system call of the body, and is
/// counted by the team.
pub(crate) const REST: Rest = Rest {
    now: ticks,
    sleep: |word, value| port_sleep(word.as_ptr().cast_const(), value),
    wake: |word| port_wake(word.as_ptr().cast_const()),
};

/// The code by which a rank rests: no run before need have used it.
pub(crate) fn code_of_rest() -> [*const u8; 4] {
    [REST.sleep as *const u8, REST.wake as *const u8, port_sleep as *const u8, port_wake as *const u8]
}

/// What [`enter`] calls: the region between two tokens.
///
/// # Safety
/// `passage` must be valid and nobody else's until the rank has left.
pub(crate) unsafe extern "C" fn pass(passage: *mut Passage) {
    // SAFETY: the caller's promise.
    let passage = unsafe { &mut *passage };
    let Order { body, team, rank, reps, token } = passage.order;
    look_at(body);
    token_begin(token);
    let result = catch_unwind(AssertUnwindSafe(|| timed_region(body, rank, team, reps, ticks)));
    if result.is_err() {
        team.break_up();
    }
    token_end(token);
    match result {
        Ok(times) => passage.times = Some(times),
        Err(payload) => {
            passage.panicked = true;
            // A payload's own drop might panic again, and nothing catches that here.
            drop(catch_unwind(AssertUnwindSafe(|| drop(payload))));
        }
    }
}

/// Reads a byte of every page of what the body holds in itself, so that no first touch of it falls into the region. What
/// it refers to is the caller's to touch.
fn look_at(body: &dyn Body) {
    let start = std::ptr::from_ref(body).cast::<u8>();
    for offset in (0..size_of_val(body)).step_by(4096) {
        // SAFETY: inside the body's own bytes, which are borrowed and readable; the value is not used.
        unsafe { std::ptr::read_volatile(start.add(offset).cast::<std::mem::MaybeUninit<u8>>()) };
    }
}
