//! One rank's virtual processor: how it starts, runs, stops, and starts afresh after a run that was abandoned.
//!
//! The exit handler (everything below [`Vcpu::run`]) works while the guest may be anywhere, on the same thread, with the
//! same thread pointer: it allocates nothing, prints nothing, takes no lock that the guest could hold, and gives back the
//! guest's errno. What went wrong travels as a [`Stop`], which is plain data; words are made of it elsewhere.

use crate::error::{Error, failed};
use crate::exception::{self, PAGE_FAULT};
use crate::guest::{self, Passage};
use crate::layout;
use crate::machine::{Machine, refused};
use crate::mapping::{Mapping, PAGE};
use crate::registers;
use crate::space::Refusal;
use crate::stats::{Meter, Source};
use crate::syscall;
use crate::tsc;
use baremark_sys::futex;
use kvm_bindings::{
    KVM_EXIT_INTR, KVM_EXIT_IO, KVM_EXIT_IO_OUT, KVM_EXIT_MEMORY_FAULT, KVM_EXIT_MMIO, Msrs, kvm_regs, kvm_sregs,
    kvm_vcpu_events, kvm_xcrs, kvm_xsave,
};
use kvm_ioctls::{SyncReg, VcpuFd};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// `_IO(KVMIO, 0x80)`.
const KVM_RUN: u64 = 0xae80;
/// The guest's stack, as long as a main thread's.
const STACK: usize = 8 << 20;
/// More than the thread-local data of a program that has no large buffers there.
const THREAD_LOCAL: u64 = 64 << 10;
/// Exits that may be needed to finish what an abandoned exit left pending.
const DRAINS: usize = 8;

/// Why a rank could not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// An exception; for page faults with the address.
    Exception { vector: u8, rip: u64, address: u64 },
    /// The host has no memory there, or not for this kind of access.
    HostRefused { rip: u64, address: u64 },
    /// The guest's memory could not be extended.
    NoMemory(Refusal),
    /// Its time was up.
    Kicked,
    /// `KVM_RUN` failed with this error number.
    Failed(i32),
    /// An exit that nothing of ours causes, by KVM's number.
    Unexpected { reason: u32, suberror: u32, rip: u64 },
    /// Came back without a result, or with stamps that the host's clock does not bracket.
    Broken(&'static str),
}

/// What happened between the two tokens, and whether they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// The right token came first and last.
    pub(crate) inside: bool,
    /// System calls forwarded.
    pub(crate) syscalls: u64,
    /// Page faults that the guest's own tables gave.
    pub(crate) page_faults: u64,
    /// Returns from the guest that were none of these: signals.
    pub(crate) others: u64,
}

/// A vCPU, owned by the thread that made it.
pub(crate) struct Vcpu {
    fd: VcpuFd,
    machine: Arc<Machine>,
    stack: Mapping,
    fresh: Fresh,
    abandoned: bool,
    syscall_ring: Option<u16>,
    meters: Vec<Arc<Mutex<Meter>>>,
    counts: Counts,
    region: Option<Counts>,
    /// The TSC offset as read back; `None` where KVM does not report it.
    pub(crate) tsc_offset: Option<u64>,
}

/// The state to which a vCPU returns after an abandoned run.
struct Fresh {
    sregs: kvm_sregs,
    events: kvm_vcpu_events,
    xsave: Option<Box<kvm_xsave>>,
}

/// An exit, without KVM's borrowed details.
#[derive(Clone, Copy, Debug)]
enum Exit {
    Port(u16),
    Memory(Option<u64>),
    Interrupted,
    Failed(i32),
    Unexpected,
}

/// Whether the guest continues.
enum Next {
    Resume,
    Left,
}

impl Vcpu {
    /// Makes the vCPU of `rank`, for the calling thread.
    pub(crate) fn new(machine: Arc<Machine>, rank: usize) -> Result<Self, Error> {
        let fd = machine.vm.create_vcpu(rank as u64).map_err(failed("KVM_CREATE_VCPU"))?;
        let stack = Mapping::stack(STACK).map_err(|source| Error::Memory { what: "guest stack", source })?;
        machine
            .space
            .populate(stack.address() as u64, stack.bytes() as u64)
            .map_err(|refusal| refused("guest stack", refusal))?;
        set_registers(&fd, &machine, rank)?;
        let tsc_offset = tsc::zero_offset(&fd)?;
        let fresh = Fresh::of(&fd, &machine)?;
        let mut vcpu = Vcpu {
            fd,
            machine,
            stack,
            fresh,
            abandoned: false,
            syscall_ring: None,
            meters: Vec::new(),
            counts: Counts::default(),
            region: None,
            tsc_offset,
        };
        vcpu.fd.set_sync_valid_reg(SyncReg::Register);
        Ok(vcpu)
    }

    /// The vCPU's own statistics.
    pub(crate) fn stats(&self) -> Result<Option<Source>, Error> {
        Source::open(&self.fd).map_err(|source| Error::Kvm { call: "KVM_GET_STATS_FD", source })
    }

    /// What to read when the tokens come.
    pub(crate) fn watch(&mut self, meters: Vec<Arc<Mutex<Meter>>>) {
        self.meters = meters;
    }

    /// Gives the guest what the owning thread's code works with: its thread-local data and what lies at `start`.
    pub(crate) fn populate<T>(&self, start: *const T) -> Result<(), Refusal> {
        let space = &self.machine.space;
        space.populate(start.addr() as u64, size_of::<T>() as u64)?;
        // Thread-local data lies below the thread pointer.
        space.populate(self.fresh.sregs.fs.base - THREAD_LOCAL, THREAD_LOCAL + PAGE as u64)
    }

    /// The flag that makes `KVM_RUN` return at once. Valid as long as the vCPU lives.
    pub(crate) fn immediate_exit(&mut self) -> *mut u8 {
        &raw mut self.fd.get_kvm_run().immediate_exit
    }

    /// Takes everything to be put back before the next run.
    pub(crate) fn distrust(&mut self) {
        self.abandoned = true;
    }

    /// Runs `passage` in the guest until it has left or cannot continue; `stop` is set before a kick.
    pub(crate) fn run(&mut self, passage: &mut Passage, stop: &AtomicBool) -> (Counts, Result<(), Stop>) {
        let token = passage.token();
        (self.counts, self.region) = (Counts::default(), None);
        if self.abandoned
            && let Err(errno) = self.refresh()
        {
            return (self.counts, Err(Stop::Failed(errno)));
        }
        let passage: *mut Passage = passage;
        let start = kvm_regs {
            rip: guest::enter as *const () as u64,
            rsi: guest::pass as *const () as u64,
            rdi: passage.expose_provenance() as u64,
            rsp: self.stack.end() as u64,
            rflags: registers::RFLAGS,
            ..kvm_regs::default()
        };
        let result = match self.fd.set_regs(&start) {
            Ok(()) => self.until_left(token, stop),
            Err(error) => Err(Stop::Failed(error.errno())),
        };
        self.abandoned = result.is_err();
        (self.region.unwrap_or(self.counts), result)
    }

    fn until_left(&mut self, token: u64, stop: &AtomicBool) -> Result<(), Stop> {
        // SAFETY: errno's address is valid for the thread's life, and the guest on this thread uses the same.
        let errno = unsafe { libc::__errno_location() };
        loop {
            let exit = self.enter();
            // SAFETY: as above; no reference to errno is held across the guest's run.
            let guests = unsafe { *errno };
            let next = self.handle(exit, token, stop);
            // SAFETY: as above.
            unsafe { *errno = guests };
            if let Next::Left = next? {
                return Ok(());
            }
        }
    }

    /// One `KVM_RUN`, by a raw system call: libc's would overwrite errno, which on this thread is the guest's.
    fn enter(&mut self) -> Exit {
        let fd = u64::from(self.fd.as_raw_fd().cast_unsigned());
        // SAFETY: KVM_RUN on our own vCPU's descriptor. What the guest may do to this process's memory is the business of
        // whoever orders the run: it is code of this process.
        let result = unsafe { syscall::raw(libc::SYS_ioctl.cast_unsigned(), [fd, KVM_RUN, 0, 0, 0, 0]) };
        let run = self.fd.get_kvm_run();
        let reason = run.exit_reason;
        // SAFETY: the exit's reason says which field of the union KVM has filled; all are plain numbers.
        let (io, mmio, memory) = unsafe {
            let exit = &run.__bindgen_anon_1;
            (exit.io, exit.mmio, exit.memory_fault)
        };
        match (syscall::errno(result), reason) {
            (None, KVM_EXIT_IO) if u32::from(io.direction) == KVM_EXIT_IO_OUT => Exit::Port(io.port),
            (None, KVM_EXIT_MMIO) => Exit::Memory(Some(mmio.phys_addr)),
            (None, KVM_EXIT_INTR) | (Some(libc::EINTR | libc::EAGAIN), _) => Exit::Interrupted,
            (None, _) => Exit::Unexpected,
            (Some(libc::EFAULT | libc::EHWPOISON), KVM_EXIT_MEMORY_FAULT) => Exit::Memory(Some(memory.gpa)),
            (Some(libc::EFAULT | libc::EHWPOISON), _) => Exit::Memory(None),
            (Some(errno), _) => Exit::Failed(errno),
        }
    }

    fn handle(&mut self, exit: Exit, token: u64, stop: &AtomicBool) -> Result<Next, Stop> {
        match exit {
            Exit::Port(layout::PORT_LEAVE) => return Ok(Next::Left),
            Exit::Port(layout::PORT_BEGIN) => self.begin(token),
            Exit::Port(layout::PORT_END) => self.end(token),
            Exit::Port(layout::PORT_SYSCALL) => self.syscall(stop)?,
            Exit::Port(layout::PORT_SLEEP) => self.sleep(),
            Exit::Port(layout::PORT_WAKE) => self.wake(),
            Exit::Port(port @ layout::PORT_VECTORS..) => self.exception(port - layout::PORT_VECTORS)?,
            Exit::Memory(physical) => return Err(self.host_refused(physical)),
            Exit::Interrupted => self.interrupted(stop)?,
            Exit::Failed(errno) => return Err(Stop::Failed(errno)),
            Exit::Unexpected | Exit::Port(_) => return Err(self.unexpected()),
        }
        Ok(Next::Resume)
    }

    /// The token before the region: what was counted until here belongs to the entry.
    fn begin(&mut self, token: u64) {
        let inside = self.fd.sync_regs().regs.rax == token;
        self.counts = Counts { inside, ..Counts::default() };
        self.for_meters(Meter::begin);
    }

    /// The token after the region: what is counted from here on belongs to nobody.
    fn end(&mut self, token: u64) {
        self.for_meters(Meter::end);
        self.counts.inside &= self.fd.sync_regs().regs.rax == token;
        self.region = Some(self.counts);
    }

    /// The rank waits at a barrier for one that is late: its thread sleeps, for a few milliseconds at most. By raw system calls,
    /// since errno is the guest's; a bad address is refused by the kernel, and whatever ends the sleep lets the rank look again.
    fn sleep(&mut self) {
        let regs = self.fd.sync_regs().regs;
        let limit = libc::timespec { tv_sec: 0, tv_nsec: futex::LONGEST_SLEEP_NS };
        let limit = (&raw const limit).expose_provenance() as u64;
        let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
        // SAFETY: the kernel reads the word, which the code inside the machine could read itself, and `limit`, which lives
        // through the call; it writes nothing.
        unsafe {
            syscall::raw(libc::SYS_futex.cast_unsigned(), [regs.rdi, operation, regs.rsi & 0xffff_ffff, limit, 0, 0])
        };
    }

    fn wake(&mut self) {
        let word = self.fd.sync_regs().regs.rdi;
        let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
        // SAFETY: the kernel wakes threads of this process that sleep on the word, who look again; it touches no memory.
        unsafe { syscall::raw(libc::SYS_futex.cast_unsigned(), [word, operation, i32::MAX as u64, 0, 0, 0]) };
    }

    fn for_meters(&self, read: fn(&mut Meter)) {
        for meter in &self.meters {
            // Nobody holds it while a rank runs, so this takes the lock without waiting and without a system call.
            read(&mut meter.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn interrupted(&mut self, stop: &AtomicBool) -> Result<(), Stop> {
        self.counts.others += 1;
        // Cleared before the flag is looked at: whoever kicks sets the flag first, so no kick is lost.
        let flag = self.immediate_exit();
        // SAFETY: the flag lives as long as the vCPU; others access it atomically too.
        unsafe { AtomicU8::from_ptr(flag) }.store(0, Ordering::SeqCst);
        if stop.load(Ordering::SeqCst) { Err(Stop::Kicked) } else { Ok(()) }
    }

    fn syscall(&mut self, stop: &AtomicBool) -> Result<(), Stop> {
        self.counts.syscalls += 1;
        let mut regs = self.fd.sync_regs().regs;
        regs.rax = syscall::forward(regs.rax, [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9]);
        if stop.load(Ordering::SeqCst) {
            return Err(Stop::Kicked);
        }
        if self.syscall_ring()? == 3 {
            // PVM has left the guest in ring 3, where SYSRET does not work: do what it would do.
            regs.rip = regs.rcx;
            regs.rflags = regs.r11;
        }
        self.resume_with(regs);
        Ok(())
    }

    /// The ring in which SYSCALL's stub runs here; asked once.
    fn syscall_ring(&mut self) -> Result<u16, Stop> {
        if let Some(ring) = self.syscall_ring {
            return Ok(ring);
        }
        let sregs = self.fd.get_sregs().map_err(|error| Stop::Failed(error.errno()))?;
        let ring = sregs.cs.selector & 3;
        self.syscall_ring = Some(ring);
        Ok(ring)
    }

    fn resume_with(&mut self, regs: kvm_regs) {
        self.fd.sync_regs_mut().regs = regs;
        self.fd.set_sync_dirty_reg(SyncReg::Register);
    }

    /// An exception's stub has called: the processor's frame lies on ring 0's stack.
    fn exception(&mut self, vector: u16) -> Result<(), Stop> {
        let vector = u8::try_from(vector).unwrap_or(u8::MAX);
        let (code, rip) = self.frame(vector)?;
        if vector != PAGE_FAULT {
            return Err(Stop::Exception { vector, rip, address: 0 });
        }
        let address = self.fd.get_sregs().map_err(|error| Stop::Failed(error.errno()))?.cr2;
        self.counts.page_faults += 1;
        if code & 1 != 0 {
            // Present, so it is about rights: only our own area has pages that ring 3 may not touch.
            return Err(Stop::Exception { vector, rip, address });
        }
        match self.machine.space.resolve(address) {
            Ok(()) => Ok(()),
            Err(Refusal::Unmapped) => Err(Stop::Exception { vector, rip, address }),
            Err(refusal) => Err(Stop::NoMemory(refusal)),
        }
    }

    /// Error code (0 where there is none) and instruction address, as the processor has pushed them.
    fn frame(&self, vector: u8) -> Result<(u64, u64), Stop> {
        let stack = self.fd.sync_regs().regs.rsp;
        let area = self.machine.space.area();
        if !(area..area + layout::TABLES).contains(&stack) {
            return Err(Stop::Broken("the body wrote to a port that belongs to the microVM"));
        }
        let frame: *const u64 = ptr::with_exposed_provenance(usize::try_from(stack).unwrap_or(0));
        // SAFETY: a rank's stack for ring 0, by the line above, which lies at the same address here as in the guest; the
        // processor has pushed at least five words on it, and the error code where there is one.
        unsafe { if exception::has_error_code(vector) { Ok((*frame, *frame.add(1))) } else { Ok((0, *frame)) } }
    }

    fn host_refused(&self, physical: Option<u64>) -> Stop {
        let rip = self.fd.get_regs().map_or(0, |regs| regs.rip);
        let address = physical.and_then(|physical| self.machine.space.virtual_of(physical)).unwrap_or(0);
        Stop::HostRefused { rip, address }
    }

    fn unexpected(&mut self) -> Stop {
        let rip = self.fd.get_regs().map_or(0, |regs| regs.rip);
        let run = self.fd.get_kvm_run();
        // SAFETY: reading a plain number of the union; it means something for internal errors only.
        let suberror = unsafe { run.__bindgen_anon_1.internal.suberror };
        Stop::Unexpected { reason: run.exit_reason, suberror, rip }
    }

    /// After an abandoned run: finish what KVM has pending, then put everything back.
    fn refresh(&mut self) -> Result<(), i32> {
        self.fd.set_kvm_immediate_exit(1);
        for _ in 0..DRAINS {
            if let Exit::Interrupted | Exit::Failed(_) = self.enter() {
                break;
            }
        }
        self.fd.set_kvm_immediate_exit(0);
        self.fresh.restore(&self.fd).map_err(|error| error.errno())?;
        self.abandoned = false;
        Ok(())
    }
}

impl Fresh {
    fn of(fd: &VcpuFd, machine: &Machine) -> Result<Self, Error> {
        let sregs = fd.get_sregs().map_err(failed("KVM_GET_SREGS"))?;
        let events = fd.get_vcpu_events().map_err(failed("KVM_GET_VCPU_EVENTS"))?;
        let fits = usize::try_from(machine.xsave_bytes).is_ok_and(|bytes| bytes <= size_of::<kvm_xsave>());
        let xsave = if fits { Some(Box::new(fd.get_xsave().map_err(failed("KVM_GET_XSAVE"))?)) } else { None };
        Ok(Fresh { sregs, events, xsave })
    }

    fn restore(&self, fd: &VcpuFd) -> Result<(), kvm_ioctls::Error> {
        fd.set_vcpu_events(&self.events)?;
        fd.set_sregs(&self.sregs)?;
        if let Some(xsave) = &self.xsave {
            // SAFETY: KVM reads as much as `xsave_bytes` says, which `of` found to fit.
            unsafe { fd.set_xsave(xsave) }?;
        }
        Ok(())
    }
}

fn set_registers(fd: &VcpuFd, machine: &Machine, rank: usize) -> Result<(), Error> {
    fd.set_cpuid2(&machine.cpuid).map_err(failed("KVM_SET_CPUID2"))?;
    let initial = fd.get_sregs().map_err(failed("KVM_GET_SREGS"))?;
    let sregs = registers::special(initial, machine.space.area(), rank, machine.cpuid.as_slice());
    fd.set_sregs(&sregs).map_err(failed("KVM_SET_SREGS"))?;
    let mut xcrs = kvm_xcrs { nr_xcrs: 1, ..kvm_xcrs::default() };
    xcrs.xcrs[0].value = registers::xcr0(machine.cpuid.as_slice());
    fd.set_xcrs(&xcrs).map_err(failed("KVM_SET_XCRS"))?;
    let mut fpu = fd.get_fpu().map_err(failed("KVM_GET_FPU"))?;
    (fpu.fcw, fpu.mxcsr) = (0x37f, 0x1f80);
    fd.set_fpu(&fpu).map_err(failed("KVM_SET_FPU"))?;
    let entries = registers::syscall_msrs(machine.space.area());
    let msrs = Msrs::from_entries(&entries)
        .map_err(|error| Error::Kvm { call: "KVM_SET_MSRS", source: std::io::Error::other(format!("{error:?}")) })?;
    match fd.set_msrs(&msrs).map_err(failed("KVM_SET_MSRS"))? {
        set if set == entries.len() => Ok(()),
        _ => Err(Error::Kvm { call: "KVM_SET_MSRS", source: std::io::ErrorKind::Unsupported.into() }),
    }
}
