//! Files and programs at a site: what whoever uses a site asks of its agent alongside trials.

use crate::link::{AgentLink, LinkError};
use baremark_model::site::{Site, SiteError, loopback};
use baremark_model::spawned::{LONGEST_PIECE, PutFile, Spawn, Spawned};
use baremark_model::wire::{FromAgent, ToAgent};
use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// How long the agent may take for a piece of a file, a start or an account, in addition to what was granted.
const LIMIT: Duration = Duration::from_secs(30);

impl AgentLink<'_> {
    /// Puts a file into the agent's folder, which is gone with the agent, and returns its path at the site.
    ///
    /// # Errors
    /// When `name` is not a name of a file, when reading fails, or when the site has no room.
    pub fn put(&mut self, name: &str, content: &mut dyn Read, executable: bool) -> Result<String, LinkError> {
        let mut append = false;
        loop {
            let mut piece = Vec::new();
            let reading = SiteError::io(format!("reading what is put as {name}"));
            content.take(LONGEST_PIECE as u64).read_to_end(&mut piece).map_err(reading)?;
            let last = piece.len() < LONGEST_PIECE;
            let file = PutFile { name: name.to_owned(), append, executable, content: piece };
            let path = match self.ask("take a file", &ToAgent::PutFile(file), LIMIT)? {
                FromAgent::FilePut { path } => path,
                other => return Err(LinkError::OutOfTurn(format!("{other:?}"))),
            };
            if last {
                return Ok(path);
            }
            append = true;
        }
    }

    /// Puts a file of this machine there, which can be executed if this one can, and returns its path at the site.
    ///
    /// # Errors
    /// As [`AgentLink::put`].
    pub fn put_file(&mut self, name: &str, file: &Path) -> Result<String, LinkError> {
        let opened = || -> io::Result<(File, bool)> {
            let opened = File::open(file)?;
            let executable = opened.metadata()?.permissions().mode() & 0o111 != 0;
            Ok((opened, executable))
        };
        let (mut content, executable) = opened().map_err(SiteError::io(format!("reading {}", file.display())))?;
        self.put(name, &mut content, executable)
    }

    /// Starts a program there. It and all that it starts end when [`AgentLink::stop`] says so, or with the site.
    ///
    /// # Errors
    /// When its name is taken or it cannot be started.
    pub fn spawn(&mut self, program: &Spawn) -> Result<Spawned, LinkError> {
        self.spawned("start a program", &ToAgent::Spawn(program.clone()), LIMIT)
    }

    /// How a program is doing, with its last lines.
    ///
    /// # Errors
    /// When nobody has that name, or the agent is lost.
    pub fn tell(&mut self, name: &str) -> Result<Spawned, LinkError> {
        self.spawned("report the state of a program", &ToAgent::Tell { name: name.to_owned() }, LIMIT)
    }

    /// Ends a program: asks it to, and ends it and all that it has started when it has not after `grace`.
    ///
    /// # Errors
    /// When nobody has that name, or the agent is lost.
    pub fn stop(&mut self, name: &str, grace: Duration) -> Result<Spawned, LinkError> {
        let grace_ns = u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX);
        self.spawned("end a program", &ToAgent::Stop { name: name.to_owned(), grace_ns }, grace + LIMIT)
    }

    /// Brings a file of this machine there once, under a name of our own, and returns its path at the site.
    pub(crate) fn bring(&mut self, file: &str) -> Result<String, LinkError> {
        if let Some(path) = self.provisioned.brought.get(file) {
            return Ok(path.clone());
        }
        let name = format!("brought-{}", self.provisioned.brought.len());
        let path = self.put_file(&name, Path::new(file))?;
        self.provisioned.brought.insert(file.to_owned(), path.clone());
        Ok(path)
    }

    /// Where the site reaches a port of this machine's loopback.
    pub(crate) fn offer(&mut self, here: u16) -> Result<SocketAddr, LinkError> {
        if let Some(address) = self.provisioned.offered.get(&here) {
            return Ok(*address);
        }
        let address = self.site.offer(here, free_port()?)?;
        self.provisioned.offered.insert(here, address);
        Ok(address)
    }

    /// The agent's site, for the ways in and out of it.
    pub fn site(&mut self) -> &mut dyn Site {
        &mut *self.site
    }

    fn spawned(&mut self, what: &'static str, message: &ToAgent, limit: Duration) -> Result<Spawned, LinkError> {
        match self.ask(what, message, limit)? {
            FromAgent::Spawned(spawned) => Ok(spawned),
            other => Err(LinkError::OutOfTurn(format!("{other:?}"))),
        }
    }

    fn ask(&mut self, what: &'static str, message: &ToAgent, limit: Duration) -> Result<FromAgent, LinkError> {
        self.send(message)?;
        self.receive(what, limit)
    }
}

/// A port of this machine's loopback that is free now. Where another machine needs one, it is most likely free there as well.
pub(crate) fn free_port() -> Result<u16, SiteError> {
    let bound = TcpListener::bind(loopback(0)).and_then(|bound| bound.local_addr());
    bound.map(|address| address.port()).map_err(SiteError::io("looking for a free port"))
}
