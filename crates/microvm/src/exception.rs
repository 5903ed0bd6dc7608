//! The processor's exceptions by number, as Intel's SDM (volume 3, table 7-1) and AMD's APM (volume 2, table 8-1) name them.

/// Whether the processor pushes an error code.
#[must_use]
pub const fn has_error_code(vector: u8) -> bool {
    matches!(vector, 8 | 10..=14 | 17 | 21 | 29 | 30)
}

/// Mnemonic and name, "#PF page fault".
#[must_use]
pub const fn name(vector: u8) -> &'static str {
    match vector {
        0 => "#DE divide error",
        1 => "#DB debug exception",
        2 => "NMI interrupt",
        3 => "#BP breakpoint",
        4 => "#OF overflow",
        5 => "#BR bound range exceeded",
        6 => "#UD invalid opcode",
        7 => "#NM device not available",
        8 => "#DF double fault",
        10 => "#TS invalid TSS",
        11 => "#NP segment not present",
        12 => "#SS stack-segment fault",
        13 => "#GP general protection",
        14 => "#PF page fault",
        16 => "#MF x87 floating-point error",
        17 => "#AC alignment check",
        18 => "#MC machine check",
        19 => "#XM SIMD floating-point exception",
        20 => "#VE virtualization exception",
        21 => "#CP control protection",
        28 => "#HV hypervisor injection",
        29 => "#VC VMM communication",
        30 => "#SX security exception",
        _ => "reserved exception",
    }
}

/// The page fault's number.
pub const PAGE_FAULT: u8 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_faults_carry_an_error_code_and_breakpoints_do_not() {
        assert!(has_error_code(PAGE_FAULT) && has_error_code(8) && !has_error_code(3) && !has_error_code(16));
        assert_eq!(name(6), "#UD invalid opcode");
        assert_eq!(name(31), "reserved exception");
    }
}
