//! A runner's first milliseconds: from the options to the program's first instruction in the guest.
//!
//! Everything that needs memory, descriptors or libc happens here, while there is one thread. From the first entry into the
//! guest on nothing is allocated any more and no function of libc is called that uses thread-local storage.

use crate::options::{Line, Options};
use crate::runner::arena::{ARENA, LARGE};
use crate::runner::backing;
use crate::runner::calls::{files, limits, memory, processes};
use crate::runner::checkpoint;
use crate::runner::config::{CONFIG, NONE, PROCESS};
use crate::runner::counters;
use crate::runner::descriptors::DESCRIPTORS;
use crate::runner::elf::{self, Object, Role};
use crate::runner::fatal::{self, EXIT_CANNOT_EXECUTE, EXIT_NOT_FOUND, Fatal};
use crate::runner::guest;
use crate::runner::handler;
use crate::runner::machine::{self, MACHINE};
use crate::runner::mailbox;
use crate::runner::poller;
use crate::runner::pool;
use crate::runner::program::{self, Unfit};
use crate::runner::restore::Restored;
use crate::runner::space;
use crate::runner::stack::{self, Beginning, Stack};
use crate::runner::step;
use crate::runner::sys::{self, Errno, Mapping};
use crate::runner::thread::Thread;
use crate::runner::user;
use baremark_microvm::layout::BLOCK;
use std::arch::asm;
use std::ffi::{CStr, c_char};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering;

/// PR_SET_MM, PR_SET_MM_MAP.
const PR_SET_MM: u64 = 35;
const PR_SET_MM_MAP: u64 = 14;
const ADDR_NO_RANDOMIZE: i64 = 0x0040_0000;
/// A program's break begins up to this far behind it.
const BREAK_RANDOM: u64 = 32 << 20;

/// What the kernel gave this process.
struct Given<'a> {
    options: Options,
    path: &'a [u8],
    arguments: Vec<&'a [u8]>,
    environment: Vec<&'a [u8]>,
    told: Vec<(u64, u64)>,
}

/// Runs the program that the arguments name, instead of whatever this process was.
///
/// # Safety
/// The arguments are those with which the kernel has started this process, which has one thread.
pub(crate) unsafe fn run(count: usize, arguments: *const *const c_char, environment: *const *const c_char) -> ! {
    let began = sys::monotonic_ns();
    std::panic::set_hook(Box::new(fatal::on_panic));
    // SAFETY: the caller's promise.
    let given = match unsafe { Given::read(count, arguments, environment) } {
        Some(given) => given,
        None => fatal::end(Fatal::Options),
    };
    let thread = match prepare(&given) {
        Ok(thread) => thread,
        Err(error) => fatal::end(error),
    };
    processes::count_image(thread, began);
    drop(given);
    enter(thread)
}

impl<'a> Given<'a> {
    /// Reads arguments, environment and the pairs behind them.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn read(count: usize, arguments: *const *const c_char, environment: *const *const c_char) -> Option<Self> {
        // SAFETY: the kernel gives lists of texts that end with null.
        let texts = |list: *const *const c_char| unsafe {
            let pointers = (0..).map(move |index| *list.add(index)).take_while(|text| !text.is_null());
            pointers.map(|text| CStr::from_ptr::<'a>(text).to_bytes_with_nul()).collect::<Vec<_>>()
        };
        let (all, environment_texts) = (texts(arguments), texts(environment));
        debug_assert_eq!(all.len(), count);
        // SAFETY: behind the environment's null the kernel puts pairs of words, the last of kind 0.
        let told = unsafe {
            let pairs: *const [u64; 2] = environment.add(environment_texts.len() + 1).cast();
            let pairs = (0..).map(move |index| *pairs.add(index)).map(|[kind, value]| (kind, value));
            pairs.take_while(|(kind, _)| *kind != libc::AT_NULL).collect()
        };
        let options = all.get(1).and_then(|text| std::str::from_utf8(&text[..text.len() - 1]).ok());
        Some(Given {
            options: Options::parse(options?)?,
            path: all.get(2)?,
            arguments: all.get(3..)?.to_vec(),
            environment: environment_texts,
            told,
        })
    }

    fn value(&self, kind: u64) -> u64 {
        self.told.iter().find(|(told, _)| *told == kind).map_or(0, |(_, value)| *value)
    }
}

/// Everything up to the first instruction.
fn prepare(given: &Given<'_>) -> Result<&'static Thread, Fatal> {
    let options = &given.options;
    limits::start(options);
    open_descriptors(options)?;
    own_image(given);
    if options.snapshot.is_some() {
        checkpoint::own_everything();
    }
    ARENA.reserve(space::area_bytes(options.page))?;
    match options.image {
        Some(image) => {
            PROCESS.pid.store(sys::process_id(), Ordering::Relaxed);
            PROCESS.page.store(image as usize, Ordering::Relaxed);
        }
        None => PROCESS.begin(),
    }
    if !user::works(&PROCESS) {
        return Err(Fatal::Copies);
    }
    if let Some(image) = options.restored {
        return restore(options, image);
    }
    let program = find_program(given).unwrap_or_else(|unfit| match unfit {
        Unfit::Errno(errno) => not_executable(given, errno),
        Unfit::Refused(what, errno) => {
            counters::shared().refuse(what, 0);
            not_executable(given, errno)
        }
    });
    open_machine(options)?;
    files::start(program.file);
    let beginnings = load(given, &program).unwrap_or_else(|errno| not_executable(given, errno));
    sys::close(program.file);
    own_heap();
    beginnings.spans.iter().try_for_each(|span| MACHINE.cover(span).map(drop))?;
    step::start();
    handler::start(&PROCESS);
    let thread = Thread::new(&PROCESS, guest::live)?;
    thread.settle();
    if options.snapshot.is_some() {
        checkpoint::begin(None, files::program_path().as_bytes(), DESCRIPTORS.first());
        checkpoint::open_faults(|fd| DESCRIPTORS.take(fd))?;
        checkpoint::join(thread, true)?;
        checkpoint::settle(thread);
    }
    handler::use_signal_stack(thread);
    pool::acquire(thread);
    poller::start(&PROCESS)?;
    thread.change(|registers| (registers.rip, registers.rsp) = (beginnings.entry, beginnings.stack));
    Ok(thread)
}

fn open_machine(options: &Options) -> Result<(), Fatal> {
    MACHINE.start(CONFIG.kvm.load(Ordering::Relaxed), options.page)?;
    if options.exitless {
        mailbox::choose();
    }
    backing::choose(options.backing, options.prefault);
    MACHINE.open()?;
    pool::begin(options.vcpus);
    CONFIG.vcpus.store(options.vcpus, Ordering::Relaxed);
    Ok(())
}

/// Continues a program from its image, with all of its threads but the first, which is returned.
fn restore(options: &Options, image: i32) -> Result<&'static Thread, Fatal> {
    fn unable(why: std::io::Error) -> ! {
        fatal::end_with(fatal::EXIT_FAILED, format_args!("cannot continue the program: {why}"))
    }
    open_machine(options)?;
    let restored = Restored::read(DESCRIPTORS.inherit(image)?).unwrap_or_else(|why| unable(why));
    own_heap();
    restored.map().unwrap_or_else(|why| unable(why));
    let before = &restored.before;
    let path = before.path();
    files::restore(&path);
    let [start, end] = crate::snapshot::load(&before.program_break);
    memory::restore_break(start..end);
    restored.spans().try_for_each(|span| MACHINE.cover(&span).map(drop))?;
    step::start();
    handler::start(&PROCESS);
    handler::restore(&PROCESS, checkpoint::actions_of(before));
    checkpoint::begin(Some(before), &path, DESCRIPTORS.first());
    checkpoint::open_faults(|fd| DESCRIPTORS.take(fd))?;
    restored.open().unwrap_or_else(|why| unable(why));
    let mut threads = Vec::new();
    for slot in before.threads() {
        let thread = Thread::new(&PROCESS, guest::live)?;
        checkpoint::join(thread, threads.is_empty())?;
        checkpoint::become_as(thread, slot);
        threads.push(thread);
    }
    let (first, others) = threads.split_first().ok_or(Fatal::Options)?;
    first.settle();
    checkpoint::settle(first);
    checkpoint::restore_robust_list(first);
    handler::use_signal_stack(first);
    pool::acquire(first);
    others.iter().try_for_each(|thread| processes::begin_restored(thread))?;
    sys::mask_signals(sys::MaskChange::Set, checkpoint::allowed_mask(first.caught.mask.load(Ordering::Relaxed)));
    Ok(first)
}

/// The descriptors that a runner keeps, where they belong.
fn open_descriptors(options: &Options) -> Result<(), Fatal> {
    let inherited = |fd: Option<i32>| fd.map(|fd| DESCRIPTORS.inherit(fd)).transpose();
    let counters = inherited(options.counters)?;
    counters::start(counters)?;
    inherited(options.snapshot)?.map_or(Ok(()), checkpoint::start)?;
    CONFIG.counters.store(counters.unwrap_or(NONE), Ordering::Relaxed);
    let kvm = match inherited(options.kvm)? {
        Some(kvm) => kvm,
        None => DESCRIPTORS.take(machine::open_device().map_err(|errno| Fatal::Device { errno })?)?,
    };
    CONFIG.kvm.store(kvm, Ordering::Relaxed);
    let runner = match inherited(options.runner)? {
        Some(runner) => runner,
        None => DESCRIPTORS.take(sys::open(c"/proc/self/exe", libc::O_PATH | libc::O_CLOEXEC)?)?,
    };
    CONFIG.runner.store(runner, Ordering::Relaxed);
    Ok(())
}

/// Enters the runner's own program into the list of what is the runner's, up to large pages of their own.
fn own_image(given: &Given<'_>) {
    const PT_LOAD: u64 = 1;
    const PT_PHDR: u64 = 6;
    const PF_W: u64 = 2;
    const WORDS: usize = 7;
    let (headers, count) = (given.value(libc::AT_PHDR), given.value(libc::AT_PHNUM));
    let header = |index: u64| -> [u64; WORDS] {
        let at = ptr::with_exposed_provenance::<[u64; WORDS]>((headers + index * WORDS as u64 * 8) as usize);
        // SAFETY: the kernel says where this program's headers lie, and how many there are.
        unsafe { at.read_unaligned() }
    };
    let kind = |header: &[u64; WORDS]| header[0] & u64::from(u32::MAX);
    let all: Vec<[u64; WORDS]> = (0..count).map(header).collect();
    let bias = all.iter().find(|header| kind(header) == PT_PHDR).map_or(0, |header| headers.wrapping_sub(header[2]));
    let loaded = || all.iter().filter(|header| kind(header) == PT_LOAD);
    let start = loaded().map(|header| header[2].wrapping_add(bias) & !4095).min().unwrap_or(0);
    let end = loaded().map(|header| header[2].wrapping_add(bias).wrapping_add(header[5])).max().unwrap_or(0);
    let end = end.next_multiple_of(4096);
    ARENA.own(start..end);
    let writable = loaded().filter(|header| header[0] >> 32 & PF_W != 0);
    ARENA.count_data(writable.map(|header| header[5].next_multiple_of(4096)).sum());
    // Nothing of the program shall share a large page with the runner; where something does already, that is left.
    for gap in [start & !(LARGE - 1)..start, end..end.next_multiple_of(LARGE)] {
        let mapping = Mapping::anonymous(libc::PROT_NONE, libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE);
        // SAFETY: only memory that nobody has is taken.
        if !gap.is_empty() && unsafe { sys::map(gap.start, gap.end - gap.start, mapping) }.is_ok() {
            ARENA.own(gap);
        }
    }
}

/// Enters libc's heap, in which the thread-local storage of this thread lies too.
fn own_heap() {
    const BELOW: u64 = 64 << 10;
    // SAFETY: without a request the break is only read.
    let end = unsafe { sys::raw(libc::SYS_brk, [0; 6]) }.cast_unsigned();
    let pointer: u64;
    // SAFETY: the ABI has the thread pointer point at itself.
    unsafe { asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly)) };
    let start = (pointer & !4095).saturating_sub(BELOW);
    if start < end && end - start < 1 << 30 {
        ARENA.own(start..end.next_multiple_of(4096));
        ARENA.count_data(end - start);
    }
}

/// A program to be loaded: its file, the path by which it was executed, and its arguments, texts ending in NUL.
struct Program {
    file: i32,
    path: Vec<u8>,
    arguments: Vec<Vec<u8>>,
}

/// The program: given with its file by the runner before this one, or looked up as a shell would.
fn find_program(given: &Given<'_>) -> Result<Program, Unfit> {
    let arguments = || given.arguments.iter().map(|text| text.to_vec());
    if let Some(file) = given.options.program {
        return Ok(Program { file, path: given.path.to_vec(), arguments: arguments().collect() });
    }
    let name = &given.path[..given.path.len() - 1];
    let (found, path) = if name.contains(&b'/') {
        (program::find(libc::AT_FDCWD, given.path.as_ptr() as u64, 0)?, given.path.to_vec())
    } else {
        search(given, name)?
    };
    let text = |line: &Line<256>| [line.as_bytes(), b"\0"].concat();
    let scripts: Vec<Vec<u8>> = found.scripts().iter().map(text).collect();
    let arguments = match scripts.is_empty() {
        true => arguments().collect(),
        false => scripts.into_iter().chain([path.clone()]).chain(arguments().skip(1)).collect(),
    };
    Ok(Program { file: found.file, path, arguments })
}

/// Looks `name` up in the folders of PATH.
fn search(given: &Given<'_>, name: &[u8]) -> Result<(program::Found, Vec<u8>), Unfit> {
    let path = given.environment.iter().find_map(|text| text.strip_prefix(b"PATH="));
    let path = path.map_or(b"/usr/local/bin:/usr/bin:/bin".as_slice(), |path| &path[..path.len() - 1]);
    let mut worst = Unfit::Errno(Errno(libc::ENOENT));
    for folder in path.split(|byte| *byte == b':') {
        let folder = if folder.is_empty() { b".".as_slice() } else { folder };
        let file = [folder, b"/", name, b"\0"].concat();
        match program::find(libc::AT_FDCWD, file.as_ptr() as u64, 0) {
            Ok(found) => return Ok((found, file)),
            Err(Unfit::Errno(Errno(libc::ENOENT | libc::ENOTDIR))) => {}
            Err(unfit) => worst = unfit,
        }
    }
    Err(worst)
}

/// Where the program begins: its first instruction and its stack, and what the guest needs at once.
struct Beginnings {
    entry: u64,
    stack: u64,
    spans: Vec<Range<u64>>,
}

/// Loads the program and its interpreter and builds the stack.
fn load(given: &Given<'_>, program: &Program) -> Result<Beginnings, Errno> {
    let random = random();
    let [_, place, behind, canary @ ..] = random;
    // SAFETY: asks without changing anything.
    let persona = unsafe { sys::raw(libc::SYS_personality, [u64::from(u32::MAX), 0, 0, 0, 0, 0]) };
    let randomized = persona & ADDR_NO_RANDOMIZE == 0;
    let place = if randomized { place | 1 } else { 0 };
    let object = elf::load(program.file, Role::Program { random: place })?;
    let interpreter = object.interpreter.as_deref().map(load_interpreter).transpose()?;
    let behind = if randomized { (behind % BREAK_RANDOM) & !4095 } else { 0 };
    // As natively: behind the program, or, where that lies among the mappings, where other programs lie.
    let before = if object.is_among_mappings { elf::dynamic_base(place) + BLOCK } else { object.range.end };
    memory::start_break(before + behind);
    let arguments: Vec<&[u8]> = program.arguments.iter().map(Vec::as_slice).collect();
    let mut seed = [0; 16];
    seed.chunks_exact_mut(8).zip(canary).for_each(|(to, word)| to.copy_from_slice(&word.to_ne_bytes()));
    let beginning = Beginning {
        arguments: &arguments,
        environment: &given.environment,
        path: &program.path,
        told: &given.told,
        random: seed,
        program: &object,
        interpreter: interpreter.as_ref(),
    };
    let stack = stack::build(&beginning, limits::stack(), object.executable_stack)?;
    show(&program.path, &object, &stack);
    let entry = interpreter.as_ref().map_or(object.entry, |interpreter| interpreter.entry);
    let spans = [Some(object.range.clone()), interpreter.map(|interpreter| interpreter.range)];
    let spans = spans.into_iter().flatten().chain(std::iter::once(stack.range.end - 4096..stack.range.end)).collect();
    Ok(Beginnings { entry, stack: stack.pointer, spans })
}

fn load_interpreter(path: &[u8]) -> Result<Object, Errno> {
    let file = sys::open_at(libc::AT_FDCWD, path.as_ptr() as u64, libc::O_RDONLY | libc::O_CLOEXEC)?;
    let object = elf::load(file, Role::Interpreter);
    sys::close(file);
    object
}

fn random() -> [u64; 5] {
    let mut words = [0u64; 5];
    // SAFETY: the kernel writes the array.
    unsafe { sys::raw(libc::SYS_getrandom, [words.as_mut_ptr() as u64, 40, 0, 0, 0, 0]) };
    words
}

/// Lets others see the program in this process: its name, and where `/proc` finds its arguments and environment. A kernel
/// that was built without the latter shows the runner's.
fn show(path: &[u8], object: &Object, stack: &Stack) {
    let name = Line::<16>::of_bytes(files::name_of(&path[..path.len() - 1]));
    // SAFETY: without a request the break is only read.
    let heap = unsafe { sys::raw(libc::SYS_brk, [0; 6]) }.cast_unsigned();
    let words = [
        object.range.start,
        object.range.end,
        object.range.start,
        object.range.end,
        heap,
        heap,
        stack.pointer,
        stack.arguments.start,
        stack.arguments.end,
        stack.environment.start,
        stack.environment.end,
        stack.told.start,
        // The length of the pairs, and no other file for `/proc/self/exe`.
        (stack.told.end - stack.told.start) | u64::from(u32::MAX) << 32,
    ];
    let set_name = [libc::PR_SET_NAME as u64, name.address(), 0, 0, 0, 0];
    let set_map = [PR_SET_MM, PR_SET_MM_MAP, words.as_ptr() as u64, size_of_val(&words) as u64, 0, 0];
    // SAFETY: both read what they are given; they change what `/proc` shows.
    unsafe {
        sys::raw(libc::SYS_prctl, set_name);
        sys::raw(libc::SYS_prctl, set_map);
    }
}

/// Ends the process as a shell would whose program cannot be executed.
fn not_executable(given: &Given<'_>, errno: Errno) -> ! {
    let code = if errno.0 == libc::ENOENT { EXIT_NOT_FOUND } else { EXIT_CANNOT_EXECUTE };
    let path = String::from_utf8_lossy(&given.path[..given.path.len() - 1]);
    let why = std::io::Error::from_raw_os_error(errno.0);
    fatal::end_with(code, format_args!("cannot execute {path}: {why}"))
}

/// Leaves the stack of this function for the thread's own, and lives there.
fn enter(thread: &'static Thread) -> ! {
    extern "C" fn live(thread: *const Thread) -> ! {
        // SAFETY: the record that `enter` was given.
        guest::live(unsafe { &*thread })
    }
    // SAFETY: the top of a stack that belongs to this thread and that nobody uses; nothing of this function continues.
    unsafe {
        asm!("mov rsp, {stack}", "xor ebp, ebp", "call {live}", "ud2", stack = in(reg) thread.block.stack_top(),
             live = sym live, in("rdi") thread, options(noreturn));
    }
}
