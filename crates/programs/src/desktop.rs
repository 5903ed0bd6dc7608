//! Desktop-like users: each a process with a working set of its own, which types, leafs, replaces, saves and opens.
//!
//! A user's next action is due at a fixed pace, whatever the last one took, and its response counts from when it was due:
//! a desktop that falls behind is slow, not idle. Opening starts a process that reads what was saved and must find it as
//! it was. One process drives them and counts; it is a program of its own, so that an agent's memory is not theirs.

mod knee;

use crate::counts::counts;
use baremark_model::hdr;
use baremark_model::maximum;
use baremark_model::units::Nanos;
use baremark_stats::Rng;
use baremark_stats::search::{Approach, Count, End, Next, Response, Staircase, Visit, Window, capacity};
use baremark_sys::ending;
use hdrhistogram::Histogram;
use knee::{CONFIDENCE, Level, Search};
use serde::{Deserialize, Serialize};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The share of actions that may be slower than the limit.
pub const ALLOWED: f64 = 0.05;
/// Windows of a search at its finest step.
const FINE_WINDOWS: usize = 8;
/// How long a user may take to have its memory.
const START_LIMIT: Duration = Duration::from_secs(60);
const DOCUMENT: usize = 256 << 10;
const LINE: usize = 80;

/// What a driver is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// Users, or the most that are tried in a search.
    pub users: u64,
    /// Whether the most users within the limit are searched.
    pub search: bool,
    /// Working set of each.
    pub each_bytes: u64,
    /// From one action of a user to its next.
    pub pace_ns: u64,
    /// The limit of an action.
    pub limit_ns: u64,
    /// How long is measured: in all, or each window of a search.
    pub time_ns: u64,
    /// Seed of every random choice.
    pub seed: u64,
}

/// What a driver says at its end; of a search that of the number of users which is its answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Actions that counted.
    pub actions: u64,
    /// Of them those slower than the limit.
    pub slow: u64,
    /// Processes that were made.
    pub opened: u64,
    /// Responses at 50, 95 and 99 % and the longest, in ns; a percentile is absent below its sample floor.
    pub percentiles_ns: Vec<(f64, u64)>,
    /// Their distribution, as [`hdr::encoded`] writes it; `None` without actions.
    pub responses: Option<String>,
    /// The time that was measured.
    pub seconds: f64,
    /// The most users who kept the limit, by search; `None` where the search has no answer.
    pub most_users: Option<f64>,
    /// Why the search has no answer, or one at its end, in words.
    pub search: Option<String>,
    /// Level by level what a search has measured; `None` where none was made.
    pub knee: Option<maximum::Document>,
    /// What went wrong.
    pub wrong: Option<String>,
}

/// One action, as a user tells it.
#[derive(Clone, Copy, Debug)]
struct Action {
    user: usize,
    due: Instant,
    response: Duration,
    opened: bool,
    /// It came within the window and its grace.
    came: bool,
}

/// Drives users as the script says, and gives what they did. `program` is this one, `folder` where they save.
///
/// # Errors
/// When users cannot be started.
pub fn drive(script: &Script, program: &Path, folder: &Path) -> io::Result<Told> {
    let mut crowd = Crowd::new(script, program, folder);
    let mut told = if script.search { search(script, &mut crowd)? } else { steady(script, &mut crowd)? };
    told.wrong = crowd.wrong();
    Ok(told)
}

fn steady(script: &Script, crowd: &mut Crowd<'_>) -> io::Result<Told> {
    crowd.resize(script.users)?;
    let window = Duration::from_nanos(script.time_ns);
    let actions = crowd.watch(window);
    Ok(summary(script, &actions, window.as_secs_f64()))
}

/// What a window of a search showed.
struct Watched {
    window: Window,
    actions: Vec<Action>,
}

fn search(script: &Script, crowd: &mut Crowd<'_>) -> io::Result<Told> {
    #[expect(clippy::cast_precision_loss, reason = "a number of users")]
    let highest = script.users as f64;
    let step = 0.25 * (highest - 1.0);
    let stairs = Staircase { lowest: 1.0, start: 1.0, highest, step, finest: 1.0, windows: FINE_WINDOWS };
    let time = Duration::from_nanos(script.time_ns);
    let (mut visits, mut all) = (Vec::new(), Vec::new());
    let end = loop {
        let level = match stairs.next(&visits) {
            Next::Done(end) => break end,
            Next::Measure { level, drain } => {
                if drain {
                    crowd.resize(0)?;
                }
                level.round()
            }
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and the most users")]
        let users = level as u64;
        let approach = if crowd.size() > users { Approach::Above } else { Approach::Below };
        crowd.resize(users)?;
        let actions = crowd.watch(time);
        let bad = actions.iter().filter(|action| Nanos::from(action.response).0 > script.limit_ns).count() as u64;
        let count = Count { bad, all: actions.len() as u64 };
        let response = match (bad, count.all) {
            (_, 0) => Response::Insufficient,
            counts if within(counts) => Response::Pass,
            _ => Response::Fail,
        };
        visits.push(Visit { level, response });
        all.push(Watched { window: Window { level, count, approach }, actions });
    };
    let fine = stairs.fine_from(&visits).unwrap_or(0);
    Ok(found(script, end, &all, fine))
}

/// Whether so few of all actions are slow that the limit is kept; of none it is not.
fn within((slow, all): (u64, u64)) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a number of actions")]
    let kept = slow as f64 <= ALLOWED * all as f64;
    kept && all > 0
}

/// The answer of a search and the responses at it: the most users who were seen to keep the limit, up to where it is reached by the windows
/// from `fine` on. What bounds the search alone is no answer.
fn found(script: &Script, end: End, all: &[Watched], fine: usize) -> Told {
    let fitted: Vec<Window> = all.iter().skip(fine).map(|one| one.window).collect();
    let place = capacity(&fitted, ALLOWED, CONFIDENCE);
    let reached = place.map(|place| place.interval.map_or(place.level, |interval| interval.hi));
    let ceiling = reached.filter(|_| end == End::Turned).unwrap_or(f64::INFINITY).max(1.0);
    let windows = |level: f64| all.iter().map(|one| one.window).filter(move |one| one.level.total_cmp(&level).is_eq());
    // All windows of a level are judged together.
    let keeps = |level: f64| {
        let sum = windows(level).fold((0, 0), |(bad, all), one| (bad + one.count.bad, all + one.count.all));
        within(sum)
    };
    let levels = all.iter().map(|one| one.window.level).filter(|level| *level <= ceiling && keeps(*level));
    let kept = levels.reduce(f64::max);
    // Where nobody keeps the limit, the responses of one user say by how much.
    let level = kept.unwrap_or(1.0);
    let of_level = || all.iter().filter(|one| one.window.level.total_cmp(&level).is_eq());
    let actions: Vec<Action> = of_level().flat_map(|one| one.actions.iter().copied()).collect();
    #[expect(clippy::cast_precision_loss, reason = "a number of windows")]
    let seconds = Duration::from_nanos(script.time_ns).as_secs_f64() * of_level().count() as f64;
    let told = summary(script, &actions, seconds);
    let (most_users, search) = match end {
        End::PassesAll => (None, Some(format!("ceiling reached: at least {level} users keep the limit; raise most"))),
        End::FailsAll => (Some(0.0), Some("one user exceeds the limit already: responses are of one".to_owned())),
        End::Insufficient => (None, Some("a window had too few actions; write a longer duration".to_owned())),
        End::Turned if kept.is_none() => (Some(0.0), Some("one user exceeds the limit in most windows".to_owned())),
        End::Turned => (kept, None),
    };
    #[expect(clippy::cast_precision_loss, reason = "a number of users")]
    let of = Search {
        highest: script.users as f64,
        limit: Nanos(script.limit_ns),
        allowed: ALLOWED,
        window_s: Duration::from_nanos(script.time_ns).as_secs_f64(),
        fine_windows: FINE_WINDOWS,
    };
    Told { most_users, search, knee: Some(knee::document(&of, end, &levels_of(script, all), place)), ..told }
}

/// The windows of a search by their number of users, ascending.
fn levels_of(script: &Script, all: &[Watched]) -> Vec<Level> {
    let mut levels: Vec<f64> = all.iter().map(|one| one.window.level).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let of = |users: f64| {
        let windows = || all.iter().filter(move |one| one.window.level.total_cmp(&users).is_eq());
        let actions: Vec<Action> = windows().flat_map(|one| one.actions.iter().copied()).collect();
        Level {
            users,
            counts: windows().map(|one| one.window.count).collect(),
            came: actions.iter().filter(|action| action.came).count() as u64,
            percentiles_ns: summary(script, &actions, 0.0).percentiles_ns,
        }
    };
    levels.into_iter().map(of).collect()
}

fn summary(script: &Script, actions: &[Action], seconds: f64) -> Told {
    let mut responses =
        Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).expect("1 ns to 1 h at 3 digits are bounds");
    actions.iter().for_each(|action| responses.saturating_record(Nanos::from(action.response).0));
    let enough =
        |p: f64| baremark_stats::percentile::sample_floor(p, 0.95).is_some_and(|floor| responses.len() >= floor);
    let found = [0.5, 0.95, 0.99].into_iter().filter(|p| enough(*p)).map(|p| (p, responses.value_at_quantile(p)));
    let mut percentiles_ns: Vec<(f64, u64)> = found.collect();
    if !actions.is_empty() {
        percentiles_ns.push((1.0, responses.max()));
    }
    Told {
        responses: hdr::encoded(&counts(&responses)),
        actions: actions.len() as u64,
        slow: actions.iter().filter(|action| Nanos::from(action.response).0 > script.limit_ns).count() as u64,
        opened: actions.iter().filter(|action| action.opened).count() as u64,
        percentiles_ns,
        seconds,
        ..Told::default()
    }
}

/// The users, as processes.
struct Crowd<'s> {
    script: &'s Script,
    program: &'s Path,
    folder: &'s Path,
    users: Vec<Child>,
    told: Arc<Mutex<Heard>>,
}

#[derive(Default)]
struct Heard {
    ready: Vec<usize>,
    actions: Vec<Action>,
    wrong: Option<String>,
}

impl<'s> Crowd<'s> {
    fn new(script: &'s Script, program: &'s Path, folder: &'s Path) -> Self {
        Crowd { script, program, folder, users: Vec::new(), told: Arc::default() }
    }

    fn size(&self) -> u64 {
        self.users.len() as u64
    }

    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrong(&self) -> Option<String> {
        self.heard().wrong.clone()
    }

    /// Starts or ends users until there are so many, and waits until all have their memory.
    fn resize(&mut self, users: u64) -> io::Result<()> {
        while self.size() > users {
            if let Some(mut user) = self.users.pop() {
                user.kill()?;
                user.wait()?;
            }
        }
        while self.size() < users {
            let number = self.users.len();
            self.heard().ready.retain(|ready| *ready != number);
            let file = self.folder.join(format!("document-{number}"));
            let seed = self.script.seed.wrapping_add(number as u64);
            let mut command = Command::new(self.program);
            command.arg("desktop").arg("user").arg(file).arg(self.script.each_bytes.to_string());
            command.arg(self.script.pace_ns.to_string()).arg(seed.to_string());
            let mut user = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
            if let Some(stdout) = user.stdout.take() {
                let told = Arc::clone(&self.told);
                thread::spawn(move || listen(number, stdout, &told));
            }
            self.users.push(user);
        }
        let deadline = Instant::now() + START_LIMIT;
        while (0..self.users.len()).any(|number| !self.heard().ready.contains(&number)) {
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "a user did not have its memory in time"));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// What was due in the next `window`, with a grace for what comes late. Actions that do not come in that either are as
    /// slow as window and grace at least, and counted so: they must not look as if nobody had wanted them.
    fn watch(&mut self, window: Duration) -> Vec<Action> {
        let (from, to) = (Instant::now(), Instant::now() + window);
        let pace = Duration::from_nanos(self.script.pace_ns);
        let grace = window.min(pace.max(Duration::from_nanos(self.script.limit_ns)) * 2);
        thread::sleep(window + grace);
        let mut actions = std::mem::take(&mut self.heard().actions);
        actions.retain(|action| action.due >= from && action.due < to && action.user < self.users.len());
        let due = usize::try_from(self.script.time_ns / self.script.pace_ns.max(1)).unwrap_or(usize::MAX);
        for user in 0..self.users.len() {
            let came = actions.iter().filter(|action| action.user == user).count();
            let missing = Action { user, due: from, response: window + grace, opened: false, came: false };
            actions.extend(std::iter::repeat_n(missing, due.saturating_sub(came)));
        }
        actions
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        self.users.iter_mut().for_each(ending::kill);
    }
}

/// Takes a user's lines: `ready`, `did AGE_NS RESPONSE_NS OPENED` and `wrong WHY`.
fn listen(user: usize, stdout: impl io::Read, told: &Mutex<Heard>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let now = Instant::now();
        let mut words = line.split(' ');
        let mut heard = told.lock().unwrap_or_else(PoisonError::into_inner);
        match words.next() {
            Some("ready") => heard.ready.push(user),
            Some("did") => {
                let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
                let (Some(response), Some(opened)) = (number(), number()) else { continue };
                let response = Duration::from_nanos(response);
                let due = now.checked_sub(response).unwrap_or(now);
                heard.actions.push(Action { user, due, response, opened: opened > 0, came: true });
            }
            _ => heard.wrong = Some(line.clone()),
        }
    }
}

/// The life of one user: `file`, working set in bytes, pace in ns, seed.
///
/// # Errors
/// When it cannot save, or what it opens is not what it saved.
pub fn user(program: &Path, file: &Path, each_bytes: u64, pace: Duration, seed: u64) -> io::Result<()> {
    let mut desk = Desk::new(each_bytes, seed)?;
    let mut output = io::stdout();
    writeln!(output, "ready")?;
    output.flush()?;
    // Users do not act in step.
    let mut due = Instant::now() + pace.mul_f64(desk.share());
    for turn in 0_u64.. {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let opens = turn % 8 == 7;
        match turn % 8 {
            3 => desk.replace(),
            5 => desk.leaf(),
            6 => desk.save(file)?,
            7 => desk.open(program, file)?,
            _ => desk.type_in(),
        }
        writeln!(output, "did {} {}", Nanos::from(due.elapsed()).0, u64::from(opens))?;
        output.flush()?;
        due += pace;
    }
    Ok(())
}

/// What a user has open.
struct Desk {
    document: Vec<u8>,
    memory: Vec<u8>,
    random: Rng,
    saved: Option<u64>,
}

impl Desk {
    fn new(each_bytes: u64, seed: u64) -> io::Result<Self> {
        let size = usize::try_from(each_bytes).map_err(io::Error::other)?.max(1 << 20);
        let mut desk = Desk { document: Vec::new(), memory: vec![0; size], random: Rng::new(seed), saved: None };
        for at in (0..size).step_by(4096) {
            desk.memory[at] = desk.letter();
        }
        desk.document = (0..DOCUMENT).map(|_| desk.letter()).collect();
        desk.wrap();
        Ok(desk)
    }

    fn below(&mut self, bound: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
        let drawn = self.random.below(bound.max(1) as u64) as usize;
        drawn
    }

    fn share(&mut self) -> f64 {
        self.random.uniform()
    }

    fn letter(&mut self) -> u8 {
        const LETTERS: &[u8] = b"etaoin shrdlu cmfwyp vbgkqj xz ";
        LETTERS[self.below(LETTERS.len())]
    }

    /// A sentence, letter by letter, its paragraph wrapped again after each word.
    fn type_in(&mut self) {
        let at = self.below(self.document.len() - (8 << 10));
        for offset in 0..120 {
            let letter = self.letter();
            self.document[at + offset] = letter;
            if letter == b' ' {
                wrap(&mut self.document[at..at + (8 << 10)]);
            }
        }
    }

    /// Every place of a word, everywhere.
    fn replace(&mut self) {
        let (from, to) = (self.letter(), self.letter());
        self.document.iter_mut().filter(|byte| **byte == from && from != b' ').for_each(|byte| *byte = to);
        self.wrap();
    }

    /// Looks at pages here and there in the working set.
    fn leaf(&mut self) {
        for _ in 0..2048 {
            let at = self.below(self.memory.len());
            self.memory[at] = self.memory[at].wrapping_add(1);
        }
    }

    fn wrap(&mut self) {
        wrap(&mut self.document);
    }

    fn save(&mut self, file: &Path) -> io::Result<()> {
        let new = file.with_extension("new");
        fs::write(&new, &self.document)?;
        fs::rename(new, file)?;
        self.saved = Some(digest(&self.document));
        Ok(())
    }

    /// Starts a process that reads what was saved, and hears whether it is that.
    fn open(&mut self, program: &Path, file: &Path) -> io::Result<()> {
        let opened = Command::new(program).arg("desktop").arg("open").arg(file).stdin(Stdio::null()).output()?;
        let found = String::from_utf8_lossy(&opened.stdout).trim().parse::<u64>().ok();
        if opened.status.success() && found == self.saved && found.is_some() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} was not opened as it was saved", file.display())))
    }
}

/// Ends a line at the last space before each 80th byte.
fn wrap(text: &mut [u8]) {
    let mut from = 0;
    text.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    while from + LINE < text.len() {
        match text[from..from + LINE].iter().rposition(|byte| *byte == b' ') {
            Some(space) => {
                text[from + space] = b'\n';
                from += space + 1;
            }
            None => from += LINE,
        }
    }
}

/// What [`Desk::open`] starts: reads a document and says its digest.
///
/// # Errors
/// When it cannot be read.
pub fn open(file: &Path) -> io::Result<u64> {
    Ok(digest(&fs::read(file)?))
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// `PROGRAM desktop drive SCRIPT`, `desktop user FILE BYTES PACE SEED` and `desktop open FILE`: what this program is when it
/// is started as one of these.
///
/// # Errors
/// In words.
pub fn main(program: &Path, arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().map_err(|why| format!("'{word}' must be a number: {why}"));
    let say = |text: String| writeln!(io::stdout(), "{text}").map_err(|why| why.to_string());
    match words.as_slice() {
        ["drive", script] => {
            let script: Script = serde_json::from_str(script).map_err(|why| format!("no script: {why}"))?;
            let told = drive(&script, program, &PathBuf::from(".")).map_err(|why| format!("driving users: {why}"))?;
            say(serde_json::to_string(&told).map_err(|why| why.to_string())?)
        }
        ["user", file, each, pace, seed] => {
            let pace = Duration::from_nanos(number(pace)?);
            user(program, Path::new(file), number(each)?, pace, number(seed)?)
                .or_else(|why| say(format!("wrong {why}")))
        }
        ["open", file] => say(open(Path::new(file)).map_err(|why| format!("opening {file}: {why}"))?.to_string()),
        _ => Err("desktop takes drive, user or open".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(users: u64) -> Script {
        let (each_bytes, pace_ns, limit_ns, time_ns, seed) = (1, 1, 200_000_000, 5_000_000_000, 1);
        Script { users, search: true, each_bytes, pace_ns, limit_ns, time_ns, seed }
    }

    /// A window in which all users took so long, or some of them.
    fn watched(users: f64, ms: u64, slow: u64, all: u64) -> Watched {
        let action = |at: u64| Action {
            user: 0,
            due: Instant::now(),
            response: Duration::from_millis(if at < slow { 500 } else { ms }),
            opened: false,
            came: true,
        };
        Watched {
            window: Window { level: users, count: Count { bad: slow, all }, approach: Approach::Below },
            actions: (0..all).map(action).collect(),
        }
    }

    /// What a search of eight windows at its finest step shows: where the limit is, between levels that keep it and that exceed it.
    #[test]
    fn the_knee_of_a_search_has_its_answer_between_the_levels() {
        let ten = || watched(10.0, 70, 4, 200);
        let eleven = || watched(11.0, 70, 30, 220);
        let all = [ten(), eleven(), ten(), eleven(), ten(), eleven(), ten(), eleven()];
        let told = found(&script(64), End::Turned, &all, 0);
        let knee = told.knee.expect("a search");
        let rows: Vec<(f64, usize, &str)> =
            knee.knee.iter().map(|row| (row.level, row.windows, row.verdict.as_str())).collect();
        assert_eq!(rows, [(10.0, 4, "pass"), (11.0, 4, "fail")]);
        let maximum = knee.maximum.expect("the limit was passed");
        assert!(maximum.level > 10.0 && maximum.level < 11.0 && knee.ended == maximum::Ended::Found, "{maximum:?}");
        assert_eq!(told.most_users, Some(10.0));
    }

    /// What never came is no action that was done.
    #[test]
    fn actions_that_did_not_come_are_failed_in_the_knee() {
        let mut one = watched(2.0, 10, 0, 100);
        one.actions.iter_mut().take(25).for_each(|action| action.came = false);
        let told = found(&script(2), End::PassesAll, &[one], 0);
        let knee = told.knee.expect("a search");
        assert_eq!((knee.knee[0].failed_share, knee.knee[0].achieved_per_s), (0.25, 15.0), "75 in 5 s");
        assert_eq!((knee.maximum, knee.ended), (None, maximum::Ended::PassesAll));
    }

    fn p50_ms(told: &Told) -> u64 {
        told.percentiles_ns.iter().find(|(p, _)| *p <= 0.5).map_or(0, |(_, ns)| ns / 1_000_000)
    }

    /// "64 users" was printed of a search that had not tried more.
    #[test]
    fn the_ceiling_of_a_search_is_no_answer() {
        let all = [watched(32.0, 20, 0, 200), watched(64.0, 40, 2, 400)];
        let told = found(&script(64), End::PassesAll, &all, 0);
        assert_eq!(told.most_users, None);
        assert_eq!(told.search.as_deref(), Some("ceiling reached: at least 64 users keep the limit; raise most"));
        assert_eq!((told.actions, p50_ms(&told)), (400, 40));
    }

    /// Percentiles were of all levels that the search had tried, those that failed among them.
    #[test]
    fn responses_are_of_the_users_who_are_the_answer() {
        let all = [
            watched(4.0, 10, 0, 200),
            watched(16.0, 150, 120, 200),
            watched(10.0, 70, 3, 200),
            watched(12.0, 90, 40, 200),
            watched(10.0, 71, 2, 200),
            watched(12.0, 90, 30, 200),
        ];
        let told = found(&script(64), End::Turned, &all, 2);
        assert_eq!(told.most_users, Some(10.0));
        assert_eq!((told.actions, told.slow, p50_ms(&told)), (400, 5, 71));
        assert!((told.seconds - 10.0).abs() < 1e-9, "two windows of 5 s");
        let responses = hdr::decoded(&told.responses.expect("actions")).expect("as written");
        assert_eq!((responses.count(), responses.value_at(0.5).map(|ns| ns / 1_000_000)), (400, Some(71)));
        let knee = told.knee.expect("a search");
        let rows: Vec<(f64, usize, &str)> =
            knee.knee.iter().map(|row| (row.level, row.windows, row.verdict.as_str())).collect();
        let few = "insufficient";
        assert_eq!(rows, [(4.0, 1, few), (10.0, 2, few), (12.0, 2, few), (16.0, 1, few)], "3 windows judge a level");
        let of_ten = &knee.knee[1];
        assert_eq!((of_ten.p50_ns.map(|ns| ns / 1_000_000), of_ten.achieved_per_s), (Some(71), 40.0), "400 in 10 s");
        assert_eq!((of_ten.failed_share, knee.qos.limits[0].to_string()), (0.0, "p95<200 ms".to_owned()));
        let none = found(&script(64), End::FailsAll, &[watched(1.0, 300, 50, 50)], 0);
        assert_eq!((none.most_users, none.slow), (Some(0.0), 50));
    }
}
