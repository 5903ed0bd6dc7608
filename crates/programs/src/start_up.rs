//! `start-up`: how long a small server takes in a place until its first instruction, until it listens, and until its first request is
//! answered.
//!
//! The server is that of [`crate::small_server`]. All times begin just before the launching program is started: for a container that is
//! the engine's client, for a guest QEMU. Each start has a fresh place, and its end is not measured.

use crate::density::{FIRST_BYTES, leaves_reserve};
use crate::runs;
use crate::server_failure::ServerFailure;
use crate::small_server::{ACCEL, CACHE, GUEST_MEMORY, KERNEL, Launcher, PLACE, RUNTIME};
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::Descriptor;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::knob::{Default, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Sample;
use baremark_sys::clock::monotonic_ns;
use baremark_sys::process;
use std::thread;
use std::time::{Duration, Instant};

const AT_ONCE: Knob = Knob::new("at_once", Kind::Count { min: 1, max: 64 }, Default::Typed("1"))
    .help("servers that are started at the same moment");

const fn metric(key: &'static str, help: &'static str) -> Metric {
    Metric::lower(key, "ms", Aggregate::Mean).help(help)
}

static METRICS: [Metric; 3] = [
    metric("answered_ms", "until the answer to the first request, of which the connection is part"),
    metric("listening_ms", "until the server listens"),
    metric("began_ms", "until the server's main function runs"),
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "start-up",
    help: "time from the launch of a small server until it runs, listens and has answered, as a process, in the microVM, in a container, in gVisor or in a \
           QEMU guest",
    source: "this program",
    parameters: &[PLACE, RUNTIME, AT_ONCE, CACHE, ACCEL, KERNEL, GUEST_MEMORY],
    metrics: &METRICS,
    ..Descriptor::JOB
};

/// Start-up times.
#[derive(Clone, Copy, Debug)]
pub struct StartUp;

impl Job for StartUp {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let at_once: u64 = AT_ONCE.get(arm)?;
        let launcher = Launcher::of(arm, &around)?;
        let guest = launcher.guest_memory_bytes().unwrap_or(0);
        let (available, total) = (memory(process::available_memory_bytes())?, memory(process::total_memory_bytes())?);
        if guest > 0 && !leaves_reserve(available, at_once * (guest + FIRST_BYTES), total, RESERVE) {
            return Err(JobError::Missing {
                what: format!("less memory is available than a tenth of the machine's and {at_once} guests"),
                remedy: "end other programs, or lower at_once or guest_memory".to_owned(),
            });
        }
        Ok(Box::new(PreparedStarts { launcher, at_once, phase: around.phase }))
    }
}

fn memory(read: std::io::Result<u64>) -> Result<u64, JobError> {
    read.map_err(JobError::failed)
}

/// The share of the machine's memory that guests leave free.
const RESERVE: f64 = 0.1;

struct PreparedStarts {
    launcher: Launcher,
    at_once: u64,
    phase: Duration,
}

/// What a start took, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Start {
    began: f64,
    listening: f64,
    answered: f64,
}

impl ReadyJob for PreparedStarts {
    fn works_in_own_processes(&self) -> bool {
        self.launcher.starts_own_processes()
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        let begun = Instant::now();
        let mut all = Vec::new();
        while all.is_empty() || begun.elapsed() < self.phase {
            for start in self.starts()? {
                all.push(JobRun {
                    samples: vec![
                        Sample::new("answered_ms", start.answered),
                        Sample::new("listening_ms", start.listening),
                        Sample::new("began_ms", start.began),
                    ],
                    checked: "it answered with the bytes of the request".to_owned(),
                    ..JobRun::default()
                });
            }
        }
        let mut joined = runs::joined(all);
        joined.flags.extend(self.launcher.remarks());
        Ok(joined)
    }
}

impl PreparedStarts {
    /// As many starts at the same moment as requested.
    fn starts(&self) -> Result<Vec<Start>, JobError> {
        self.launcher.cool()?;
        let done: Vec<Result<Start, ServerFailure>> = thread::scope(|scope| {
            let all: Vec<_> = (0..self.at_once).map(|_| scope.spawn(|| self.start())).collect();
            all.into_iter().map(|one| one.join().unwrap_or(Err(ServerFailure::Panicked))).collect()
        });
        let all = done.into_iter().collect::<Result<_, _>>();
        all.map_err(|why: ServerFailure| JobError::failed(format!("{}: {why}", self.launcher.place())))
    }

    fn start(&self) -> Result<Start, ServerFailure> {
        let mut server = self.launcher.launch()?;
        server.request()?;
        let answered_ns = monotonic_ns();
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a start")]
        let since = |at_ns: u64| at_ns.saturating_sub(server.started_ns) as f64 / 1e6;
        let start = Start {
            began: since(server.began_ns),
            listening: since(server.listening_ns),
            answered: since(answered_ns),
        };
        server.end().map(|()| start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::study;

    /// A study of an earlier version varies, shows and divides by the name that the parameter had then.
    #[test]
    fn the_former_name_of_a_factor_is_one_of_today_wherever_a_study_has_it() {
        let parse = |name: &str| {
            let text = format!(
                "[study]\ntitle = \"t\"\n[workload]\nkind = \"start-up\"\n[factors]\n{name} = [\"process\", \"microvm\"]\n\
                 at_once = [1, 4]\n[report]\nrows = \"at_once\"\ncolumns = \"{name}\"\nratio_to = {{ {name} = \"process\" }}\n"
            );
            study::parse("a.toml", text.as_bytes(), &[StartUp.descriptor()]).unwrap_or_else(|why| panic!("{why}"))
        };
        let (then, now) = (parse("place"), parse("server_environment"));
        let keys = |study: &study::Study| study.factors.iter().map(|factor| factor.key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&then), ["server_environment", "at_once"]);
        assert_eq!((keys(&then), &then.layout), (keys(&now), &now.layout));
        assert_eq!(then.layout.columns, "server_environment");
        let notice = |line: u32, section: &str| {
            format!("a.toml:{line}: 'place' in [{section}] is called 'server_environment' now")
        };
        assert_eq!(then.renamed, [notice(6, "factors"), notice(10, "report"), notice(11, "report")]);
        assert!(now.renamed.is_empty(), "{:?}", now.renamed);
    }
}
