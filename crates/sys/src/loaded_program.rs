//! A program without what nobody loads: sections for debuggers are most of its file, and a guest keeps its file in memory.
//!
//! Format: ELF-64 (System V ABI, gABI chapter 4 and 5). The kernel reads the program headers alone.

/// Where the header reports where program headers and section headers lie, how long a program header is, and how many.
const PROGRAM_HEADERS: usize = 0x20;
const SECTION_HEADERS: usize = 0x28;
const PROGRAM_HEADER_SIZE: usize = 0x36;
const PROGRAM_HEADER_COUNT: usize = 0x38;
const SECTION_COUNT: usize = 0x3C;
const SECTION_NAMES: usize = 0x3E;
/// Where a program header holds its segment's offset and length in the file.
const OFFSET: usize = 0x08;
const LENGTH: usize = 0x20;

/// The program up to the end of its last segment; unchanged where it is not an ELF file of 64 bits.
pub fn loaded(mut program: Vec<u8>) -> Vec<u8> {
    let Some(end) = end_of_segments(&program) else { return program };
    program.truncate(end);
    program[SECTION_HEADERS..SECTION_HEADERS + 8].fill(0);
    for field in [SECTION_COUNT, SECTION_NAMES] {
        program[field..field + 2].fill(0);
    }
    program
}

fn end_of_segments(program: &[u8]) -> Option<usize> {
    // Magic, 64 bits, little-endian.
    program.strip_prefix(b"\x7fELF\x02\x01")?;
    let half = |at: usize| Some(usize::from(u16::from_le_bytes(program.get(at..at + 2)?.try_into().ok()?)));
    let long =
        |at: usize| usize::try_from(u64::from_le_bytes(program.get(at..at.checked_add(8)?)?.try_into().ok()?)).ok();
    let (first, size, count) = (long(PROGRAM_HEADERS)?, half(PROGRAM_HEADER_SIZE)?, half(PROGRAM_HEADER_COUNT)?);
    let headers = first.checked_add(size.checked_mul(count)?)?;
    let mut end = headers;
    for place in 0..count {
        let header = first.checked_add(place.checked_mul(size)?)?;
        end = end.max(long(header.checked_add(OFFSET)?)?.checked_add(long(header.checked_add(LENGTH)?)?)?);
    }
    (end > SECTION_NAMES + 2 && end <= program.len()).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subreaper;
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Child, Command, Stdio};

    #[test]
    fn a_program_without_its_sections_runs_as_before() {
        let whole = std::fs::read("/proc/self/exe").expect("it is readable");
        let short = loaded(whole.clone());
        assert!(short.len() < whole.len(), "{} of {} bytes", short.len(), whole.len());
        let path = std::env::temp_dir().join(format!("baremark-loaded-{}", std::process::id()));
        std::fs::write(&path, short).expect("it can be written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
        let mut list = Command::new(&path);
        let listed = subreaper::start(list.arg("--list").stdout(Stdio::piped())).and_then(Child::wait_with_output);
        std::fs::remove_file(&path).expect("it is ours");
        let listed = listed.expect("it runs");
        let said = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.status.success() && said.contains("a_program_without_its_sections_runs_as_before"), "{said}");
    }

    #[test]
    fn what_is_no_program_or_lies_about_itself_is_left_as_it_is() {
        let mut liar = std::fs::read("/proc/self/exe").expect("it is readable");
        liar[PROGRAM_HEADERS..PROGRAM_HEADERS + 8].fill(0xFF);
        for other in [Vec::new(), b"#!/bin/sh\n".to_vec(), b"\x7fELF\x02\x01".to_vec(), liar] {
            assert!(loaded(other.clone()) == other);
        }
    }
}
