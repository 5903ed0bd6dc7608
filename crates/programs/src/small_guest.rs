//! A QEMU guest that has a small server alone in it: a kernel, and this program as its first process.
//!
//! There is no disk and no network card: the server is reached over the guest's serial port, and makes its requests over the guest's own
//! loopback. The guest dies with the process that started QEMU.

use baremark_model::job::JobError;
use baremark_sys::cpio::{self, Cpio};
use baremark_sys::loaded_program::loaded;
use baremark_sys::user_folder;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

const QEMU: &str = "qemu-system-x86_64";
/// What the kernel takes for the first process.
const FIRST: &str = "init";

/// What guests are started from.
pub(crate) struct Guest {
    kernel: PathBuf,
    initial: PathBuf,
    /// The initial file system, where it is in memory.
    _held: Option<File>,
    memory_bytes: u64,
}

/// How the processor is virtualized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accel {
    Kvm,
    Tcg,
}

impl Guest {
    /// A guest of `memory_bytes` with this kernel, or with the one that was fetched, or this machine's. With a folder its files are copies there.
    ///
    /// # Errors
    /// When there is no kernel, or a file cannot be read or written.
    pub(crate) fn of(
        program: &Path,
        kernel: Option<&Path>,
        memory_bytes: u64,
        folder: Option<&Path>,
    ) -> Result<Guest, JobError> {
        let kernel = found(kernel)?;
        let made = || -> io::Result<Guest> {
            let program = loaded(fs::read(program)?);
            let Some(folder) = folder else {
                let mut file = cpio::in_memory()?;
                write(&mut file, &program)?;
                let initial = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
                return Ok(Guest { kernel: kernel.clone(), initial, _held: Some(file), memory_bytes });
            };
            let (copy, initial) = (folder.join("vmlinuz"), folder.join("initial"));
            fs::copy(&kernel, &copy)?;
            let mut file = File::create(&initial)?;
            write(&mut file, &program)?;
            file.sync_all()?;
            Ok(Guest { kernel: copy, initial, _held: None, memory_bytes })
        };
        made().map_err(|why| JobError::failed(format!("making a guest's initial file system: {why}")))
    }

    /// The files that a start reads.
    pub(crate) fn files(&self) -> [&Path; 2] {
        [&self.kernel, &self.initial]
    }

    /// The guest's memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// QEMU with the guest, up to the arguments of its first process.
    pub(crate) fn command(&self, accel: Accel) -> Command {
        let (name, cpu) = match accel {
            Accel::Kvm => ("kvm", "host"),
            Accel::Tcg => ("tcg,thread=multi", "max"),
        };
        let mut command = Command::new(QEMU);
        command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "q35"]);
        command.args(["-accel", name, "-cpu", cpu, "-smp", "1"]).arg("-m").arg(format!("{}M", self.memory_bytes >> 20));
        command.args(["-chardev", "stdio,id=port,signal=off", "-serial", "chardev:port"]);
        command.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&self.initial);
        // The kernel panics when a timer looks broken that is merely late, as an emulated one is on a busy machine.
        let more = if accel == Accel::Tcg { " no_timer_check" } else { "" };
        command
            .arg("-append")
            .arg(format!("console=ttyS0 quiet loglevel=0 panic=-1{more} -- echo --while-input --guest"));
        command
    }
}

/// The guests' kernel.
fn found(named: Option<&Path>) -> Result<PathBuf, JobError> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let own = || PathBuf::from(format!("/boot/vmlinuz-{}", release.trim()));
    let kernel = named.map(Path::to_path_buf).or_else(user_folder::fetched_kernel).unwrap_or_else(own);
    // A folder is one that `baremark setup guest-kernel` filled.
    let kernel = if kernel.is_dir() { kernel.join("vmlinuz") } else { kernel };
    File::open(&kernel).map_err(|why| JobError::Missing {
        what: format!("the guests' kernel {} cannot be read: {why}", kernel.display()),
        remedy: "run `baremark setup guest-kernel`, or set kernel to a bzImage".to_owned(),
    })?;
    Ok(kernel)
}

fn write(to: &mut File, program: &[u8]) -> io::Result<()> {
    let mut cpio = Cpio::new(BufWriter::new(to));
    cpio.folder("dev")?;
    cpio.character_device("dev/console", 5, 1)?;
    cpio.program(FIRST, program)?;
    cpio.finish()?.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_not_there_is_named_with_what_to_do() {
        let missing = Path::new("/nonexistent/vmlinuz");
        let why = Guest::of(Path::new("/proc/self/exe"), Some(missing), 128 << 20, None).err().expect("no kernel");
        let text = why.to_string();
        assert!(text.contains("/nonexistent/vmlinuz") && text.contains("baremark setup guest-kernel"), "{text}");
    }

    #[test]
    fn copies_are_made_where_they_can_be_dropped_from_the_cache() {
        let folder = std::env::temp_dir().join(format!("baremark-guest-files-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("ours");
        let kernel = folder.join("kernel");
        fs::write(&kernel, "a kernel").expect("ours");
        let guest = Guest::of(Path::new("/proc/self/exe"), Some(&kernel), 128 << 20, Some(&folder)).expect("made");
        let there = guest.files().map(|file| fs::read(file).expect("readable"));
        fs::remove_dir_all(&folder).expect("ours");
        assert_eq!(there[0], b"a kernel");
        assert!(there[1].starts_with(b"070701") && there[1].windows(8).any(|name| name == b"TRAILER!"));
    }
}
