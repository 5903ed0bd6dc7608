//! Programs that a lab starts at a site, over the wire.

use baremark_agent::interrupt::Interrupt;
use baremark_agent::runner::Runners;
use baremark_agent::serve::{Means, serve};
use baremark_model::spawned::{PutFile, Spawn, SpawnLimits, Spawned};
use baremark_model::wire::{FromAgent, ToAgent, read_frame, write_frame};
use baremark_sys::affinity;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Asks an agent and takes its answer.
struct Talk(UnixStream);

impl Talk {
    fn ask(&mut self, what: &ToAgent) -> FromAgent {
        write_frame(&mut self.0, what).unwrap();
        read_frame(&mut self.0).unwrap()
    }

    fn spawned(&mut self, what: &ToAgent) -> Spawned {
        match self.ask(what) {
            FromAgent::Spawned(spawned) => spawned,
            other => panic!("{other:?}"),
        }
    }

    fn refused(&mut self, what: &ToAgent) -> String {
        match self.ask(what) {
            FromAgent::Failed { what, why } => format!("{what}: {why}"),
            other => panic!("{other:?}"),
        }
    }

    /// Asks until a program's state is as requested.
    fn until(&mut self, name: &str, wanted: impl Fn(&Spawned) -> bool) -> Spawned {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let spawned = self.spawned(&ToAgent::Tell { name: name.to_owned() });
            if wanted(&spawned) {
                return spawned;
            }
            assert!(Instant::now() < deadline, "waited in vain: {spawned:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn put(name: &str, content: &str, append: bool) -> ToAgent {
    let content = content.as_bytes().to_vec();
    ToAgent::PutFile(PutFile { name: name.to_owned(), append, executable: true, content })
}

fn spawn(name: &str, program: &str, arguments: &[&str]) -> ToAgent {
    ToAgent::Spawn(Spawn {
        name: name.to_owned(),
        program: Some(program.to_owned()),
        arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
        environment: BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]),
        limits: SpawnLimits::default(),
    })
}

fn lives(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn files_and_programs_come_and_nothing_of_them_stays() {
    let (lab, mut agent) = UnixStream::pair().unwrap();
    let served = thread::spawn(move || {
        // What it starts is there, too.
        affinity::pin_current_thread(affinity::allowed_cpus().unwrap()[0]).unwrap();
        let mut output = agent.try_clone().unwrap();
        serve(
            &mut agent,
            &mut output,
            Means { runners: Runners::default(), interrupt: &Interrupt::default(), tender: None },
        )
    });
    let mut talk = Talk(lab);
    // It fills 32 MiB on one CPU. Since Linux 6.2 as many pages of one CPU as the machine has CPUs, twice, may be missing in the sum: 16 MiB on 2048.
    let script = "#!/bin/sh\nx=$(head -c 33554432 /dev/zero | tr '\\0' x); echo $GREETING; sleep 600 &\n";
    let FromAgent::FilePut { path } = talk.ask(&put("script", script, false)) else { panic!("no file") };
    talk.ask(&put("script", "echo $!; wait\n", true));
    let started = talk.spawned(&spawn("first", &path, &[]));
    assert!(started.pid > 0 && started.ended.is_none(), "{started:?}");
    let running = talk.until("first", |state| state.log.len() == 2);
    assert_eq!((running.log[0].as_str(), running.lines), ("hello", 2));
    assert!(running.used.processes > 0 && running.used.resident_bytes >= 16 << 20, "{running:?}");
    let forked = running.log[1].clone();
    assert!(lives(&forked));
    let why = talk.refused(&spawn("first", &path, &[]));
    assert_eq!(why, "the start of first: a program called first runs already; stop it first");
    let ended = talk.spawned(&ToAgent::Stop { name: "first".to_owned(), grace_ns: 60_000_000_000 });
    assert!(ended.ended.is_some_and(|how| how.contains("SIGTERM")), "{:?}", ended.log);
    let deadline = Instant::now() + Duration::from_secs(60);
    while lives(&forked) {
        assert!(Instant::now() < deadline, "what it forked is left");
        thread::sleep(Duration::from_millis(5));
    }
    let again = talk.spawned(&spawn("first", "sh", &["-c", "echo bye >&2; exit 3"]));
    assert_ne!(again.pid, started.pid);
    let ended = talk.until("first", |state| state.ended.is_some() && !state.log.is_empty());
    assert_eq!((ended.ended.as_deref(), ended.log), (Some("exit status: 3"), vec!["bye".to_owned()]));
    let lasting = talk.spawned(&spawn("second", "sleep", &["600"]));
    for (asked, expected) in [
        (put("../escape", "", false), "the file ../escape: invalid file name: '../escape'"),
        (put("", "", false), "the file : invalid file name: ''"),
        (spawn("third", "/nowhere/program", &[]), "the start of third: starting /nowhere/program: No such file"),
        (
            ToAgent::Tell { name: "fourth".to_owned() },
            "the state of fourth: no program is called fourth; spawn it first",
        ),
    ] {
        let why = talk.refused(&asked);
        assert!(why.starts_with(expected), "{why}");
    }
    assert!(Path::new(&path).exists());
    drop(talk);
    served.join().unwrap().unwrap();
    assert!(!Path::new(&path).parent().unwrap().exists() && !lives(&lasting.pid.to_string()));
}
