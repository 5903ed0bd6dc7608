//! The peers: single tests of the HPC Challenge, as scripts/bench-peers has built them.

use crate::Outcome;
use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Their folder.
pub struct Peers {
    folder: PathBuf,
    core: OnceCell<String>,
}

/// One run of one test.
pub struct Run {
    text: String,
}

/// What a run is asked for.
#[derive(Clone, Copy)]
pub struct Asked {
    /// The test, as the HPC Challenge's flags name it.
    pub test: &'static str,
    /// MPI processes, each bound to a core.
    pub processes: usize,
    /// Equations of HPL, from which the other tests take their sizes.
    pub n: u64,
    /// HPL's block size.
    pub nb: u64,
}

impl Peers {
    /// The folder that $BAREMARK_PEERS names, if the program is there.
    pub fn find() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os("BAREMARK_PEERS")?);
        folder.join("hpcc").is_file().then_some(Peers { folder, core: OnceCell::new() })
    }

    /// Their folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs one test in large pages.
    ///
    /// # Errors
    /// When it does not start, fails, or says that its own check failed.
    pub fn run(&self, asked: Asked) -> Outcome<Run> {
        self.run_program(&self.folder.join("hpcc"), Some(asked.test), asked)
    }

    /// Runs the packaged program, all of its tests.
    ///
    /// # Errors
    /// As [`Peers::run`].
    pub fn run_packaged(&self, asked: Asked) -> Outcome<Run> {
        self.run_program(Path::new("hpcc"), None, asked)
    }

    /// Runs all tests of the program that was built.
    ///
    /// # Errors
    /// As [`Peers::run`].
    pub fn run_all(&self, asked: Asked) -> Outcome<Run> {
        self.run_program(&self.folder.join("hpcc"), None, asked)
    }

    /// The processor that OpenBLAS has chosen its kernels for; once a run was made.
    pub fn core(&self) -> &str {
        self.core.get().map_or("unknown", String::as_str)
    }

    fn run_program(&self, program: &Path, only: Option<&str>, asked: Asked) -> Outcome<Run> {
        let folder = self.folder.join("run");
        fs::create_dir_all(&folder)?;
        let output = folder.join("hpccoutf.txt");
        if output.exists() {
            fs::remove_file(&output)?;
        }
        let input = fs::read_to_string(self.folder.join("input"))?;
        fs::write(folder.join("hpccinf.txt"), filled(&input, asked))?;
        let mut command = Command::new("mpirun");
        command.args(["--allow-run-as-root", "--bind-to", "core", "-np", &asked.processes.to_string()]).arg(program);
        command.current_dir(&folder).stdin(Stdio::null());
        command
            .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
            .env("OPENBLAS_VERBOSE", "2")
            .env("OPENBLAS_NUM_THREADS", "1");
        if let Some(only) = only {
            command.env("HPCC_ONLY", only);
        }
        let done = command.output().map_err(|why| format!("mpirun: {why}"))?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        if let Some(core) = said.lines().find_map(|line| line.strip_prefix("Core: ")) {
            drop(self.core.set(core.trim().to_owned()));
        }
        if !done.status.success() {
            return Err(format!("{} ended with {}: {}", program.display(), done.status, said.trim()).into());
        }
        let run = Run { text: fs::read_to_string(&output)? };
        if run.value("Success")? < 1.0 {
            return Err(format!("{} says that a check of its own failed; see {}", asked.test, output.display()).into());
        }
        Ok(run)
    }
}

impl Run {
    /// The value of a line `name=value` of the summary.
    ///
    /// # Errors
    /// When there is none, or the test was not run.
    pub fn value(&self, name: &str) -> Outcome<f64> {
        let line = self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let value: f64 = line.ok_or_else(|| format!("the summary has no {name}"))?.trim().parse()?;
        if value < 0.0 { Err(format!("{name} was not measured").into()) } else { Ok(value) }
    }
}

/// The input file that comes with the source, with our sizes: one row of processes.
fn filled(input: &str, asked: Asked) -> String {
    let line = |line: &str| {
        let value = match line.split_once(char::is_whitespace).map(|(_, rest)| rest.trim()) {
            Some("Ns") => asked.n.to_string(),
            Some("NBs") => asked.nb.to_string(),
            Some("Ps") => "1".to_owned(),
            Some("Qs") => asked.processes.to_string(),
            _ => return line.to_owned(),
        };
        let name = line.split_ascii_whitespace().last().unwrap_or_default();
        format!("{value} {name}")
    };
    input.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}
