//! `baremark top`: what happens on this machine now, by the observers that runs use, and what observing costs.

use crate::commands::top_rows::{Batch, HEADING, HELP, Rows, Sort};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record::machine_line;
use baremark_lab::overhead;
use baremark_model::observer::{OBSERVERS, ObserveSpec, USUAL};
use baremark_model::problem::nearest;
use baremark_model::units::Nanos;
use baremark_observe::Root;
use baremark_observe::recorder::Recorder;
use baremark_report::live::{self, Live};
use baremark_sys::terminal::{self, Keys};
use baremark_sys::{clock, machine};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark top
  baremark top --rows --sort latency    # guests, containers, processes
  baremark top --rows --batch csv --count 10
  baremark top --cost                   # what observing takes";

/// The most of one CPU that observing once a second may take.
const LIMIT: f64 = 0.005;
/// Lines of a screen that is drawn to see what it costs.
const COST_LINES: usize = 50;
const GLANCE: Duration = Duration::from_millis(50);
/// Alternate screen and no cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// What `top` shows.
#[derive(clap::Args)]
pub struct TopArgs {
    /// Sampling interval
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Nanos,
    /// Stop after N samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Observers, with commas between them [default: those of runs, and lost: time without a CPU]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    which: Vec<String>,
    /// Measure the cost of observing instead, as a share of one CPU; --count readings [default: 20]
    #[arg(long)]
    cost: bool,
    /// Show guests, containers and processes: CPU, ready time, memory, disk with latency in queue and device, network
    #[arg(long, conflicts_with = "which")]
    rows: bool,
    /// Sort the rows
    #[arg(long, value_name = "KEY", default_value = "cpu", requires = "rows")]
    sort: Sort,
    /// Write the rows of each sample for programs
    #[arg(long, value_name = "FORM", requires = "rows", conflicts_with = "cost")]
    batch: Option<Batch>,
}

impl TopArgs {
    fn spec(&self) -> Result<ObserveSpec, Refusal> {
        if let Some(wrong) = self.which.iter().find(|name| !OBSERVERS.contains(&name.as_str())) {
            return Err(Refusal::bad_input(format!("there is no observer '{wrong}'; {}", nearest(wrong, OBSERVERS))));
        }
        if !(10_000_000..=3_600_000_000_000).contains(&self.interval.0) {
            let remedy = "write a time from 10 ms to 1 h";
            return Err(Refusal::bad_input(format!("--interval is {}; {remedy}", self.interval)));
        }
        let usual = USUAL.iter().chain(if self.cost { &[][..] } else { &["lost"] }).map(|&name| name.to_owned());
        let which = match (self.rows, self.which.is_empty()) {
            // Rows have readings of their own.
            (true, _) => vec!["null".to_owned()],
            (_, true) => usual.collect(),
            (_, false) => self.which.clone(),
        };
        Ok(ObserveSpec { interval: self.interval, which, per_cpu: true })
    }
}

/// Shows until the user ends it.
pub fn run(context: &Context, args: &TopArgs) -> Result<(String, Exit), Refusal> {
    let spec = args.spec()?;
    if args.cost {
        return cost(context, args, &spec, args.count.unwrap_or(20));
    }
    let screen = args.batch.is_none() && !context.json;
    let keys = (screen && io::stdout().is_terminal() && !crate::watch::dumb()).then(Keys::take).flatten();
    let shown = match args.rows {
        true => show_rows(context, args, keys.as_ref()),
        false => show(context, args, &spec, keys.as_ref()),
    };
    if keys.is_some() {
        drop(write!(io::stdout(), "{LEAVE}"));
        drop(io::stdout().flush());
    }
    match shown {
        // A reader that has seen enough, such as `head`, is not a failure.
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(Refusal::failure(format!("writing: {why}"))),
        _ => Ok((String::new(), Exit::Success)),
    }
}

fn show(context: &Context, args: &TopArgs, spec: &ObserveSpec, keys: Option<&Keys>) -> io::Result<()> {
    let interval = Duration::from_nanos(args.interval.0);
    let mut out = io::stdout();
    if keys.is_some() {
        write!(out, "{ENTER}")?;
    }
    let mut recorder = Recorder::start(spec, &Root::default());
    let mut screen = Live::new(&machine_line(&machine::this()), &args.interval.to_string());
    let mut next = Instant::now() + interval;
    let began = Instant::now();
    let mut looks = 0;
    while args.count.is_none_or(|count| looks < count) {
        if ends(context, keys, next) {
            return Ok(());
        }
        next = after(next, interval);
        let lap = recorder.lap();
        looks += 1;
        if context.json {
            writeln!(out, "{}", live::json(&lap.values, lap.seconds))?;
            out.flush()?;
            continue;
        }
        let spent = Duration::from_nanos(recorder.cost().cpu_ns).as_secs_f64();
        screen.take(&lap.values, lap.seconds, recorder.absent(), Some(spent / began.elapsed().as_secs_f64()));
        let mut style = crate::watch::style();
        match keys {
            Some(_) => {
                let (rows, columns) = terminal::size().unwrap_or((24, 80));
                style.width = columns;
                let text = screen.render(&style, rows.saturating_sub(1)).replace('\n', "\x1b[K\r\n");
                write!(out, "\x1b[H{text}\x1b[J\x1b[2mq ends\x1b[0m")?;
            }
            None => writeln!(out, "{}", screen.render(&style, usize::MAX))?,
        }
        out.flush()?;
    }
    Ok(())
}

/// When the next look is due: where this one was late, as on a machine that stood still, no sooner than an interval from now. Two in a row would show an interval of nothing.
fn after(due: Instant, interval: Duration) -> Instant {
    due.max(Instant::now()) + interval
}

/// What a key has changed in the view of rows.
#[derive(Default)]
struct Keyed {
    paused: bool,
    help: bool,
    end: bool,
}

/// Shows guests, containers and processes until the user ends it.
fn show_rows(context: &Context, args: &TopArgs, keys: Option<&Keys>) -> io::Result<()> {
    let interval = Duration::from_nanos(args.interval.0);
    let batch = args.batch.or(context.json.then_some(Batch::Json));
    let (mut sort, mut keyed, mut out) = (args.sort, Keyed::default(), io::stdout());
    let mut rows = Rows::start(args.interval);
    let mut looks = 0;
    match (keys, batch) {
        (Some(_), _) => write!(out, "{ENTER}")?,
        (None, Some(Batch::Csv)) => write!(out, "{HEADING}\r\n")?,
        (None, _) => {}
    }
    let mut next = Instant::now() + interval;
    while args.count.is_none_or(|count| looks < count) {
        loop {
            let before = sort;
            let Some(key) = next_key(context, keys, next) else { break };
            press(key, &mut sort, &mut keyed);
            if keyed.end {
                return Ok(());
            }
            if sort != before {
                rows.sort(sort);
            }
            draw(&mut out, &rows, sort, &keyed)?;
        }
        next = after(next, interval);
        if keyed.paused {
            continue;
        }
        rows.take();
        rows.sort(sort);
        looks += 1;
        match (keys, batch) {
            (Some(_), _) => draw(&mut out, &rows, sort, &keyed)?,
            (None, Some(Batch::Csv)) => write!(out, "{}", rows.csv())?,
            (None, Some(Batch::Json)) => writeln!(out, "{}", rows.json())?,
            (None, None) => writeln!(out, "{}", rows.text(sort, usize::MAX))?,
        }
        out.flush()?;
    }
    Ok(())
}

/// What a key means; `end` also for what Ctrl-D, Escape and an interrupt send.
fn press(key: u8, sort: &mut Sort, keyed: &mut Keyed) {
    if keyed.help {
        keyed.help = false;
        return;
    }
    match key {
        b'q' | b'Q' | 4 | 27 => keyed.end = true,
        b's' | b'S' => *sort = sort.next(),
        b'p' | b'P' => keyed.paused = !keyed.paused,
        b'h' | b'H' | b'?' => keyed.help = true,
        _ => {}
    }
}

fn draw(out: &mut io::Stdout, rows: &Rows, sort: Sort, keyed: &Keyed) -> io::Result<()> {
    let (lines, columns) = terminal::size().unwrap_or((24, 80));
    let text = if keyed.help { HELP.to_owned() } else { rows.text(sort, lines.saturating_sub(1)) };
    let cut = |line: &str| line.chars().take(columns).collect::<String>() + "\x1b[K\r\n";
    let text: String = text.lines().map(cut).collect();
    let state = if keyed.paused { "paused · p goes on" } else { "q ends · s sorts · p pauses · h help" };
    write!(out, "\x1b[H{text}\x1b[J\x1b[2m{state}\x1b[0m")?;
    out.flush()
}

/// The next key before `until`, `q` when the user interrupts; `None` at `until`.
fn next_key(context: &Context, keys: Option<&Keys>, until: Instant) -> Option<u8> {
    loop {
        if context.interrupt.load(Ordering::Relaxed) {
            return Some(b'q');
        }
        let left = until.saturating_duration_since(Instant::now()).min(GLANCE);
        let key = keys.and_then(|keys| keys.next(left));
        if key.is_some() {
            return key;
        }
        if keys.is_none() {
            thread::sleep(left);
        }
        if Instant::now() >= until {
            return None;
        }
    }
}

/// Waits for `until`; whether the user wants an end before.
fn ends(context: &Context, keys: Option<&Keys>, until: Instant) -> bool {
    while let Some(key) = next_key(context, keys, until) {
        // q, Q, and what Ctrl-D and Escape send.
        if matches!(key, b'q' | b'Q' | 4 | 27) {
            return true;
        }
    }
    false
}

/// What observing costs here: processor time of each reading, everything made of it included, compared with reading nothing.
fn cost(context: &Context, args: &TopArgs, spec: &ObserveSpec, looks: u32) -> Result<(String, Exit), Refusal> {
    if looks < 4 {
        return Err(Refusal::bad_input(format!("--count is {looks}; an interval needs four readings or more")));
    }
    let null = ObserveSpec { which: vec!["null".to_owned()], ..spec.clone() };
    let mut real = Recorder::start(spec, &Root::default());
    let mut rows = args.rows.then(|| Rows::start(spec.interval));
    let mut nothing = Recorder::start(&null, &Root::default());
    let timed = |work: &mut dyn FnMut()| {
        let before = clock::thread_cpu_ns();
        work();
        clock::thread_cpu_ns().saturating_sub(before)
    };
    let (mut spent, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..looks {
        let due = real.point_due().max(nothing.point_due());
        if ends(context, None, due) {
            return Ok((String::new(), Exit::Interrupted));
        }
        spent.push(timed(&mut || match &mut rows {
            Some(rows) => {
                rows.take();
                rows.sort(args.sort);
                drop(rows.text(args.sort, COST_LINES));
                real.point();
            }
            None => real.point(),
        }));
        floor.push(timed(&mut || nothing.point()));
    }
    let Some((share, null)) = overhead::share(&spent, &floor, spec.interval.0) else {
        return Err(Refusal::failure("too few readings for an interval"));
    };
    let exit = if share.lo > LIMIT { Exit::Regression } else { Exit::Success };
    if context.json {
        let of =
            |share: overhead::Share| serde_json::json!({ "estimate": share.centre, "lo": share.lo, "hi": share.hi });
        let document = serde_json::json!({
            "interval_ns": spec.interval.0, "looks": looks, "observers": if args.rows { vec!["rows".to_owned()] } else { spec.which.clone() }, "share_of_one_cpu": of(share),
            "null": of(null), "limit": LIMIT,
        });
        return Ok((crate::json::document("baremark-top-cost/1", document), exit));
    }
    let mut text = String::new();
    let percent = |share: overhead::Share| {
        let [centre, lo, hi] = [share.centre, share.lo, share.hi].map(|share| 100.0 * share);
        format!("{centre:.4} % of one CPU (95 % interval {lo:.4} to {hi:.4} %)")
    };
    let what = if args.rows { "rows" } else { "observing" };
    let _ = writeln!(text, "{what} every {}, {looks} looks: {}", spec.interval, percent(share));
    let _ = writeln!(text, "reading nothing (null): {}", percent(null));
    let _ = writeln!(text, "limit: {} % of one CPU", 100.0 * LIMIT);
    for absence in real.absent() {
        let _ = writeln!(text, "not among them: {absence}");
    }
    Ok((text, exit))
}
