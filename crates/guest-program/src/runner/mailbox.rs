//! System calls that need no exit: a page by which a virtual processor hands a call to a polling thread, and the stub that does so.
//!
//! Each virtual processor has a stub of its own, to which SYSCALL goes, and behind it a page that it shares with the polling thread, its
//! mailbox. The stub writes the call there and waits in a loop with PAUSE; the thread carries the call out and writes the result. A call
//! that the thread refuses, or that it has not begun when the loop has reached its bound, leaves the guest by an `out` as every call does
//! without a polling thread. One that was begun by then leaves by another `out`, and the host waits for its end.
//!
//! The stub works in both rings: in ring 0 it returns by SYSRET; in ring 3, where PVM enters it, it restores the flags by a stack in the
//! mailbox and jumps. It uses no memory of the program's. Before its label `saved` it changes no register but the flags, which R11 has;
//! from there on the mailbox has what it changes, so that a thread can be taken out of the guest at each of its instructions.

use crate::runner::arena::VCPUS;
use crate::runner::sys;
use std::arch::global_asm;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A page: a stub has one, and its mailbox the next, since stores shall not hit a page of code.
pub(crate) const PAGE: u64 = 4096;
/// Pages of both.
pub(crate) const PAGES: u64 = 2;
/// Rounds of the stub's loop, each of at least one PAUSE, which takes 40 to 140 cycles: about as long as an exit takes under PVM.
const ROUNDS: u32 = 2000;
/// Words of the stack by which ring 3 restores its flags.
const STACK: usize = 16;
/// Numbers of calls for which the stub looks at a bit.
const NUMBERS: usize = 512;
/// Port of the second `out`, of a call that the polling thread has begun. It is opened in the bitmap of every task state.
pub(crate) const PORT_BEGUN: u16 = 0x16;

/// Calls that a stub hands over, a bit for each number.
pub(crate) type Calls = [u64; NUMBERS / 64];

/// A virtual processor's page.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Mailbox {
    state: AtomicU32,
    /// Whether the stub may use it.
    enabled: AtomicU32,
    number: AtomicU64,
    arguments: [AtomicU64; 6],
    result: AtomicU64,
    rcx: AtomicU64,
    r11: AtomicU64,
    rsp: AtomicU64,
    calls: [AtomicU64; NUMBERS / 64],
    stack: [AtomicU64; STACK],
    /// Calls that were answered, which the stub does not look at.
    answered: AtomicU64,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum State {
    /// None since the last one left.
    Free,
    /// The stub waits.
    Posted,
    /// The polling thread carries it out.
    Begun,
    /// It has a result.
    Done,
    /// The polling thread leaves it to the host thread.
    Refused,
    /// The stub has reached its bound, or the host thread takes it back.
    Withdrawn,
    /// The polling thread carries it out, and the host thread sleeps until then.
    Awaited,
}

/// What became of the call in a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It was carried out, with this result.
    Answered(u64),
    /// It was not begun: the program's thread makes it.
    Returned,
}

/// Registers that the stub has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) rax: u64,
    pub(crate) rcx: u64,
    pub(crate) r11: u64,
    pub(crate) rsp: u64,
}

/// Where a thread stands in its stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// Its registers are the program's, and the call was not handed over, or came back.
    Before,
    /// The mailbox has the registers, and the state of the call.
    Within,
}

// RIP-relative addresses reach the mailbox, which lies a page behind the stub wherever that is copied to.
global_asm!(
    ".globl baremark_exitless_stub",
    ".globl baremark_exitless_saved",
    ".globl baremark_exitless_leave",
    ".globl baremark_exitless_end",
    "baremark_exitless_stub:",
    "cmp dword ptr [rip + baremark_exitless_stub + {enabled}], 0",
    "je baremark_exitless_leave",
    "cmp rax, {last}",
    "ja baremark_exitless_leave",
    // A program that traces itself goes the long way.
    "test r11d, 0x100",
    "jnz baremark_exitless_leave",
    "bt qword ptr [rip + baremark_exitless_stub + {calls}], rax",
    "jnc baremark_exitless_leave",
    "mov qword ptr [rip + baremark_exitless_stub + {number}], rax",
    "mov qword ptr [rip + baremark_exitless_stub + {arguments}], rdi",
    "mov qword ptr [rip + baremark_exitless_stub + {arguments} + 8], rsi",
    "mov qword ptr [rip + baremark_exitless_stub + {arguments} + 16], rdx",
    "mov qword ptr [rip + baremark_exitless_stub + {arguments} + 24], r10",
    "mov qword ptr [rip + baremark_exitless_stub + {arguments} + 32], r8",
    "mov qword ptr [rip + baremark_exitless_stub + {arguments} + 40], r9",
    "mov qword ptr [rip + baremark_exitless_stub + {rcx}], rcx",
    "mov qword ptr [rip + baremark_exitless_stub + {r11}], r11",
    "mov qword ptr [rip + baremark_exitless_stub + {rsp}], rsp",
    "mov dword ptr [rip + baremark_exitless_stub + {state}], {posted}",
    "baremark_exitless_saved:",
    "mov ecx, {rounds}",
    "2:",
    "pause",
    "mov eax, dword ptr [rip + baremark_exitless_stub + {state}]",
    "cmp eax, {done}",
    "je 5f",
    "cmp eax, {refused}",
    "je 7f",
    "dec ecx",
    "jnz 2b",
    "mov eax, {posted}",
    "mov r11d, {withdrawn}",
    "lock cmpxchg dword ptr [rip + baremark_exitless_stub + {state}], r11d",
    "je 7f",
    "mov ecx, 1",
    "cmp eax, {begun}",
    "jne 2b",
    "mov rax, qword ptr [rip + baremark_exitless_stub + {number}]",
    "mov rcx, qword ptr [rip + baremark_exitless_stub + {rcx}]",
    "mov r11, qword ptr [rip + baremark_exitless_stub + {r11}]",
    "out {port_begun}, al",
    "ud2",
    "5:",
    "mov ecx, cs",
    "test ecx, 3",
    "mov rax, qword ptr [rip + baremark_exitless_stub + {result}]",
    "mov rcx, qword ptr [rip + baremark_exitless_stub + {rcx}]",
    "mov r11, qword ptr [rip + baremark_exitless_stub + {r11}]",
    "jz 6f",
    "lea rsp, [rip + baremark_exitless_stub + {stack_top}]",
    "push r11",
    "popfq",
    "mov rsp, qword ptr [rip + baremark_exitless_stub + {rsp}]",
    "jmp rcx",
    "6:",
    "sysretq",
    "7:",
    "mov rax, qword ptr [rip + baremark_exitless_stub + {number}]",
    "mov rcx, qword ptr [rip + baremark_exitless_stub + {rcx}]",
    "mov r11, qword ptr [rip + baremark_exitless_stub + {r11}]",
    "baremark_exitless_leave:",
    "out {port_call}, al",
    "ud2",
    "baremark_exitless_end:",
    enabled = const 4096 + offset_of!(Mailbox, enabled),
    calls = const 4096 + offset_of!(Mailbox, calls),
    number = const 4096 + offset_of!(Mailbox, number),
    arguments = const 4096 + offset_of!(Mailbox, arguments),
    rcx = const 4096 + offset_of!(Mailbox, rcx),
    r11 = const 4096 + offset_of!(Mailbox, r11),
    rsp = const 4096 + offset_of!(Mailbox, rsp),
    state = const 4096 + offset_of!(Mailbox, state),
    result = const 4096 + offset_of!(Mailbox, result),
    stack_top = const 4096 + offset_of!(Mailbox, stack) + 8 * STACK,
    last = const NUMBERS - 1,
    rounds = const ROUNDS,
    posted = const State::Posted as u32,
    begun = const State::Begun as u32,
    done = const State::Done as u32,
    refused = const State::Refused as u32,
    withdrawn = const State::Withdrawn as u32,
    port_begun = const PORT_BEGUN,
    port_call = const baremark_microvm::layout::PORT_SYSCALL,
);

unsafe extern "C" {
    fn baremark_exitless_stub();
    fn baremark_exitless_saved();
    fn baremark_exitless_leave();
    fn baremark_exitless_end();
}

/// Whether virtual processors get mailboxes.
static CHOSEN: AtomicBool = AtomicBool::new(false);
/// Addresses of the stubs by virtual processor; 0 is none.
static STUBS: [AtomicU64; VCPUS] = [const { AtomicU64::new(0) }; VCPUS];
/// Virtual processors that have one, which are the first.
static USED: AtomicUsize = AtomicUsize::new(0);

/// From now on, each virtual processor gets a mailbox.
pub(crate) fn choose() {
    CHOSEN.store(true, Ordering::Relaxed);
}

/// Whether virtual processors get mailboxes.
pub(crate) fn is_chosen() -> bool {
    CHOSEN.load(Ordering::Relaxed)
}

/// Forgets the mailboxes of another machine.
pub(crate) fn begin() {
    let used = USED.swap(0, Ordering::AcqRel);
    STUBS[..used].iter().for_each(|stub| stub.store(0, Ordering::Relaxed));
}

/// The stub's instructions.
pub(crate) fn code() -> &'static [u8] {
    let start = baremark_exitless_stub as *const () as usize;
    let bytes = baremark_exitless_end as *const () as usize - start;
    // SAFETY: the instructions between two labels of this program, which nobody changes.
    unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance(start), bytes) }
}

/// Prepares the mailbox behind the stub at `stub`, of virtual processor `index`, for calls whose bits are set.
pub(crate) fn open(index: usize, stub: u64, calls: &Calls) {
    STUBS[index].store(stub, Ordering::Release);
    if let Some(mailbox) = of(index) {
        mailbox.calls.iter().zip(calls).for_each(|(to, bits)| to.store(*bits, Ordering::Relaxed));
    }
    USED.fetch_max(index + 1, Ordering::AcqRel);
}

/// The stub of virtual processor `index`, if it has one.
pub(crate) fn stub_of(index: usize) -> Option<u64> {
    STUBS.get(index).map(|stub| stub.load(Ordering::Acquire)).filter(|stub| *stub != 0)
}

/// The mailbox of virtual processor `index`.
pub(crate) fn of(index: usize) -> Option<&'static Mailbox> {
    let mailbox = ptr::with_exposed_provenance::<Mailbox>((stub_of(index)? + PAGE) as usize);
    // SAFETY: two pages of the supervisor area belong to the virtual processor from `open` on; they stay mapped as long as the process
    // lives, and hold atomic numbers, which the guest changes too.
    Some(unsafe { &*mailbox })
}

/// All mailboxes.
pub(crate) fn all() -> impl Iterator<Item = &'static Mailbox> {
    (0..USED.load(Ordering::Acquire)).filter_map(of)
}

/// Where the instruction at `rip` lies in the stub of virtual processor `index`; `None` outside of it.
pub(crate) fn position(index: usize, rip: u64) -> Option<Position> {
    let at = rip.checked_sub(stub_of(index)?)?;
    let offset = |label: unsafe extern "C" fn()| {
        (label as *const () as u64).wrapping_sub(baremark_exitless_stub as *const () as u64)
    };
    if at >= offset(baremark_exitless_end) {
        return None;
    }
    let is_whole = at < offset(baremark_exitless_saved) || at >= offset(baremark_exitless_leave);
    Some(if is_whole { Position::Before } else { Position::Within })
}

impl Mailbox {
    /// Whether the stub may hand calls over.
    pub(crate) fn enable(&self, enabled: bool) {
        self.enabled.store(enabled.into(), Ordering::SeqCst);
    }

    /// Whether a call waits.
    pub(crate) fn has_call(&self) -> bool {
        self.state.load(Ordering::Relaxed) == State::Posted as u32
    }

    /// Begins the call that waits, if there is one: its number and its arguments. For the polling thread.
    pub(crate) fn take(&self) -> Option<(u64, [u64; 6])> {
        if !self.has_call() || !self.change(State::Posted, State::Begun) {
            return None;
        }
        let mut arguments = [0; 6];
        arguments.iter_mut().zip(&self.arguments).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
        Some((self.number.load(Ordering::Relaxed), arguments))
    }

    /// Ends the call that was begun: with a result, or without having done anything.
    pub(crate) fn end(&self, result: Option<i64>) {
        if let Some(result) = result {
            self.result.store(result.cast_unsigned(), Ordering::Relaxed);
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        let state = if result.is_some() { State::Done } else { State::Refused };
        if self.state.swap(state as u32, Ordering::AcqRel) == State::Awaited as u32 {
            sys::wake(&self.state, 1);
        }
    }

    /// What became of the call that the stub has handed over; one that was not begun is taken back. For the thread whose virtual processor
    /// this is, outside of the guest.
    pub(crate) fn settle(&self) -> Settled {
        let settled = loop {
            let state = self.state.load(Ordering::Acquire);
            match () {
                () if state == State::Posted as u32 => {
                    if self.change(State::Posted, State::Withdrawn) {
                        break Settled::Returned;
                    }
                }
                () if state == State::Begun as u32 => {
                    self.change(State::Begun, State::Awaited);
                }
                () if state == State::Awaited as u32 => sys::wait_while(&self.state, state, None),
                () if state == State::Done as u32 => break Settled::Answered(self.result.load(Ordering::Relaxed)),
                () => break Settled::Returned,
            }
        };
        self.state.store(State::Free as u32, Ordering::Release);
        settled
    }

    /// Whether the call that has just left the guest had been handed over before; forgets it.
    pub(crate) fn came_back(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        let back = state == State::Refused as u32 || state == State::Withdrawn as u32;
        if back {
            self.state.store(State::Free as u32, Ordering::Release);
        }
        back
    }

    /// Calls that were answered since the mailbox was opened.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// The registers that the stub has changed.
    pub(crate) fn kept(&self) -> Kept {
        let [rax, rcx, r11, rsp] =
            [&self.number, &self.rcx, &self.r11, &self.rsp].map(|word| word.load(Ordering::Relaxed));
        Kept { rax, rcx, r11, rsp }
    }

    fn change(&self, from: State, to: State) -> bool {
        self.state.compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

const _: () = assert!(size_of::<Mailbox>() as u64 == PAGE);

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Mailbox {
        let word = || AtomicU64::new(0);
        Mailbox {
            state: AtomicU32::new(0),
            enabled: AtomicU32::new(0),
            number: word(),
            arguments: [const { AtomicU64::new(0) }; 6],
            result: word(),
            rcx: word(),
            r11: word(),
            rsp: word(),
            calls: [const { AtomicU64::new(0) }; NUMBERS / 64],
            stack: [const { AtomicU64::new(0) }; STACK],
            answered: word(),
        }
    }

    #[test]
    fn the_stub_fits_its_page_and_ends_with_its_exit() {
        let code = code();
        assert!(code.len() < 512, "{}", code.len());
        // `out 0x11, al` and `ud2`.
        assert_eq!(code[code.len() - 4..], [0xe6, 0x11, 0x0f, 0x0b]);
    }

    #[test]
    fn a_call_is_taken_once_and_its_result_waits() {
        let mailbox = empty();
        assert_eq!(mailbox.take(), None);
        mailbox.number.store(39, Ordering::Relaxed);
        mailbox.arguments[5].store(7, Ordering::Relaxed);
        mailbox.state.store(State::Posted as u32, Ordering::Relaxed);
        assert_eq!(mailbox.take(), Some((39, [0, 0, 0, 0, 0, 7])));
        assert_eq!(mailbox.take(), None);
        mailbox.end(Some(-2));
        assert!(!mailbox.came_back());
        assert_eq!(mailbox.settle(), Settled::Answered((-2i64).cast_unsigned()));
    }

    #[test]
    fn a_call_comes_back_when_it_is_refused_or_was_not_begun() {
        let mailbox = empty();
        mailbox.state.store(State::Posted as u32, Ordering::Relaxed);
        assert_eq!((mailbox.settle(), mailbox.take()), (Settled::Returned, None));
        mailbox.state.store(State::Begun as u32, Ordering::Relaxed);
        mailbox.end(None);
        assert!(mailbox.came_back() && !mailbox.came_back());
    }

    #[test]
    fn a_thread_waits_for_a_call_that_was_begun() {
        let mailbox = empty();
        mailbox.state.store(State::Begun as u32, Ordering::Relaxed);
        let settled = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| mailbox.settle());
            while mailbox.state.load(Ordering::Relaxed) != State::Awaited as u32 {
                std::thread::yield_now();
            }
            mailbox.end(Some(5));
            waiting.join().expect("no panic")
        });
        assert_eq!(settled, Settled::Answered(5));
    }

    #[test]
    fn a_thread_is_found_in_its_stub() {
        let index = VCPUS - 1;
        let memory = Box::new([empty(), empty()]);
        let stub = memory.as_ptr() as u64;
        open(index, stub, &[1; NUMBERS / 64]);
        let at = |label: unsafe extern "C" fn()| {
            stub + label as *const () as u64 - baremark_exitless_stub as *const () as u64
        };
        assert_eq!(position(index, stub - 1), None);
        assert_eq!(position(index, stub), Some(Position::Before));
        assert_eq!(position(index, at(baremark_exitless_saved)), Some(Position::Within));
        assert_eq!(position(index, at(baremark_exitless_leave)), Some(Position::Before));
        assert_eq!(position(index, at(baremark_exitless_end)), None);
        assert!(of(index).is_some() && stub_of(0).is_none());
        begin();
        assert_eq!(stub_of(index), None);
    }
}
