//! Interrupts from one virtual CPU to another, timed inside the guest.
//!
//! A machine of its own, with KVM's interrupt controller: two virtual CPUs in real mode, whose programs are some dozen bytes each. The sender
//! notes its time-stamp counter, writes the command register of its local APIC (x2APIC, MSR 0x830) and leaves. The receiver is halted; its
//! interrupt handler notes its counter, ends the interrupt and leaves, so that a thread here takes the difference. Both counters are the
//! host's, with the same offset. The receiver's thread sleeps in the kernel until the interrupt comes: the latency is that of waking a halted
//! virtual CPU, without any exit to this program, which comes before the first stamp or after the second.
//!
//! Where the processor does not run ring 0 of guests itself (PVM), the handler is carried out by KVM's emulator, which is part of the latency.

use crate::error::{Error, failed};
use crate::kick;
use crate::machine::{self, DEVICE};
use crate::mapping::{Mapping, PAGE};
use crate::tsc;
use baremark_sys::affinity::Seat;
use kvm_bindings::{
    CpuId, KVM_MAX_CPUID_ENTRIES, KVM_MP_STATE_RUNNABLE, kvm_mp_state, kvm_regs, kvm_userspace_memory_region,
};
use kvm_ioctls::{VcpuExit, VcpuFd, VmFd};
use std::os::unix::thread::JoinHandleExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The guest's memory: tables of real mode, programs, stacks and stamps.
const BYTES: usize = 16 * PAGE;
/// The interrupt's number, and where real mode's table holds its handler's offset and segment.
const VECTOR: usize = 0x40;
const HANDLER_ENTRY: usize = 4 * VECTOR;
const SENDER: u16 = 0x1000;
const RECEIVER: u16 = 0x1100;
const HANDLER: u16 = 0x1200;
const SENT: usize = 0x2000;
const ARRIVED: usize = 0x2008;
const SENDER_STACK: u64 = 0x2800;
const RECEIVER_STACK: u64 = 0x3000;
/// Where the programs leave.
const PORT_SENT: u16 = 0x10;
const PORT_ARRIVED: u16 = 0x11;
const PORT_READY: u16 = 0x12;
/// Bits of the APIC's base: it is on, and its registers are MSRs.
const X2APIC: u64 = 0xc00;
/// How long an interrupt may take, on a machine with much other work as well.
const LIMIT: Duration = Duration::from_secs(30);

/// mov ecx, 0x80f; mov eax, 0x1ff; xor edx, edx; wrmsr: the local APIC accepts interrupts.
const APIC_ON: [u8; 17] = [0x66, 0xb9, 0x0f, 0x08, 0, 0, 0x66, 0xb8, 0xff, 1, 0, 0, 0x66, 0x31, 0xd2, 0x0f, 0x30];

/// rdtsc; mov [SENT], eax; mov [SENT + 4], edx; mov ecx, 0x830; mov eax, 0x4040 (assert, fixed, the vector); mov edx, 1 (the receiver);
/// wrmsr; out PORT_SENT, al; jmp to rdtsc.
const SEND: [u8; 35] = [
    0x0f, 0x31, 0x66, 0xa3, 0x00, 0x20, 0x66, 0x89, 0x16, 0x04, 0x20, 0x66, 0xb9, 0x30, 0x08, 0, 0, 0x66, 0xb8, 0x40,
    0x40, 0, 0, 0x66, 0xba, 1, 0, 0, 0, 0x0f, 0x30, 0xe6, 0x10, 0xeb, 0xdd,
];

/// out PORT_READY, al; sti; hlt; jmp to hlt.
const WAIT: [u8; 6] = [0xe6, 0x12, 0xfb, 0xf4, 0xeb, 0xfd];

/// rdtsc; mov [ARRIVED], eax; mov [ARRIVED + 4], edx; mov ecx, 0x80b (end of interrupt); xor eax, eax; xor edx, edx; wrmsr;
/// out PORT_ARRIVED, al; iret.
const HANDLE: [u8; 28] = [
    0x0f, 0x31, 0x66, 0xa3, 0x08, 0x20, 0x66, 0x89, 0x16, 0x0c, 0x20, 0x66, 0xb9, 0x0b, 0x08, 0, 0, 0x66, 0x31, 0xc0,
    0x66, 0x31, 0xd2, 0x0f, 0x30, 0xe6, 0x11, 0xcf,
];

/// What the receiver's thread reports.
#[derive(Debug)]
enum Report {
    Ready,
    /// An interrupt came so many ticks after it was sent.
    Arrived(u64),
    Stopped(String),
}

/// Two virtual CPUs, of which the caller runs the one that sends, and a thread the one that is interrupted.
#[derive(Debug)]
pub struct Interrupts {
    sender: VcpuFd,
    reports: Receiver<Report>,
    receiver: Option<JoinHandle<()>>,
    /// How long an interrupt may take.
    limit: Duration,
    stop: Arc<AtomicBool>,
    signal: libc::c_int,
    /// The machine and its memory, which the virtual CPUs use.
    _vm: VmFd,
    _memory: Arc<Mapping>,
}

impl Interrupts {
    /// Makes the machine, its receiver at `seat`, and waits until the receiver is ready and one interrupt has come.
    ///
    /// # Errors
    /// Why there is no such machine here.
    pub fn start(seat: Seat) -> Result<Interrupts, Error> {
        Interrupts::start_with(Path::new(DEVICE), seat, &SEND, LIMIT)
    }

    fn start_with(device: &Path, seat: Seat, send: &[u8], limit: Duration) -> Result<Interrupts, Error> {
        let signal = kick::signal()?;
        let kvm = machine::open(device)?;
        machine::check_needs(&kvm)?;
        let vm = kvm.create_vm().map_err(failed("KVM_CREATE_VM"))?;
        machine::set_low_addresses(&vm)?;
        vm.create_irq_chip().map_err(failed("KVM_CREATE_IRQCHIP"))?;
        let memory = Arc::new(programs(send)?);
        let slot = kvm_userspace_memory_region {
            memory_size: BYTES as u64,
            userspace_addr: memory.address() as u64,
            ..kvm_userspace_memory_region::default()
        };
        // SAFETY: the mapping lives as long as the machine: both belong to the value that is made here.
        unsafe { vm.set_user_memory_region(slot) }.map_err(failed("KVM_SET_USER_MEMORY_REGION"))?;
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(failed("KVM_GET_SUPPORTED_CPUID"))?;
        let sender = virtual_cpu(&vm, &cpuid, 0, SENDER, SENDER_STACK)?;
        let waits = virtual_cpu(&vm, &cpuid, 1, RECEIVER, RECEIVER_STACK)?;
        let (tell, reports) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, stamps) = (Arc::clone(&stop), Arc::clone(&memory));
        let receiver = thread::Builder::new()
            .name("interrupted".into())
            .spawn(move || receive(waits, seat, &stamps, &stopped, &tell))
            .map_err(|source| Error::Thread { rank: 1, source })?;
        let receiver = Some(receiver);
        let mut made = Interrupts { sender, reports, receiver, limit, stop, signal, _vm: vm, _memory: memory };
        match made.report()? {
            Report::Ready => made.round().map(|_| made),
            other => Err(broken(format!("the receiver began with {other:?}"))),
        }
    }

    /// Sends one interrupt; how many ticks of the time-stamp counter later its handler ran.
    ///
    /// # Errors
    /// When a virtual CPU stops, or no interrupt comes in time.
    pub fn round(&mut self) -> Result<u64, Error> {
        loop {
            match self.sender.run() {
                Ok(VcpuExit::IoOut(PORT_SENT, _)) => break,
                // A signal, such as that of a process that was stopped and goes on: the sender goes on where it was.
                Ok(VcpuExit::Intr) => {}
                Err(why) if matches!(why.errno(), libc::EINTR | libc::EAGAIN) => {}
                Ok(other) => return Err(broken(format!("the sender left by {other:?}"))),
                Err(why) => return Err(failed("KVM_RUN")(why)),
            }
        }
        match self.report()? {
            Report::Arrived(ticks) => Ok(ticks),
            other => Err(broken(format!("{other:?} instead of an interrupt"))),
        }
    }

    fn report(&self) -> Result<Report, Error> {
        match self.reports.recv_timeout(self.limit) {
            Ok(Report::Stopped(why)) => Err(broken(why)),
            Ok(report) => Ok(report),
            Err(_) => Err(broken(format!("nothing arrived within {} s", self.limit.as_secs()))),
        }
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        let Some(receiver) = self.receiver.take() else { return };
        self.stop.store(true, Ordering::SeqCst);
        while !receiver.is_finished() {
            // SAFETY: the thread has not been joined, so its handle is valid; the signal has a handler (`kick::signal`). A signal that comes
            // between two runs of the virtual CPU is followed by another.
            unsafe { libc::pthread_kill(receiver.as_pthread_t(), self.signal) };
            thread::sleep(Duration::from_millis(1));
        }
        drop(receiver.join());
    }
}

fn broken(what: String) -> Error {
    Error::Interrupts { what }
}

/// The guest's memory with its programs.
fn programs(send: &[u8]) -> Result<Mapping, Error> {
    let memory =
        Mapping::aligned(BYTES, PAGE).map_err(|source| Error::Memory { what: "memory for interrupts", source })?;
    let lay = |at: usize, bytes: &[u8]| {
        // SAFETY: all parts lie inside the mapping, which nobody else knows yet.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), memory.pointer().as_ptr().add(at), bytes.len()) };
    };
    lay(HANDLER_ENTRY, &[HANDLER.to_le_bytes(), [0, 0]].concat());
    lay(usize::from(SENDER), &[&APIC_ON[..], send].concat());
    lay(usize::from(RECEIVER), &[&APIC_ON[..], &WAIT].concat());
    lay(usize::from(HANDLER), &HANDLE);
    Ok(memory)
}

/// A virtual CPU in real mode at `start`.
fn virtual_cpu(vm: &VmFd, cpuid: &CpuId, number: u64, start: u16, stack: u64) -> Result<VcpuFd, Error> {
    let fd = vm.create_vcpu(number).map_err(failed("KVM_CREATE_VCPU"))?;
    fd.set_cpuid2(cpuid).map_err(failed("KVM_SET_CPUID2"))?;
    let mut sregs = fd.get_sregs().map_err(failed("KVM_GET_SREGS"))?;
    (sregs.cs.selector, sregs.cs.base) = (0, 0);
    sregs.apic_base |= X2APIC;
    fd.set_sregs(&sregs).map_err(failed("KVM_SET_SREGS"))?;
    let regs = kvm_regs { rip: u64::from(start), rsp: stack, rflags: 2, ..kvm_regs::default() };
    fd.set_regs(&regs).map_err(failed("KVM_SET_REGS"))?;
    // A second virtual CPU waits for its start otherwise.
    let runnable = kvm_mp_state { mp_state: KVM_MP_STATE_RUNNABLE };
    fd.set_mp_state(runnable).map_err(failed("KVM_SET_MP_STATE"))?;
    tsc::zero_offset(&fd)?;
    Ok(fd)
}

/// The receiver's thread: runs its virtual CPU and reports each interrupt, until it is stopped or nobody listens.
fn receive(mut fd: VcpuFd, seat: Seat, memory: &Mapping, stop: &AtomicBool, tell: &Sender<Report>) {
    if let Err(why) = seat.take() {
        drop(tell.send(Report::Stopped(format!("pinning the receiver to {seat}: {why}"))));
        return;
    }
    if let Ok(signal) = kick::signal() {
        kick::unblock(signal);
    }
    while !stop.load(Ordering::SeqCst) {
        let report = match fd.run() {
            Ok(VcpuExit::IoOut(PORT_READY, _)) => Report::Ready,
            Ok(VcpuExit::IoOut(PORT_ARRIVED, _)) => {
                Report::Arrived(stamp(memory, ARRIVED).saturating_sub(stamp(memory, SENT)))
            }
            Ok(VcpuExit::Intr) => continue,
            Ok(other) => Report::Stopped(format!("the receiver left by {other:?}")),
            Err(why) if matches!(why.errno(), libc::EINTR | libc::EAGAIN) => continue,
            Err(why) => Report::Stopped(format!("KVM_RUN of the receiver: {why}")),
        };
        let ends = matches!(report, Report::Stopped(_));
        if tell.send(report).is_err() || ends {
            return;
        }
    }
}

/// A stamp of the guest's. The sender writes its own before it sends, and the next one only after this one was taken.
fn stamp(memory: &Mapping, at: usize) -> u64 {
    // SAFETY: eight aligned bytes inside the mapping; the guest has written them before it left.
    unsafe { memory.pointer().as_ptr().add(at).cast::<u64>().read_volatile() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Prints why a test is skipped; a macro's output would be captured.
    fn skipped(why: &Error) {
        drop(std::io::stderr().write_all(format!("skipped: {why}\n").as_bytes()));
    }

    /// `None`, said, where there is no KVM or none for us.
    fn started(send: &[u8], limit: Duration) -> Option<Result<Interrupts, Error>> {
        match Interrupts::start_with(Path::new(DEVICE), Seat::Anywhere, send, limit) {
            Err(why @ (Error::Missing { .. } | Error::Denied { .. })) => {
                assert!(std::env::var_os("BAREMARK_REQUIRE_KVM").is_none(), "{why}");
                skipped(&why);
                None
            }
            other => Some(other),
        }
    }

    /// With a sender that sends; `None`, said, where there is none.
    fn sending() -> Option<Interrupts> {
        // A back end that has no interrupts says so.
        started(&SEND, Duration::from_secs(60))?.map_err(|why| skipped(&why)).ok()
    }

    #[test]
    fn each_interrupt_arrives_after_it_was_sent() {
        let Some(mut interrupts) = sending() else { return };
        for _ in 0..50 {
            let before = baremark_sys::clock::ticks();
            let ticks = interrupts.round().expect("it arrives");
            let whole = baremark_sys::clock::ticks() - before;
            assert!(0 < ticks && ticks < whole, "{ticks} of {whole}");
        }
    }

    /// A signal during a round was taken for a machine that is broken: a process that was stopped and went on lost its trial.
    #[test]
    fn a_signal_to_the_sender_breaks_no_round() {
        let Some(mut interrupts) = sending() else { return };
        let signal = kick::signal().expect("a handler");
        kick::unblock(signal);
        // SAFETY: no preconditions.
        let (sender, over) = (unsafe { libc::pthread_self() }, AtomicBool::new(false));
        let rounds = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    // SAFETY: the thread waits for this scope to end; the signal has a handler.
                    unsafe { libc::pthread_kill(sender, signal) };
                    thread::sleep(Duration::from_micros(100));
                }
            });
            let rounds: Result<Vec<u64>, Error> = (0..1000).map(|_| interrupts.round()).collect();
            over.store(true, Ordering::SeqCst);
            rounds
        });
        assert!(rounds.is_ok(), "{rounds:?}");
    }

    /// The sender leaves without having sent: nothing is waited for without end, and the halted receiver is gone afterwards.
    #[test]
    fn an_interrupt_that_does_not_come_is_reported() {
        // rdtsc, out PORT_SENT, al, and back.
        let Some(made) = started(&[0x0f, 0x31, 0xe6, 0x10, 0xeb, 0xfa], Duration::from_secs(2)) else { return };
        let why = made.expect_err("nothing is sent").to_string();
        assert!(why.contains("no interrupt of one virtual CPU to another can be had here"), "{why}");
        let names = std::fs::read_dir("/proc/self/task").expect("/proc").flatten();
        let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        // The other test may be at work.
        assert!(names.filter(|name| name.trim() == "interrupted").count() <= 1);
    }

    #[test]
    fn a_device_that_is_not_there_is_said_with_the_remedy() {
        let why =
            Interrupts::start_with(Path::new("/dev/no-such-kvm"), Seat::Anywhere, &SEND, LIMIT).expect_err("none");
        assert!(why.to_string().starts_with("/dev/no-such-kvm does not exist: load kvm_intel or kvm_amd"), "{why}");
    }
}
