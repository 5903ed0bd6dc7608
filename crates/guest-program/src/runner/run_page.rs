//! The page that a virtual processor shares with the runner: registers, why it has left the guest, and whether it shall leave at once.
//!
//! Every entry into the guest passes here, so that all of it is inlined.

use kvm_bindings::{KVM_EXIT_IO_OUT, KVM_SYNC_X86_REGS, kvm_regs, kvm_run};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// What a virtual processor shares with the runner.
pub(crate) struct RunPage<'a>(pub(crate) &'a AtomicPtr<kvm_run>);

impl RunPage<'_> {
    #[inline]
    fn page(&self) -> *mut kvm_run {
        self.0.load(Ordering::Acquire)
    }

    #[inline]
    fn immediate_exit(&self) -> Option<&AtomicU8> {
        let page = self.page();
        if page.is_null() {
            return None;
        }
        // SAFETY: a page that KVM shares and that stays mapped; the flag is only ever used as an atomic here, and KVM reads it.
        Some(unsafe { AtomicU8::from_ptr(&raw mut (*page).immediate_exit) })
    }

    /// Has the virtual processor leave as soon as it is entered, or at once. For signal handlers.
    #[inline]
    pub(crate) fn set_immediate_exit(&self) {
        if let Some(flag) = self.immediate_exit() {
            flag.store(1, Ordering::SeqCst);
        }
    }

    /// Lets it stay in the guest.
    #[inline]
    pub(crate) fn clear_immediate_exit(&self) {
        if let Some(flag) = self.immediate_exit() {
            flag.store(0, Ordering::SeqCst);
        }
    }

    /// The registers with which it enters.
    #[inline]
    pub(crate) fn set_registers(&self, registers: &kvm_regs) {
        // SAFETY: the thread has a virtual processor, whose page is mapped; KVM uses it only while that runs.
        unsafe {
            let page = self.page();
            (*page).s.regs.regs = *registers;
            (*page).kvm_dirty_regs = KVM_SYNC_X86_REGS.into();
        }
    }

    /// Those with which it has left.
    #[inline]
    pub(crate) fn registers(&self) -> kvm_regs {
        // SAFETY: as above; KVM has written them when it left the guest.
        unsafe { (*self.page()).s.regs.regs }
    }

    /// Before it enters: a `KVM_RUN` that fails may write no reason.
    #[inline]
    pub(crate) fn forget_reason(&self) {
        // SAFETY: as above.
        unsafe { (*self.page()).exit_reason = 0 };
    }

    /// Why it has left.
    #[inline]
    pub(crate) fn reason(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (*self.page()).exit_reason }
    }

    /// To which port an `out` went.
    #[inline]
    pub(crate) fn port(&self) -> Option<u16> {
        // SAFETY: as above; the exit's reason says that this part of the union was written, and it is plain numbers.
        let io = unsafe { (*self.page()).__bindgen_anon_1.io };
        (u32::from(io.direction) == KVM_EXIT_IO_OUT).then_some(io.port)
    }

    /// What KVM says of an error of its own.
    #[inline]
    pub(crate) fn suberror(&self) -> u32 {
        // SAFETY: as above; it means something for internal errors only.
        unsafe { (*self.page()).__bindgen_anon_1.internal.suberror }
    }
}
