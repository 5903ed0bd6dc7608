//! This machine itself: the agent is a child process of the lab.
//!
//! What holds for every child of the lab holds for it: see `child`.

use crate::child::{self, Piped};
use baremark_model::site::{Environment, Link, Missing, Site, SiteError, loopback};
use baremark_sys::secrets;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The native environment: starts `program agent`.
pub struct Native {
    program: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Native {
    /// With this program as the agent, usually the one that is running.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Native { program, variables: Vec::new() }
    }

    /// The same, with an environment variable that its agents get.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: String) -> Self {
        self.variables.push((name, value));
        self
    }
}

impl Environment for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn probe(&self) -> Result<(), Missing> {
        child::has_its_program(&self.program)
    }

    fn start(&self, _interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        self.probe()?;
        let mut command = Command::new(&self.program);
        command.arg("agent").envs(self.variables.iter().map(|(name, value)| (name, value)));
        secrets::hand_to(&mut command);
        Ok(Box::new(NativeSite(Piped::spawn(&mut command)?)))
    }
}

struct NativeSite(Piped);

impl Site for NativeSite {
    fn link(&mut self) -> Option<Link> {
        self.0.link()
    }

    fn leave(&mut self, limit: Duration) {
        self.0.ends_within(limit);
    }

    fn kill(&mut self) {
        self.0.kill();
    }

    fn log(&self) -> Vec<String> {
        self.0.log()
    }

    fn reach(&mut self, there: u16, _here: u16) -> Result<SocketAddr, SiteError> {
        Ok(loopback(there))
    }

    fn offer(&mut self, here: u16, _there: u16) -> Result<SocketAddr, SiteError> {
        Ok(loopback(here))
    }

    fn sees(&mut self, address: SocketAddr) -> Result<SocketAddr, SiteError> {
        Ok(address)
    }
}
