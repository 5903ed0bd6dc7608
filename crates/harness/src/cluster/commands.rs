//! Commands of the application, which load, reset and check its data, and the arguments that connect them and its servers.

use super::{Checked, Cluster, ClusterError, DATABASE_PASSWORD};
use crate::leaving::STOP_LIMIT;
use baremark_services::auction::PASSWORD_FILE;
use baremark_services::card::Tier;
use baremark_services::place::{Native, Place};
use baremark_services::service::Instance;
use baremark_services::users::as_user;
use baremark_sys::confine::{self, Limits};
use baremark_sys::{ending, subreaper};
use std::io::Read;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Cluster {
    /// The database as it is reached from there.
    fn database_url(&self, place: &dyn Place) -> String {
        if let Some(external) = &self.external {
            return external.url(place);
        }
        let address = self.instances.get(&Tier::Database).and_then(|list| list.first()).map(Instance::address);
        match (self.plan.database.as_str(), address.map(|address| place.reaches(address))) {
            ("postgres", Some(address)) => format!("postgres://auction@{address}/auction"),
            ("mariadb", Some(address)) => format!("mysql://auction@{address}/auction"),
            _ => format!("sqlite:{}", self.sqlite_folder().join("auction.db").display()),
        }
    }

    /// Arguments that connect a command with the database.
    fn wiring(&self) -> Vec<String> {
        vec!["--database".to_owned(), self.database_url(&Native)]
    }

    /// Arguments that connect a server at a place with the database, the bus and those who call it at `address`.
    pub(super) fn server_wiring(&self, address: SocketAddr, place: &dyn Place) -> Vec<String> {
        let redis = self.instances.get(&Tier::Bus).and_then(|list| list.first()).map(Instance::address);
        let bus = redis.map_or_else(|| self.plan.bus.clone(), |address| format!("redis://{}", place.reaches(address)));
        let mut wiring: Vec<String> =
            ["--database", &self.database_url(place), "--bus", &bus, "--images", &self.images()]
                .map(str::to_owned)
                .into();
        // In a place with a network of its own others reach it elsewhere than where it listens.
        if place.listens(address) != address {
            wiring.extend(["--advertise".to_owned(), place.advertises(address).to_string()]);
        }
        wiring
    }

    fn images(&self) -> String {
        match self.plan.images.as_str() {
            "files" => format!("files:{}", self.own_folder().join("images").display()),
            other => other.to_owned(),
        }
    }

    pub(super) fn load(&self, seed: u64) -> Result<(), ClusterError> {
        let durable = self.plan.tiers.get(&Tier::App).map_or("on", |plan| plan.settings.word("durable")).to_owned();
        let mut args = self.wiring();
        let password = self.own_folder().join("password").display().to_string();
        for (key, value) in [
            ("--max-users", self.plan.max_users.to_string()),
            ("--seed", seed.to_string()),
            ("--history", format!("{:.3}", self.plan.history)),
            ("--password-file", password),
            ("--argon2", self.plan.argon2.clone()),
            ("--images", self.images()),
            ("--durable", durable),
        ] {
            args.extend([key.to_owned(), value]);
        }
        self.command("load", args).map(drop)
    }

    /// Puts the live auctions back to where the load left them. App servers must not run meanwhile: they are started anew.
    ///
    /// # Errors
    /// When a server does not come back, or the command fails.
    pub fn reset(&mut self) -> Result<(), ClusterError> {
        for instance in self.instances.get_mut(&Tier::App).into_iter().flatten() {
            instance.stop(STOP_LIMIT);
        }
        self.command("reset", self.wiring())?;
        let interrupt = Arc::clone(&self.around.interrupt);
        for instance in self.instances.get_mut(&Tier::App).into_iter().flatten() {
            instance.restart()?;
            instance.wait_ready(&interrupt)?;
        }
        Ok(())
    }

    /// Whether no bid was lost, nothing sold twice, and the money adds up.
    ///
    /// # Errors
    /// When the check could not be made.
    pub fn check_invariants(&self) -> Result<Checked, ClusterError> {
        let mut args = self.wiring();
        let servers = self.instances.get(&Tier::App).into_iter().flatten();
        for server in servers.filter(|server| !self.killed.contains(server.name())) {
            args.extend(["--server".to_owned(), server.address().to_string()]);
        }
        let (code, out, said) = self.ask("check", args)?;
        let report =
            out.lines().rev().find_map(|line| serde_json::from_str(line).ok()).unwrap_or(serde_json::Value::Null);
        match code {
            Some(0) => Ok(Checked { valid: true, report }),
            Some(4) => Ok(Checked { valid: false, report }),
            _ => Err(failed("check", code, &said)),
        }
    }

    fn command(&self, command: &'static str, args: Vec<String>) -> Result<String, ClusterError> {
        match self.ask(command, args)? {
            (Some(0), out, _) => Ok(out),
            (code, _, said) => Err(failed(command, code, &said)),
        }
    }

    /// Runs a command of the application to its end: exit code, output, and the last that it said.
    fn ask(&self, command: &'static str, args: Vec<String>) -> Result<(Option<i32>, String, String), ClusterError> {
        let io = |source| ClusterError::Io { what: format!("running baremark auction {command}"), source };
        let secret = self.database_secret();
        let program = &self.around.program;
        let mut process = self.owner.map_or_else(|| Command::new(program), |owner| as_user(program, owner));
        process.args(["auction", command]).args(args);
        process.arg(PASSWORD_FILE).arg(self.own_folder().join(DATABASE_PASSWORD));
        process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let _held = confine::hold(&mut process, &Limits::default(), confine::SIGKILL).map_err(io)?;
        let mut child = subreaper::start(&mut process).map_err(io)?;
        let readers = [child.stdout.take().map(read_all), child.stderr.take().map(read_all)];
        let is_interrupted = || self.around.interrupt.load(Ordering::Relaxed);
        let Some(status) = ending::wait_until(&mut child, is_interrupted).map_err(io)? else {
            ending::kill(&mut child);
            return Err(ClusterError::Interrupted);
        };
        let [out, said] = readers.map(|reader| reader.and_then(|reader| reader.join().ok()).unwrap_or_default());
        Ok((status.code(), out, said.replace(secret, "***")))
    }
}

fn failed(command: &'static str, code: Option<i32>, said: &str) -> ClusterError {
    let last: Vec<&str> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
    let said = last.into_iter().rev().collect::<Vec<_>>().join(" | ");
    ClusterError::Command {
        command,
        code: code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}")),
        said,
    }
}

fn read_all(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        drop((&mut stream).take(16 << 20).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
