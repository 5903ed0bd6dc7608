//! The frame that Linux builds on a stack for a signal handler, and reads when the handler returns.
//!
//! Layout of `struct rt_sigframe` (arch/x86/include/asm/sigframe.h) and of the extended state behind it (Documentation of
//! `struct _fpx_sw_bytes` in uapi/asm/sigcontext.h). The same frame serves twice: for the program's handlers, and on the
//! runner's own stack for a native step, where the kernel itself reads it.

use crate::runner::machine::EXTENDED_STATE;
use crate::runner::thread::SignalStack;
use kvm_bindings::{kvm_regs, kvm_xsave};

/// Words of a frame without extended state.
pub(crate) const WORDS: usize = 55;
const BYTES: u64 = WORDS as u64 * 8;
/// Where in a frame the context and the information about the signal lie.
pub(crate) const CONTEXT: u64 = 8;
pub(crate) const INFO: u64 = 312;
/// First word of the machine context, of the address of the extended state, of the mask, and of the information.
const REGISTERS: usize = 6;
const STATE: usize = 29;
const MASK: usize = 38;
const INFO_WORD: usize = 39;
/// UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS.
const FLAGS: u64 = 7;
/// Selectors of ring 3's code and stack, as they are in a frame.
const SEGMENTS: u64 = 0x002b_0000_0000_0033;
/// Below the stack pointer lies what a leaf function may use without moving it.
pub(crate) const RED_ZONE: u64 = 128;
/// Where in the extended state its description lies, and the two words that show that it is there.
const DESCRIPTION: usize = 464;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// The description's bytes, which KVM wants to be zero.
const DESCRIPTION_BYTES: usize = 48;
/// Bytes of the state that every processor has, and with the header behind it.
const LEGACY: usize = 512;

/// What a frame holds in addition to the extended state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Context {
    pub(crate) registers: kvm_regs,
    /// The exception's error code, number and address; 0 where there was none.
    pub(crate) error: u64,
    pub(crate) trap: u64,
    pub(crate) address: u64,
    pub(crate) mask: u64,
    pub(crate) stack: SignalStack,
}

/// Where a frame and its extended state go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) state: u64,
    pub(crate) frame: u64,
}

/// Extended state with the word behind it.
pub(crate) type State = [u8; EXTENDED_STATE + 64];

/// Where a frame with `bytes` of extended state goes below `stack`.
pub(crate) fn places(stack: u64, bytes: usize) -> Places {
    let state = stack.wrapping_sub(bytes as u64 + 4) & !63;
    Places { state, frame: (state.wrapping_sub(BYTES) & !15).wrapping_sub(8) }
}

/// The frame's words.
pub(crate) fn words(context: &Context, state: u64, restorer: u64, info: &[u64; 16]) -> [u64; WORDS] {
    let Context { registers: r, stack, .. } = context;
    let mut words = [0; WORDS];
    words[..REGISTERS].copy_from_slice(&[restorer, FLAGS, 0, stack.start, stack.flags, stack.bytes]);
    let registers = [
        r.r8,
        r.r9,
        r.r10,
        r.r11,
        r.r12,
        r.r13,
        r.r14,
        r.r15,
        r.rdi,
        r.rsi,
        r.rbp,
        r.rbx,
        r.rdx,
        r.rax,
        r.rcx,
        r.rsp,
        r.rip,
        r.rflags,
        SEGMENTS,
        context.error,
        context.trap,
        context.mask,
        context.address,
        state,
    ];
    words[REGISTERS..=STATE].copy_from_slice(&registers);
    words[MASK] = context.mask;
    words[INFO_WORD..].copy_from_slice(info);
    words
}

/// What the words of a frame say, up to the mask, and where its extended state lies.
pub(crate) fn read(words: &[u64; INFO_WORD]) -> (Context, u64) {
    let stack = SignalStack { start: words[3], flags: words[4], bytes: words[5] };
    let mut registers = [0; 18];
    registers.copy_from_slice(&words[REGISTERS..REGISTERS + 18]);
    let context = Context {
        registers: registers_of(&registers),
        error: words[25],
        trap: words[26],
        address: words[28],
        mask: words[MASK],
        stack,
    };
    (context, words[STATE])
}

/// Registers in the order of a frame, R8 to RFLAGS.
pub(crate) fn registers_of(words: &[u64; 18]) -> kvm_regs {
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags] = *words;
    kvm_regs { rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp, r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags }
}

/// Extended state as a frame has it: `bytes` of the processor's format, its description, and the word behind it.
pub(crate) fn state(xsave: &kvm_xsave, bytes: usize, xcr0: u64) -> State {
    let mut state = [0; EXTENDED_STATE + 64];
    for (to, from) in state.chunks_exact_mut(4).zip(xsave.region).take(bytes / 4) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
    let size = u32::try_from(bytes).unwrap_or(0);
    let mut put = |at: usize, word: u32| state[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    put(DESCRIPTION, MAGIC1);
    put(DESCRIPTION + 4, size + 4);
    let [low, high] = [xcr0 as u32, (xcr0 >> 32) as u32];
    put(DESCRIPTION + 8, low);
    put(DESCRIPTION + 12, high);
    put(DESCRIPTION + 16, size);
    put(bytes, MAGIC2);
    state
}

/// The extended state of a new program.
pub(crate) fn initial() -> kvm_xsave {
    let mut xsave = kvm_xsave::default();
    (xsave.region[0], xsave.region[6]) = (0x37f, 0x1f80);
    xsave
}

/// Puts the extended state of a frame into `xsave`: all of it where its description says that it is there, else the part
/// that every processor has.
pub(crate) fn restore(state: &State, bytes: usize, xsave: &mut kvm_xsave) {
    let word = |at: usize| u32::from_ne_bytes([state[at], state[at + 1], state[at + 2], state[at + 3]]);
    let whole = word(DESCRIPTION) == MAGIC1 && word(DESCRIPTION + 16) as usize == bytes && word(bytes) == MAGIC2;
    let used = if whole { bytes } else { LEGACY };
    for (at, (to, from)) in xsave.region.iter_mut().zip(state.chunks_exact(4)).enumerate().take(used / 4) {
        let described = (DESCRIPTION..DESCRIPTION + DESCRIPTION_BYTES).contains(&(at * 4));
        *to = if described { 0 } else { u32::from_ne_bytes([from[0], from[1], from[2], from[3]]) };
    }
    if !whole {
        // x87 and SSE as given, all else as a new program has it.
        xsave.region[LEGACY / 4..].fill(0);
        xsave.region[LEGACY / 4] = 3;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Context {
        let registers = kvm_regs { rax: 1, rsp: 2, rip: 3, r15: 4, rflags: 5, rdi: 6, ..kvm_regs::default() };
        let stack = SignalStack { start: 7, flags: 0, bytes: 8 };
        Context { registers, error: 9, trap: 10, address: 11, mask: 12, stack }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let words = words(&context(), 0x1000, 0x2000, &[21; 16]);
        assert_eq!((words[0], words[1], words[INFO as usize / 8], words[54]), (0x2000, 7, 21, 21));
        let mut first = [0; INFO_WORD];
        first.copy_from_slice(&words[..INFO_WORD]);
        assert_eq!(read(&first), (context(), 0x1000));
    }

    #[test]
    fn the_layout_is_libcs() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(libc::ucontext_t, uc_mcontext) as u64, (REGISTERS as u64) * 8 - CONTEXT);
        assert_eq!(offset_of!(libc::ucontext_t, uc_sigmask) as u64, MASK as u64 * 8 - CONTEXT);
        assert_eq!(INFO, INFO_WORD as u64 * 8);
        assert_eq!(libc::REG_RIP as usize, 16);
    }

    #[test]
    fn frames_are_aligned_as_a_call_leaves_the_stack() {
        for stack in 0x7fff_0000..0x7fff_0040 {
            let Places { state, frame } = places(stack, 2696);
            assert_eq!((state % 64, frame % 16), (0, 8));
            assert!(state + 2700 <= stack && frame + BYTES <= state);
        }
    }

    #[test]
    fn extended_state_comes_back_without_its_description() {
        let mut xsave = kvm_xsave::default();
        (xsave.region[10], xsave.region[600]) = (77, 88);
        let written = state(&xsave, 2696, 0xe7);
        let mut read = kvm_xsave::default();
        restore(&written, 2696, &mut read);
        assert_eq!((read.region[10], read.region[600], read.region[DESCRIPTION / 4]), (77, 88, 0));
        let mut torn = written;
        torn[2696] ^= 1;
        restore(&torn, 2696, &mut read);
        assert_eq!((read.region[10], read.region[600], read.region[LEGACY / 4]), (77, 0, 3));
    }
}
