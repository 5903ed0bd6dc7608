//! Programs that run as other users: their folders, their environment, and the commands that start them.

use baremark_sys::acl;
use baremark_sys::private_folder::directory::Directory;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Variables of this program's environment that a service gets, the loader's among them, by which databases get another allocator; it has a
/// folder of its own as HOME.
const ENVIRONMENT: [&str; 6] = ["PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "LD_PRELOAD"];

/// Makes a folder of mode 0700 for a user who is to run programs in it (absent: this one), and lets that user pass through those that it is in.
///
/// They are private to us: that user alone may pass, through the folder that was named for them too, if that is private to us as well. The
/// permissions of another are left as they are.
///
/// # Errors
/// A folder on the way through which the user may not pass, with the remedy; what making it and setting permissions gave.
pub fn make_for(owner: Option<(u32, u32)>, folder: &Path) -> io::Result<()> {
    if let Some((user, group)) = owner {
        let ours = private(folder.ancestors().skip(1));
        let private_to_us =
            |folder: &&Path| fs::metadata(folder).is_ok_and(|found| found.uid() == 0 && found.mode() & 0o066 == 0);
        let named = ours.last().and_then(|folder| folder.parent()).filter(private_to_us);
        ours.iter().copied().chain(named).try_for_each(|folder| acl::allow_search(folder, user))?;
        for way in folder.ancestors().skip(1).filter(|way| !way.as_os_str().is_empty()) {
            if !acl::may_search(way, (user, group))? {
                let what = format!("user {user}, as which it runs, may not pass through {}", way.display());
                let remedy = format!("name a folder elsewhere, or chmod o+x {}", way.display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{what}; {remedy}")));
            }
        }
    }
    give(owner, &Directory::make_new(folder)?)
}

/// Gives a folder to its owner.
///
/// # Errors
/// What the system says.
pub(crate) fn give(owner: Option<(u32, u32)>, folder: &Directory) -> io::Result<()> {
    owner.map_or(Ok(()), |owner| folder.give_to(owner))
}

/// A command that runs a program as another user, who need not get to where this program itself is.
#[must_use]
pub fn as_user(program: &Path, (user, group): (u32, u32)) -> Command {
    let is_this = std::env::current_exe().is_ok_and(|this| this == *program);
    let mut command = Command::new(if is_this { Path::new("/proc/self/exe") } else { program });
    command.arg0(program).uid(user).gid(group);
    command
}

/// Gives a command the environment of a service: of this program's own the variables that a service gets, and a folder of its own as HOME.
pub fn own_environment(command: &mut Command, home: &Path) {
    command.env_clear().env("HOME", home).envs(environment(std::env::vars_os()));
}

/// What a service gets of an environment.
fn environment(all: impl Iterator<Item = (OsString, OsString)>) -> impl Iterator<Item = (OsString, OsString)> {
    all.filter(|(name, _)| ENVIRONMENT.iter().any(|known| name == known))
}

/// What this program has made of these folders, each in the next: up to one that bears its name, and others that do.
fn private<'f>(folders: impl Iterator<Item = &'f Path>) -> Vec<&'f Path> {
    let named =
        |folder: &Path| folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"baremark-"));
    let folders: Vec<&Path> = folders.collect();
    let first = folders.iter().position(|folder| named(folder)).unwrap_or(folders.len());
    let more = folders[first..].iter().take_while(|folder| named(folder)).count();
    if more == 0 { Vec::new() } else { folders[..first + more].to_vec() }
}

#[cfg(test)]
mod tests {
    use super::{environment, private};
    use std::path::Path;

    #[test]
    fn a_service_gets_none_of_the_variables_that_are_not_listed() {
        let names =
            ["PATH", "BAREMARK_DATABASE_PASSWORD", "PGPASSWORD", "HOME", "AWS_SECRET_ACCESS_KEY", "TZ", "PATHS"];
        let given = environment(names.into_iter().map(|name| (name.into(), "x".into())));
        assert_eq!(given.map(|(name, _)| name).collect::<Vec<_>>(), ["PATH", "TZ"]);
    }

    #[test]
    fn folders_of_others_are_left_as_they_are() {
        let of =
            |path: &'static str| private(Path::new(path).ancestors()).into_iter().map(|one| one.to_str()).collect();
        let found: Vec<_> = of("/root/baremark-src/tmp/baremark-services-1-0/main");
        let folder = "/root/baremark-src/tmp/baremark-services-1-0";
        assert_eq!(found, [Some("/root/baremark-src/tmp/baremark-services-1-0/main"), Some(folder)]);
        let found: Vec<_> = of("/tmp/baremark-files-1/baremark-files-2");
        assert_eq!(found, [Some("/tmp/baremark-files-1/baremark-files-2"), Some("/tmp/baremark-files-1")]);
        assert_eq!(of("/root/somewhere/else"), Vec::<Option<&str>>::new());
    }
}
