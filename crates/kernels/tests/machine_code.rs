//! The measured loops as the processor sees them: what the source promises is read out of this very binary, or of the one that
//! `BAREMARK_BINARY` names (with its symbols).
//!
//! Needs `objdump`, which comes with any C toolchain; without it every check here is a
//! printed skip, as in a build that is not optimized.
#![expect(clippy::print_stderr, reason = "a check that cannot run says so")]

use baremark_kernels::random_access::Variant;
use baremark_kernels::stream::{Kernel, Plan, Stores, Stream};
use baremark_kernels::{dgemm, fma, isa, pointer_chase, random_access};
use baremark_model::machine::Isa;
use baremark_model::seam::Body;
use baremark_model::team::Team;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The instructions of the function `name` without addresses and bytes; `None` where they cannot be looked at.
fn instructions(name: &str) -> Option<Vec<String>> {
    if cfg!(debug_assertions) {
        eprintln!("skipped: built without optimization; {name} is looked at by cargo test --release");
        return None;
    }
    let Some(text) = disassembly() else {
        eprintln!("skipped: objdump is not installed (apt-get install binutils); {name} was not looked at");
        return None;
    };
    // A symbol's line is "<mangled name>:"; a blank line ends the function.
    let mut lines = text.lines().skip_while(|line| !(line.starts_with('<') && line.contains(name)));
    assert!(lines.next().is_some(), "{name} has no symbol of its own: was it inlined?");
    Some(lines.take_while(|line| !line.is_empty()).map(|line| line.trim().to_owned()).collect())
}

/// This binary's code as text, read once.
fn disassembly() -> Option<&'static str> {
    static TEXT: OnceLock<Option<String>> = OnceLock::new();
    let text = TEXT.get_or_init(|| {
        keep_kernels();
        let named = std::env::var_os("BAREMARK_BINARY").map(PathBuf::from);
        let binary = named.unwrap_or_else(|| std::env::current_exe().expect("this program has a path"));
        let arguments = ["-d", "--no-show-raw-insn", "--no-addresses"];
        let output = Command::new("objdump").args(arguments).arg(binary).output().ok()?;
        assert!(output.status.success(), "objdump: {}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    });
    text.as_deref()
}

/// Makes the linker keep the kernels: they are reached through a body, as executors reach them.
fn keep_kernels() {
    let team = Team::new(1);
    let (mut table, mut lines) = (vec![0; 1 << 10], vec![0; 1 << 10]);
    let bodies: [Box<dyn Body + '_>; 3] = [
        Box::new(random_access::RandomAccess::new(vec![&mut table], Variant::Reference).expect("2^10 words")),
        Box::new(fma::Fma::new(1, Isa::Baseline).expect("baseline is everywhere")),
        Box::new(pointer_chase::PointerChase::new(vec![&mut lines], 1).expect("whole lines")),
    ];
    for body in bodies {
        body.rank(0, &team, 1);
    }
    keep_streams(&team);
    keep_products(&team);
}

fn keep_products(team: &Team) {
    let mut spans: Vec<Vec<[u64; 8]>> =
        dgemm::span_words(8, 1).into_iter().map(|words| vec![[0; 8]; words / 8 + 1]).collect();
    // Each from the first boundary of 64 bytes on.
    let aligned = spans.iter_mut().map(|span| {
        let words = span.as_flattened_mut();
        let skip = words.as_ptr().align_offset(64);
        &mut words[skip..]
    });
    dgemm::Dgemm::new(8, isa::widest(), aligned.collect()).expect("as long as asked").rank(0, team, 1);
}

#[repr(align(64))]
struct Lines([u64; 24]);

fn keep_streams(team: &Team) {
    let mut lines = Lines([0; 24]);
    for stores in [Stores::Regular, Stores::NonTemporal] {
        let mut arrays = lines.0.as_chunks_mut::<8>().0.iter_mut();
        let arrays = std::array::from_fn(|_| arrays.next().expect("three lines").as_mut_slice());
        let plan = Plan { kernels: &Kernel::ALL, stores, isa: isa::widest(), passes: 1 };
        Stream::new(arrays, plan, || 1).expect("three lines").rank(0, team, 1);
    }
}

/// Nothing in a measured loop may leave it: no call, no jump to another function, no trap that stands for a panic.
fn assert_stays_inside(name: &str, code: &[String]) {
    assert!(code.iter().any(|line| line.starts_with("ret")), "{name} has no end: {code:#?}");
    for line in code {
        let leaves = line.starts_with("call") || line.starts_with("ud2") || line.starts_with("syscall");
        let jumps_out = line.starts_with('j') && !line.contains(name);
        assert!(!leaves && !jumps_out, "{name} leaves its loop: {line}");
    }
}

fn count(code: &[String], holds: impl Fn(&str) -> bool) -> usize {
    code.iter().filter(|line| holds(line)).count()
}

#[test]
fn random_access_updates_memory_by_one_instruction_each() {
    let Some(code) = instructions("random_access_update") else { return };
    assert_stays_inside("random_access_update", &code);
    // "xor %r9,(%rsi,%r10,8)": read, change and write a word of the table.
    let updates = count(&code, |line| line.starts_with("xor") && line.ends_with(",8)"));
    assert!(updates > 0 && 32 % updates == 0, "{updates} updates in the loop: {code:#?}");
    assert_eq!(count(&code, |line| line.contains("lock")), 0, "private tables need no lock");
    assert_eq!(count(&code, |line| line.contains("(%rsp)")), 0, "nothing is spilled: {code:#?}");
}

#[test]
fn updates_ahead_ask_for_a_line_and_update_another() {
    let Some(code) = instructions("random_access_ahead") else { return };
    assert_stays_inside("random_access_ahead", &code);
    let updates = count(&code, |line| line.starts_with("xor") && line.ends_with(",8)"));
    let prefetches = count(&code, |line| line.starts_with("prefetcht1"));
    assert!(prefetches > 0 && updates > prefetches, "{prefetches} lines asked for, {updates} updates: {code:#?}");
}

#[test]
fn multiply_adds_stay_in_registers() {
    for (name, register, expected) in [("fma_avx2", "%ymm", 24), ("fma_avx512", "%zmm", 32)] {
        let Some(code) = instructions(name) else { return };
        assert_stays_inside(name, &code);
        let fused = count(&code, |line| line.starts_with("vfmadd") && line.contains(register));
        assert!(fused >= expected && fused.is_multiple_of(expected), "{name} has {fused} multiply-adds: {code:#?}");
        let from_memory = count(&code, |line| line.starts_with("vfmadd") && line.contains('('));
        assert_eq!(from_memory, 0, "{name} reads memory in its loop: {code:#?}");
    }
    let Some(code) = instructions("fma_baseline") else { return };
    assert_stays_inside("fma_baseline", &code);
    assert!(count(&code, |line| line.starts_with("mulpd")) >= 16, "fma_baseline multiplies pairs: {code:#?}");
}

#[test]
fn tiles_of_a_product_stay_in_registers() {
    for (name, register, sums) in [("gemm_tile_avx2", "%ymm", 12), ("gemm_tile_avx512", "%zmm", 24)] {
        let Some(code) = instructions(name) else { return };
        assert_stays_inside(name, &code);
        let fused = count(&code, |line| line.starts_with("vfmadd") && line.contains(register));
        assert!(fused >= sums && fused.is_multiple_of(sums), "{name} has {fused} multiply-adds: {code:#?}");
        let stores = count(&code, |line| line.starts_with("vmov") && line.contains(register) && line.ends_with(')'));
        assert_eq!(stores, sums, "{name} stores each sum once, at its end: {code:#?}");
        assert_eq!(count(&code, |line| line.contains("(%rsp)")), 0, "nothing is spilled: {code:#?}");
    }
}

#[test]
fn streams_load_and_store_vectors_and_nothing_else() {
    for (isa, register) in [("baseline", "%xmm"), ("avx2", "%ymm"), ("avx512", "%zmm")] {
        for (kernel, loads_each, arithmetic_each) in [("copy", 1, 0), ("scale", 1, 1), ("add", 2, 1), ("triad", 2, 2)] {
            for (variant, store) in [("", "mov"), ("nt_", "movnt")] {
                // A symbol ends in a hash after 17h; so no name is taken for the beginning of another.
                let name = format!("stream_{variant}{kernel}_{isa}17h");
                let Some(code) = instructions(&name) else { return };
                assert_stays_inside(&name, &code);
                let is_store = |line: &str| line.contains(register) && line.ends_with(')');
                let stores = count(&code, is_store);
                let as_asked = count(&code, |line| is_store(line) && line.trim_start_matches('v').starts_with(store));
                let bypassing = count(&code, |line| is_store(line) && line.contains("movnt"));
                assert!(stores > 0 && stores == as_asked, "{name}: {code:#?}");
                assert_eq!(bypassing, if variant.is_empty() { 0 } else { stores }, "{name}: {code:#?}");
                let loads =
                    count(&code, |line| line.contains("),%") && line.contains(register) && !line.contains("(%rip)"));
                assert_eq!(loads, loads_each * stores, "{name} loads: {code:#?}");
                let arithmetic = count(&code, |line| line.contains("addpd") || line.contains("mulpd"));
                assert_eq!(arithmetic, arithmetic_each * stores, "{name} computes: {code:#?}");
                assert_eq!(count(&code, |line| line.contains("fmadd")), 0, "{name} rounds twice everywhere");
                let fences = count(&code, |line| line.starts_with("sfence"));
                assert_eq!(fences, usize::from(!variant.is_empty()), "{name} fences: {code:#?}");
            }
        }
    }
}

#[test]
fn a_chase_is_one_load_after_the_other() {
    let Some(code) = instructions("13pointer_chase17h") else { return };
    assert_stays_inside("pointer_chase", &code);
    // "mov (%rdi),%rdi": the address is what was loaded before. The first may come from another register.
    let loads = count(&code, |line| line.starts_with("mov ") && line.contains("(%r"));
    let dependent = count(&code, |line| {
        let registers = line.strip_prefix("mov ").and_then(|rest| rest.trim().split_once(','));
        registers.is_some_and(|(from, to)| from == format!("({to})"))
    });
    assert!(loads > 0 && loads.is_multiple_of(16), "{loads} loads: {code:#?}");
    assert!(dependent + 1 >= loads, "{dependent} of {loads} loads depend: {code:#?}");
}
