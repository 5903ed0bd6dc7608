//! The application in processes of its own, which end with the test that started them.

use crate::http::until;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

/// A cheap password hash: these tests are not about its cost.
const COST: &str = "64,1";

fn command(arguments: &[String]) -> Command {
    // What it keeps to itself may not hang on the umask of whoever starts it.
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "application::application", "--ignored", "--nocapture"]);
    command.env("AUCTION_ARGUMENTS", arguments.join("\u{1f}"));
    command.stdin(Stdio::piped());
    command
}

/// Lines of JSON among what a test process prints.
fn documents(output: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Runs a command to its end: exit code, its JSON, its standard error.
pub fn run(arguments: &[String]) -> (i32, Value, String) {
    let child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Held open until the end: its end would end the command.
    let (output, _input) = {
        let mut child = child;
        let input = child.stdin.take();
        (child.wait_with_output().unwrap(), input)
    };
    let document = documents(&output).into_iter().find(Value::is_object).unwrap_or(Value::Null);
    (output.status.code().unwrap_or(-1), document, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// One site: its database and the password of its users.
pub struct Site {
    pub database: String,
    pub password: String,
    lease: &'static str,
    more: Vec<String>,
}

/// Longer than any pause of a server that lives, so that nobody takes its auctions over.
const LEASE: &str = "10s";

impl Site {
    /// Loads a small site.
    pub fn load(database: &str, folder: &Path, max_users: u32) -> Site {
        Site::load_drawn(database, folder, max_users, "memory")
    }

    /// The same, with images in that place.
    pub fn load_drawn(database: &str, folder: &Path, max_users: u32, images: &str) -> Site {
        let file = folder.join("password");
        let words = ["load", "--database", database, "--max-users", &max_users.to_string(), "--history", "0.2"];
        let mut arguments: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let path = file.to_str().unwrap().to_owned();
        arguments.extend(["--password-file".to_owned(), path, "--argon2".to_owned(), COST.to_owned()]);
        arguments.extend(["--images".to_owned(), images.to_owned()]);
        let (code, loaded, err) = run(&arguments);
        assert_eq!(code, 0, "{err}");
        assert_eq!(loaded["accounts"], 5 * max_users);
        assert_eq!(loaded["images"].as_i64() > Some(0), images != "memory");
        assert!(err.contains("past auctions: "), "no progress: {err}");
        let password = std::fs::read_to_string(&file).unwrap().trim().to_owned();
        assert!(!format!("{loaded}{err}").contains(&password), "the password was told");
        let more = vec!["--images".to_owned(), images.to_owned()];
        Site { database: database.to_owned(), password, lease: LEASE, more }
    }

    /// A site that is loaded already, its password in `folder`.
    pub fn loaded(database: &str, folder: &Path) -> Site {
        let password = std::fs::read_to_string(folder.join("password")).unwrap().trim().to_owned();
        Site { database: database.to_owned(), password, lease: LEASE, more: Vec::new() }
    }

    /// Further settings for all servers.
    pub fn with(mut self, more: &[&str]) -> Site {
        self.more.extend(more.iter().map(|&word| word.to_owned()));
        self
    }

    /// How soon a server that gives no sign of life is taken for dead. Servers hear of each other's news four times in that time.
    pub fn set_lease(&mut self, lease: &'static str) {
        self.lease = lease;
    }

    /// Serves it with short times.
    pub fn serve(&self, open: &str) -> Server {
        self.serve_with(&["--open", open, "--last-call", open])
    }

    pub fn serve_with(&self, more: &[&str]) -> Server {
        let mut arguments: Vec<String> = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--lease",
            self.lease,
            "--drain",
            "300ms",
            "--database",
            &self.database,
        ]
        .iter()
        .map(|&word| word.to_owned())
        .collect();
        // SQLite's processes wait for each other, also while the machine is slow or stopped.
        if !self.more.iter().any(|word| word == "--patience") {
            arguments.extend(["--patience", "60s"].map(str::to_owned));
        }
        arguments.extend(self.more.iter().cloned());
        arguments.extend(more.iter().map(|&word| word.to_owned()));
        Server::start(&arguments)
    }

    /// Runs `check`; exit code and what it found.
    pub fn check(&self, servers: &[&Server]) -> (i32, Value) {
        let mut arguments = vec!["check".to_owned(), "--database".to_owned(), self.database.clone()];
        servers.iter().for_each(|server| arguments.extend(["--server".to_owned(), server.address.clone()]));
        let (code, found, err) = run(&arguments);
        assert!(found.is_object(), "exit code {code}: {err}");
        (code, found)
    }

    /// `check` finds nothing, once the servers have caught up.
    pub fn holds(&self, servers: &[&Server]) -> Value {
        until(&format!("a green check, the last says {}", self.check(servers).1), || {
            let (code, found) = self.check(servers);
            (code == 0).then_some(found)
        })
    }
}

pub struct Server {
    pub address: String,
    pub child: Child,
    /// Its end would end the server, and waiting for a child closes what it holds itself.
    _input: ChildStdin,
    /// Kept open: the test harness in the child says on it, after a minute, that it still runs.
    _output: BufReader<ChildStdout>,
}

impl Server {
    fn start(arguments: &[String]) -> Server {
        let mut child = command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while output.read_line(&mut line).unwrap() > 0 {
            if let Ok(Value::Object(ready)) = serde_json::from_str(&line) {
                let address = ready["address"].as_str().unwrap().to_owned();
                let input = child.stdin.take().unwrap();
                return Server { address, child, _input: input, _output: output };
            }
            line.clear();
        }
        panic!("the server ended before it was ready: {:?}", child.wait());
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &pid]).status().unwrap();
        assert!(status.success());
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and its exit code.
    pub fn end(mut self) -> i32 {
        self.signal("TERM");
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    pub fn ready(&self) -> Value {
        crate::http::send(&self.address, "GET", "/ready", &[], b"").map_or(Value::Null, |answer| answer.json())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
