//! Why a program that is there cannot be started: the kernel reports "no such file" for the program where it misses the
//! program's loader or interpreter.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The longest path of a loader or interpreter, in bytes: the kernel's own limit.
const LONGEST_PATH: u64 = 4096;
/// The most program headers that are read.
const MOST_HEADERS: u16 = 256;
/// The type of the program header that names the loader (`PT_INTERP` in elf.h).
const INTERPRETER: u32 = 3;

/// What a program needs and this environment lacks, with the remedy; `None` where the program itself is not there, or nothing
/// of it is missing.
#[must_use]
pub fn missing(program: &Path) -> Option<String> {
    let mut file = File::open(program).ok()?;
    if let Some(loader) = loader(&mut file).ok().flatten() {
        return (!Path::new(&loader).exists()).then(|| {
            format!(
                "{} is dynamically linked: its loader {loader} does not exist in this environment; link it statically, \
                 or set image or rootfs in [environments.container]",
                program.display()
            )
        });
    }
    let interpreter = interpreter(&mut file).ok().flatten()?;
    (!Path::new(&interpreter).exists()).then(|| {
        format!(
            "{} is a script: its interpreter {interpreter} does not exist in this environment; install it there, or set \
             image or rootfs in [environments.container]",
            program.display()
        )
    })
}

/// The loader that an ELF file of 64 bits names; `None` of a static program, or of another file.
///
/// # Errors
/// When the file cannot be read or is cut off.
fn loader(file: &mut File) -> io::Result<Option<String>> {
    let mut header = [0; 64];
    file.rewind()?;
    file.read_exact(&mut header)?;
    if header[..6] != *b"\x7fELF\x02\x01" {
        return Ok(None);
    }
    let offset = long(&header[32..40]);
    let (size, count) = (short(&header[54..56]), short(&header[56..58]).min(MOST_HEADERS));
    for at in 0..count {
        let mut entry = [0; 56];
        file.seek(SeekFrom::Start(offset.saturating_add(u64::from(at) * u64::from(size))))?;
        file.read_exact(&mut entry)?;
        if u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) != INTERPRETER {
            continue;
        }
        let mut path = Vec::new();
        file.seek(SeekFrom::Start(long(&entry[8..16])))?;
        file.take(long(&entry[32..40]).min(LONGEST_PATH)).read_to_end(&mut path)?;
        path.retain(|&byte| byte != 0);
        return Ok(String::from_utf8(path).ok());
    }
    Ok(None)
}

/// The interpreter in the first line of a script.
fn interpreter(file: &mut File) -> io::Result<Option<String>> {
    let mut beginning = Vec::new();
    file.rewind()?;
    file.take(LONGEST_PATH).read_to_end(&mut beginning)?;
    let line = beginning.split(|&byte| byte == b'\n').next().and_then(|line| line.strip_prefix(b"#!"));
    let words = line.and_then(|line| std::str::from_utf8(line).ok());
    Ok(words.and_then(|words| words.split_whitespace().next()).map(str::to_owned))
}

fn short(bytes: &[u8]) -> u16 {
    bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u16::from(byte))
}

fn long(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_dynamic_program_without_its_loader_is_explained() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        let own = fs::read("/bin/true").expect("this machine's own");
        fs::write(&program, &own).expect("copied");
        assert_eq!(missing(&program), None, "its loader is here");
        let named = b"/lib64/ld-linux-x86-64.so.2";
        let at = own.windows(named.len()).position(|bytes| bytes == named).expect("a dynamic program");
        let mut other = own.clone();
        other[at..at + named.len()].copy_from_slice(b"/lib64/no-linux-x86-64.so.2");
        fs::write(&program, &other).expect("changed");
        let why = missing(&program).expect("explained");
        assert!(why.contains("dynamically linked: its loader /lib64/no-linux-x86-64.so.2 does not exist"), "{why}");
        assert!(why.ends_with("link it statically, or set image or rootfs in [environments.container]"), "{why}");
        // Cut off anywhere, it is not a reason to panic.
        for length in (0..other.len()).step_by(7).take(2000) {
            fs::write(&program, &other[..length]).expect("cut");
            let _ = missing(&program);
        }
    }

    #[test]
    fn a_script_without_its_interpreter_is_explained() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("script");
        fs::write(&script, "#! /no/such/interpreter -x\necho\n").expect("written");
        let why = missing(&script).expect("explained");
        assert!(why.contains("is a script: its interpreter /no/such/interpreter does not exist"), "{why}");
        fs::write(&script, "#!/bin/sh\n").expect("written");
        assert_eq!(missing(&script), None);
        assert_eq!(missing(&folder.path().join("nothing")), None);
    }
}
