//! Private namespaces for one test: mounts, processes, network, System V IPC.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Whether this process has new namespaces now. The first child is the first process of the new PID namespace.
pub fn unshare() -> bool {
    let all = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC;
    // SAFETY: unshare takes a number and touches no memory of ours.
    unsafe { libc::unshare(all) == 0 }
}

/// What must be in the new namespaces before a program starts there: its own /proc and /sys, memory files, /run, network.
pub fn settle() -> Result<(), String> {
    mount("", "/", "", libc::MS_REC | libc::MS_PRIVATE, "")?;
    mount("proc", "/proc", "proc", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC, "")?;
    let kept = below_sys(&read("/proc/self/mountinfo")?);
    mount("tmpfs", "/dev/shm", "tmpfs", libc::MS_NOSUID | libc::MS_NODEV, "mode=1777")?;
    // What is below /sys is put beside it while /sys is mounted anew for this network namespace.
    let aside = Path::new("/dev/shm/sys");
    for (number, path) in kept.iter().enumerate() {
        let at = aside.join(number.to_string());
        fs::create_dir_all(&at).map_err(|why| format!("{}: {why}", at.display()))?;
        mount(path, &at.to_string_lossy(), "", libc::MS_BIND | libc::MS_REC, "")?;
    }
    mount("sysfs", "/sys", "sysfs", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC, "")?;
    for (number, path) in kept.iter().enumerate() {
        let at = aside.join(number.to_string());
        mount(&at.to_string_lossy(), path, "", libc::MS_BIND | libc::MS_REC, "")?;
        let at_c = c_string(&at.to_string_lossy())?;
        // SAFETY: the path is a C string that lives until the call returns.
        unsafe { libc::umount2(at_c.as_ptr(), libc::MNT_DETACH) };
    }
    let _ = fs::remove_dir_all(aside);
    private_run()?;
    network()
}

/// Writes to /run and to the containers' store go to memory that is this test's own.
fn private_run() -> Result<(), String> {
    for folder in ["/run", "/var/lib/containers"] {
        if !Path::new(folder).is_dir() {
            continue;
        }
        if folder == "/run" {
            let upper = Path::new("/dev/shm/.run");
            for part in ["upper", "work"] {
                let part = upper.join(part);
                fs::create_dir_all(&part).map_err(|why| format!("{}: {why}", part.display()))?;
            }
            let options = "lowerdir=/run,upperdir=/dev/shm/.run/upper,workdir=/dev/shm/.run/work";
            mount("overlay", folder, "overlay", libc::MS_NOSUID, options)?;
            // Engines put overlays of their own there, which cannot be over an overlay.
            let engines = "/run/containers";
            fs::create_dir_all(engines).map_err(|why| format!("{engines}: {why}"))?;
            mount("tmpfs", engines, "tmpfs", libc::MS_NOSUID, "mode=700")?;
        } else {
            mount("tmpfs", folder, "tmpfs", 0, "mode=755")?;
        }
    }
    Ok(())
}

/// Folders below /sys on which something is mounted, without those below another of them.
fn below_sys(mountinfo: &str) -> Vec<String> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).filter(|point| point.starts_with("/sys/"));
    let mut kept: Vec<String> = Vec::new();
    let mut points: Vec<&str> = points.collect();
    points.sort_unstable();
    for point in points {
        let inside = |outer: &String| {
            point.strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if !kept.iter().any(inside) {
            kept.push(point.to_owned());
        }
    }
    kept
}

/// Loopback, and a bridge with an address: programs that look for addresses of this machine (`AI_ADDRCONFIG`) leave out loopback.
fn network() -> Result<(), String> {
    // SAFETY: socket takes numbers, and what it gives is owned by the descriptor alone.
    let socket = unsafe {
        OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?)
    };
    up(&socket, "lo")?;
    // SAFETY: the name is a C string that lives until the call returns.
    let made = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCBRADDBR, MACHINE.as_ptr()) };
    // A kernel without bridges has no tests of bridges either.
    if made != 0 {
        return Ok(());
    }
    let name = MACHINE.to_string_lossy();
    for (request, address) in [(libc::SIOCSIFADDR, ADDRESS), (libc::SIOCSIFNETMASK, NETMASK)] {
        let mut with_address = interface(&name);
        // SAFETY: all zeros is a valid address of no family.
        let mut of = unsafe { std::mem::zeroed::<libc::sockaddr_in>() };
        of.sin_family = FAMILY;
        of.sin_addr.s_addr = u32::from_ne_bytes(address);
        // SAFETY: both are 16 bytes, and the kernel reads the one by its family as the other.
        with_address.ifr_ifru.ifru_addr = unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(of) };
        // SAFETY: the request lives until the call returns.
        checked(unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut with_address) })?;
    }
    up(&socket, &name)
}

/// The bridge, with an address of the range that is set apart for benchmarks (RFC 2544).
const MACHINE: &CStr = c"machine";
const ADDRESS: [u8; 4] = [198, 18, 0, 2];
const NETMASK: [u8; 4] = [255, 254, 0, 0];
/// `AF_INET` and `IFF_UP` as they are in an address and a request.
const FAMILY: libc::sa_family_t = 2;
const UP: libc::c_short = 1;
/// `linux/sockios.h`: makes a bridge of a name.
const SIOCBRADDBR: libc::c_ulong = 0x89a0;

fn up(socket: &OwnedFd, name: &str) -> Result<(), String> {
    let mut request = interface(name);
    request.ifr_ifru.ifru_flags = UP;
    // SAFETY: the request lives until the call returns.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) }).map(drop)
}

/// A request for the interface of this name.
fn interface(name: &str) -> libc::ifreq {
    // SAFETY: an interface request is plain numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request
}

fn checked(result: libc::c_int) -> Result<libc::c_int, String> {
    if result < 0 { Err(format!("network of a test: {}", io::Error::last_os_error())) } else { Ok(result) }
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|why| format!("{path}: {why}"))
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|why| format!("{text}: {why}"))
}

fn mount(from: &str, to: &str, kind: &str, flags: libc::c_ulong, options: &str) -> Result<(), String> {
    let (from_c, to_c, kind_c, options_c) = (c_string(from)?, c_string(to)?, c_string(kind)?, c_string(options)?);
    // SAFETY: the strings live until the call returns.
    let done =
        unsafe { libc::mount(from_c.as_ptr(), to_c.as_ptr(), kind_c.as_ptr(), flags, options_c.as_ptr().cast()) };
    if done == 0 { Ok(()) } else { Err(format!("mount {kind} {from} on {to}: {}", io::Error::last_os_error())) }
}

#[cfg(test)]
mod tests {
    use super::below_sys;

    #[test]
    fn the_outermost_mounts_below_sys_are_kept() {
        let line = |point: &str| format!("30 20 0:27 / {point} rw,relatime - cgroup cgroup rw\n");
        let info: String =
            ["/", "/sys", "/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/kernel/debug", "/sysother", "/sys/fs/cgroup"]
                .map(line)
                .concat();
        assert_eq!(below_sys(&info), ["/sys/fs/cgroup", "/sys/kernel/debug"]);
    }
}
