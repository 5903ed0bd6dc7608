//! The program's own code and static data, as loaded.
//!
//! The guest's tables over them are filled before the first run, or else every function of a fresh page would be a guest
//! page fault. The dynamic linker's list has them exactly, in a static program too; the vDSO is left out, since a body
//! has no business there and it lies in a block of its own.

use std::ffi::CStr;
use std::ops::Range;
use std::slice;

/// Address ranges of every loaded segment of the program and its libraries.
pub(crate) fn segments() -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    // SAFETY: `note` is called during the call only, with `found` as its last argument.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: usize, found: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the linker passes a filled structure, valid during the call, and our own argument from `segments`.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Range<u64>>>()) };
    // SAFETY: a name, where there is one, ends in NUL.
    let is_vdso =
        !info.dlpi_name.is_null() && unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes().starts_with(b"linux-vdso");
    if is_vdso || info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the structure says how many headers there are.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
        let start = info.dlpi_addr + header.p_vaddr;
        found.push(start..start + header.p_memsz);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    static DATA: [u8; 3] = [1, 2, 3];

    #[test]
    fn code_and_data_of_this_program_are_among_them() {
        let segments = segments();
        let has = |address: usize| segments.iter().any(|segment| segment.contains(&(address as u64)));
        assert!(has(note as *const () as usize) && has(DATA.as_ptr().addr()), "{segments:x?}");
        assert!(!has(std::ptr::from_ref(&segments).addr()), "the stack is not a segment");
    }
}
