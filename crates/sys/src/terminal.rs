//! A terminal whose keys are heard one by one, given back as it was.

use crate::calls::checked;
use std::io;
use std::mem;
use std::time::Duration;

/// Keys come at once and are not shown, until this is dropped.
#[derive(Debug)]
pub struct Keys {
    before: libc::termios,
}

impl Keys {
    /// Takes standard input's terminal; `None` where it is none.
    #[must_use]
    pub fn take() -> Option<Self> {
        // SAFETY: a termios is plain numbers; all zeros is a valid one.
        let mut settings: libc::termios = unsafe { mem::zeroed() };
        // SAFETY: `settings` is a termios that lives through the call.
        if unsafe { libc::tcgetattr(libc::STDIN_FILENO, &raw mut settings) } != 0 {
            return None;
        }
        let before = settings;
        settings.c_lflag &= !(libc::ICANON | libc::ECHO);
        set(&settings).ok().map(|()| Keys { before })
    }

    /// The next key within `limit`; `None` when there was none, or the terminal is gone.
    #[must_use]
    pub fn next(&self, limit: Duration) -> Option<u8> {
        let mut watched = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
        let limit = libc::c_int::try_from(limit.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: one pollfd, which lives through the call.
        if unsafe { libc::poll(&raw mut watched, 1, limit) } < 1 {
            return None;
        }
        let mut key = 0_u8;
        // SAFETY: one byte, which lives through the call.
        let got = unsafe { libc::read(libc::STDIN_FILENO, (&raw mut key).cast(), 1) };
        (got == 1).then_some(key)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        drop(set(&self.before));
    }
}

fn set(settings: &libc::termios) -> io::Result<()> {
    // SAFETY: `settings` is a termios that lives through the call.
    checked(unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, settings) }).map(drop)
}

/// Lines and columns of the terminal at standard output or error; `None` where neither is one.
#[must_use]
pub fn size() -> Option<(usize, usize)> {
    [libc::STDOUT_FILENO, libc::STDERR_FILENO].into_iter().find_map(|descriptor| {
        // SAFETY: a winsize is plain numbers; all zeros is a valid one.
        let mut size: libc::winsize = unsafe { mem::zeroed() };
        // SAFETY: TIOCGWINSZ writes a winsize to `size`, which lives through the call.
        let rc = unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size) };
        (rc == 0 && size.ws_col > 0 && size.ws_row > 0).then_some((usize::from(size.ws_row), usize::from(size.ws_col)))
    })
}
