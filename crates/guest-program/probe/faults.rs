//! Accesses and instructions that fail, and what their handlers are told.

use std::arch::asm;
use std::cell::UnsafeCell;
use std::ptr;

/// What the last handler was told; the instruction's length is skipped by it.
struct Told(UnsafeCell<[i64; 6]>);
// SAFETY: one thread.
unsafe impl Sync for Told {}
static TOLD: Told = Told(UnsafeCell::new([0; 6]));

static BASE: Told = Told(UnsafeCell::new([0; 6]));

unsafe extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes both; one thread uses the record.
    unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        let registers = &mut context.uc_mcontext.gregs;
        let at = |register: i32| registers[register as usize];
        let address = (*info).si_addr() as i64;
        let base = (*BASE.0.get())[0];
        let offset = if base != 0 && address >= base { address - base } else { address & 4095 };
        *TOLD.0.get() = [
            signal.into(),
            (*info).si_code.into(),
            if address == at(libc::REG_RIP) { -1 } else { offset },
            at(libc::REG_TRAPNO),
            at(libc::REG_ERR),
            0,
        ];
        // Every instruction that fails here has its length in R15 and its way out behind it.
        let length = at(libc::REG_R15);
        if length == -1 {
            registers[libc::REG_RIP as usize] = at(libc::REG_R14);
        } else {
            registers[libc::REG_RIP as usize] += length;
        }
    }
}

fn told(name: &str) {
    // SAFETY: one thread.
    let now = unsafe { TOLD.0.get().replace([0; 6]) };
    println!("{name}: {:?}", &now[..5]);
}

fn map(protection: i32, pages: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), pages * 4096, protection, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start.cast()
}

fn store(at: usize) {
    // SAFETY: the handler leaves the instruction that fails; two bytes: 88 07, mov [rdi], al.
    unsafe { asm!("mov [rdi], al", in("rdi") at, in("al") 1u8, in("r15") 2u64) };
}

fn load(at: usize) {
    // SAFETY: as above; 8a 07, mov al, [rdi].
    unsafe { asm!("mov al, [rdi]", in("rdi") at, out("al") _, in("r15") 2u64) };
}

fn handle(signal: i32) {
    // SAFETY: a handler that only uses its own record.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

pub fn run() {
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP].into_iter().for_each(handle);
    let (read_only, nothing, gone) = (map(libc::PROT_READ, 2), map(libc::PROT_NONE, 1), map(libc::PROT_READ, 1));
    // SAFETY: memory that nobody uses.
    unsafe { libc::munmap(gone.cast(), 4096) };
    let based = |base: *mut u8| {
        // SAFETY: one thread.
        unsafe { (*BASE.0.get())[0] = base as i64 };
    };
    store(8);
    told("null");
    based(read_only);
    store(read_only as usize + 5);
    told("read-only");
    load(read_only as usize + 6);
    told("nothing");
    based(nothing);
    load(nothing as usize + 77);
    told("no access");
    based(gone);
    load(gone as usize + 3);
    told("unmapped");
    based(ptr::null_mut());
    load(0x8000_0000_0000_0123);
    told("not canonical");
    instructions();
    beyond_a_file();
    vectors(nothing);
    execute(read_only);
}

fn instructions() {
    // SAFETY: the handler leaves each instruction that fails.
    unsafe {
        asm!("xor ecx, ecx", "div ecx", inout("eax") 1 => _, inout("edx") 0 => _, out("ecx") _, in("r15") 2u64);
        told("division");
        asm!("ud2", in("r15") 2u64);
        told("undefined");
        asm!("int3", in("r15") 0u64);
        told("breakpoint");
        asm!("hlt", in("r15") 1u64);
        told("privileged");
        asm!("out 0x11, al", in("r15") 2u64);
        told("port");
    }
}

/// A page of a file's mapping that the file does not have.
fn beyond_a_file() {
    // SAFETY: a file in memory of one page, mapped with two.
    unsafe {
        let file = libc::memfd_create(c"short".as_ptr(), 0);
        libc::ftruncate(file, 4096);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let start = libc::mmap(ptr::null_mut(), 8192, protection, libc::MAP_SHARED, file, 0);
        (*BASE.0.get())[0] = start as i64;
        store(start as usize + 4095);
        told("inside a file");
        store(start as usize + 4096 + 9);
        told("beyond a file");
        libc::close(file);
    }
}

/// An access by addresses in a vector register.
fn vectors(nothing: *mut u8) {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return println!("gather: none");
    }
    let offsets = [0i32, 4, 8, 12, 16, 20, 24, 28];
    // SAFETY: the handler leaves the instruction: c4 e2 6d 90 04 87, vpgatherdd ymm0, [rdi + ymm0 * 4], ymm2.
    unsafe {
        (*BASE.0.get())[0] = nothing as i64;
        asm!(
            "vmovdqu ymm1, [{offsets}]",
            "vpcmpeqd ymm2, ymm2, ymm2",
            "vpgatherdd ymm0, [rdi + ymm1 * 4], ymm2",
            "vzeroupper",
            offsets = in(reg) offsets.as_ptr(),
            in("rdi") nothing,
            in("r15") 6u64,
            out("ymm0") _, out("ymm1") _, out("ymm2") _,
        );
    }
    told("gather");
}

/// A jump to memory without the right to execute.
fn execute(page: *mut u8) {
    // SAFETY: the handler goes to the label behind the call.
    unsafe {
        (*BASE.0.get())[0] = 0;
        asm!(
            "lea r14, [rip + 2f]",
            "mov r15, -1",
            "push rax",
            "push rax",
            "jmp {page}",
            "2:",
            "pop rax",
            "pop rax",
            page = in(reg) page,
            out("r14") _, out("r15") _, out("rax") _,
        );
    }
    told("no execution");
}
