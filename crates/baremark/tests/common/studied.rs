//! Studies whose workload is a load or an application, in a bench with a folder for temporary files of its own.

use super::bench::{Bench, signal, text};
use serde_json::Value;
use std::fs;
use std::io::{BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

/// One app server on SQLite under few users; its arms differ in one key.
pub const AUCTION: &str = r#"
[study]
title = "what durability costs the auction"
[workload]
kind = "auction"
users = 20
duration = "200 ms"
warm_up = "50 ms"
size = "quick"
[topology]
max_users = 75
[topology.load]
cycle = "40 ms"
[topology.app.settings]
drain = "10 ms"
[factors]
"app.settings.durable" = ["on", "off"]
[design]
quads = 1
least_blocks = 4
most_blocks = 4
budget = "10 min"
[report]
columns = "app.settings.durable"
ratio_to = { "app.settings.durable" = "on" }
"#;

pub const LOAD: &str = r#"
[study]
title = "what more connections bring"
[workload]
kind = "load"
url = "http://ADDRESS/"
duration = "100 ms"
warm_up = "10 ms"
[factors]
connections = [1, 2]
[design]
quads = 1
least_blocks = 4
most_blocks = 4
[report]
columns = "connections"
ratio_to = { connections = 1 }
"#;

/// A bench of a study, whose agents put their folders into one of its own.
pub struct Studied {
    pub bench: Bench,
}

impl Studied {
    pub fn new(study: &str) -> Studied {
        let bench = Bench::new();
        bench.write("study.toml", study);
        fs::create_dir(bench.path("tmp")).unwrap();
        Studied { bench }
    }

    /// The program, whose agents put their folders into the bench's own.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bench.command(arguments);
        command.env("TMPDIR", self.bench.path("tmp"));
        command
    }

    pub fn start(&self, arguments: &[&str]) -> Running {
        let mut child = self.command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Running { child, log, said: String::new() }
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let text = self.text(arguments);
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{arguments:?}: {why}: {text}"))
    }

    /// What agents have left in their folder.
    pub fn folders(&self) -> Vec<String> {
        let listed = fs::read_dir(self.bench.path("tmp")).unwrap().flatten();
        listed.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    /// Every value that is stored of the newest run, parts of phases included; none where there is no run yet.
    pub fn stored(&self) -> Vec<String> {
        let csv = text(&self.run(&["report", "--csv=trials"]).stdout);
        csv.lines().skip(1).map(str::to_owned).collect()
    }
}

/// A run under way, and what it has said.
pub struct Running {
    pub child: Child,
    pub log: BufReader<std::process::ChildStderr>,
    pub said: String,
}

impl Running {
    pub fn end(mut self, with: i32) -> (Option<i32>, String) {
        signal(self.child.id(), with);
        self.log.read_to_string(&mut self.said).unwrap();
        (self.child.wait().unwrap().code(), self.said)
    }
}
