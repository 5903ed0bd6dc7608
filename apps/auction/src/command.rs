//! The command line of `baremark auction serve | load | check | reset | create | remove`.

use crate::database::{Address, Durability};
use crate::failure::Failure;
use crate::generate::site::Plan;
use crate::images::Place;
use crate::password::Cost;
use crate::server::{BusKind, Pace, Settings};
use crate::{DONE, VIOLATED, check, duration, external, load, reset, server};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The least patience of commands that work on whole tables.
const WHOLE_TABLES: Duration = Duration::from_secs(3600);

const PASSWORD: &str = "BAREMARK_AUCTION_DATABASE_PASSWORD";
const ADMIN: &str = "BAREMARK_AUCTION_ADMIN_TOKEN";
const BUS_PASSWORD: &str = "BAREMARK_AUCTION_BUS_PASSWORD";

/// Help: what a command does, examples, then its options.
const TEMPLATE: &str = "{about}{after-help}\n\n{usage-heading} {usage}\n\n{all-args}";
const SERVE_EXAMPLES: &str = "\
Examples:
  baremark auction serve --database sqlite:site.db
  baremark auction serve --database postgres://auction@db/site --bus postgres";
const LOAD_EXAMPLES: &str = "\
Examples:
  baremark auction load --database sqlite:site.db --max-users 300 \\
      --password-file password";
/// Its required options are longer than a line of 80 columns.
const LOAD_USAGE: &str = "\
baremark auction load [OPTIONS] --database <URL> --max-users <N>
                             --password-file <FILE>";
const CHECK_EXAMPLES: &str = "\
Examples:
  baremark auction check --database sqlite:site.db";
const RESET_EXAMPLES: &str = "\
Examples:
  baremark auction reset --database sqlite:site.db";
const CREATE_EXAMPLES: &str = "\
Examples:
  baremark auction create --database postgres://auction@db --owner 4711";
const REMOVE_EXAMPLES: &str = "\
Examples:
  baremark auction remove --database postgres://auction@db --owner 4711";

/// The auction application: app servers, their data, and what must hold of them.
#[derive(Debug, Parser)]
#[command(name = "baremark auction", disable_help_subcommand = true, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the site; prints one line of JSON with its address when it is ready
    #[command(help_template = TEMPLATE, after_help = SERVE_EXAMPLES)]
    Serve(Box<ServeArgs>),
    /// Make the tables and fill them; whatever they held is lost
    #[command(help_template = TEMPLATE, after_help = LOAD_EXAMPLES, override_usage = LOAD_USAGE)]
    Load(LoadArgs),
    /// Say whether no bid was lost, nothing sold twice, and the money adds up; exit code 4 if not
    #[command(help_template = TEMPLATE, after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Put live auctions back to where the load left them, without loading again
    #[command(help_template = TEMPLATE, after_help = RESET_EXAMPLES)]
    Reset(ResetArgs),
    /// Make a database on a server that is there, for a process; remove those that ended processes of this machine have left
    #[command(help_template = TEMPLATE, after_help = CREATE_EXAMPLES)]
    Create(ExternalArgs),
    /// Remove a database that `create` made; one that was there before is emptied
    #[command(help_template = TEMPLATE, after_help = REMOVE_EXAMPLES)]
    Remove(ExternalArgs),
}

#[derive(Debug, Args)]
struct ExternalArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// The process that the database is for
    #[arg(long, value_name = "PID")]
    owner: u32,
    /// Tells several databases of one process apart, where the URL names none
    #[arg(long, default_value_t = 0, value_name = "N")]
    number: u32,
}

#[derive(Debug, Args)]
struct DatabaseArgs {
    /// sqlite:FILE, postgres://USER@HOST:PORT/NAME or mysql://USER@HOST:PORT/NAME; the password comes from
    /// BAREMARK_AUCTION_DATABASE_PASSWORD or a file
    #[arg(long, value_name = "URL")]
    database: String,
    /// A file whose first line is the database's password
    #[arg(long, value_name = "FILE")]
    database_password_file: Option<PathBuf>,
    /// Whether confirmed transactions survive a crash; MariaDB decides that in its own configuration
    #[arg(long, value_enum, default_value = "on", value_name = "ON|OFF")]
    durable: Durability,
    /// Connections to the database, at most
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pool: u16,
    /// How long a statement may take
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = duration::parse)]
    patience: Duration,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// What other servers call, where it differs from what is listened on
    #[arg(long, value_name = "ADDRESS:PORT")]
    advertise: Option<SocketAddr>,
    #[command(flatten)]
    database: DatabaseArgs,
    /// How servers tell each other: process, postgres or redis://HOST:PORT [default: postgres with PostgreSQL, else process]
    #[arg(long, value_name = "BUS", value_parser = BusKind::parse)]
    bus: Option<BusKind>,
    /// A file whose first line is the password of Redis as the bus [default: BAREMARK_AUCTION_BUS_PASSWORD]
    #[arg(long, value_name = "FILE")]
    bus_password_file: Option<PathBuf>,
    /// Where images are: memory (made from the seed when asked for; of uploads the last 16 of an account and 256 in all are kept),
    /// database or files:FOLDER
    #[arg(long, default_value = "memory", value_name = "PLACE", value_parser = Place::parse)]
    images: Place,
    /// How long an item is open without a bid before its last call
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration::parse)]
    open: Duration,
    /// How long the last call lasts
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration::parse)]
    last_call: Duration,
    /// After how long without a sign of life a server's auctions are taken over
    #[arg(long, default_value = "4s", value_name = "TIME", value_parser = duration::parse)]
    lease: Duration,
    /// How long a token lasts
    #[arg(long, default_value = "12h", value_name = "TIME", value_parser = duration::parse)]
    session: Duration,
    /// Drain period after SIGTERM, in which balancers notice
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration::parse)]
    drain: Duration,
    /// Threads that serve [default: as many as processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Connections at once, at most
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    connections: u32,
    /// How long a request's head may take, and a connection may be without its first request
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration::parse)]
    head_time: Duration,
    /// Long polls and event streams at once, at most
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    waiters: u32,
    /// A file whose first line is the token for POST /drain [default: BAREMARK_AUCTION_ADMIN_TOKEN; without either, /drain refuses]
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Address of a balancer whose X-Forwarded-For names the client, for the limits of failed log-ins (repeat for several)
    #[arg(long, value_name = "ADDRESS")]
    proxy: Vec<IpAddr>,
}

#[derive(Debug, Args)]
struct LoadArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// The users that the site is made for: 5 accounts each, a live auction for every 15
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_users: u32,
    /// Decides every row and every image
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    seed: u64,
    /// The part of the past to load, 0 to 1: 100 bids, 20 attendances and 5 purchases an account are the whole
    #[arg(long, default_value_t = 1.0, value_name = "PART")]
    history: f64,
    /// A file whose first line is the password of all accounts; made with a random one if it does not exist
    #[arg(long, value_name = "FILE")]
    password_file: PathBuf,
    /// What checking a password costs: KiB of memory, passes (Argon2id); OWASP recommends 19456,2, which is most of what a site does then
    #[arg(long, default_value = "512,1", value_name = "KIB,PASSES", value_parser = Cost::parse)]
    argon2: Cost,
    /// Where images are to be, as for serve; nothing is written for memory
    #[arg(long, default_value = "memory", value_name = "PLACE", value_parser = Place::parse)]
    images: Place,
    /// Threads that make images [default: as many as processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

#[derive(Debug, Args)]
struct CheckArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Look at live auctions only, not at the loaded past
    #[arg(long)]
    live: bool,
    /// A server whose pushes are compared with the bids; may be given again
    #[arg(long, value_name = "ADDRESS:PORT")]
    server: Vec<SocketAddr>,
}

#[derive(Debug, Args)]
struct ResetArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// How long to wait for servers that were killed to count as dead
    #[arg(long, default_value = "20s", value_name = "TIME", value_parser = duration::parse)]
    wait: Duration,
}

/// Parses what was typed.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let name = OsString::from("baremark auction");
    Cli::try_parse_from(std::iter::once(&name).chain(arguments))
}

fn refused(why: impl Display) -> Failure {
    Failure::Refused(why.to_string())
}

fn first_line(path: &PathBuf) -> Result<String, Failure> {
    let whole = std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let line = whole.lines().next().unwrap_or_default().trim();
    if line.is_empty() {
        Err(format!("{}: its first line is empty", path.display()).into())
    } else {
        Ok(line.to_owned())
    }
}

fn secret(file: Option<&PathBuf>, variable: &str) -> Result<Option<String>, Failure> {
    match file {
        Some(path) => first_line(path).map(Some),
        None => Ok(std::env::var(variable).ok().filter(|value| !value.is_empty())),
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn threads(asked: Option<u16>) -> usize {
    asked.map_or_else(processors, usize::from)
}

impl DatabaseArgs {
    fn address(self) -> Result<Address, Failure> {
        // A URL stands in process lists and logs.
        let authority = self.url_authority();
        if authority.split_once('@').is_some_and(|(user, _)| user.contains(':')) {
            return Err(format!("no password in --database; give it by {PASSWORD} or --database-password-file").into());
        }
        let password = secret(self.database_password_file.as_ref(), PASSWORD)?;
        Ok(Address {
            url: self.database,
            password,
            durability: self.durable,
            pool: usize::from(self.pool),
            patience: self.patience,
        })
    }

    /// For work on whole tables, which takes as long as it takes.
    fn patient_address(mut self) -> Result<Address, Failure> {
        self.patience = self.patience.max(WHOLE_TABLES);
        self.address()
    }

    fn url_authority(&self) -> &str {
        let rest = self.database.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }
}

impl ServeArgs {
    fn settings(self) -> Result<Settings, Failure> {
        let database = self.database.address()?;
        let postgres = database.url.starts_with("postgres");
        let bus = self.bus.unwrap_or(if postgres { BusKind::Postgres } else { BusKind::Process });
        if bus == BusKind::Postgres && !postgres {
            return Err("--bus postgres needs a PostgreSQL database; write process or redis://HOST:PORT".into());
        }
        for (name, time) in [
            ("--open", self.open),
            ("--last-call", self.last_call),
            ("--lease", self.lease),
            ("--head-time", self.head_time),
        ] {
            if time < Duration::from_millis(50) || time > Duration::from_secs(86_400) {
                return Err(format!("{name}: 50ms to 24h").into());
            }
        }
        let count = |number: u32| usize::try_from(number).map_err(refused);
        Ok(Settings {
            listen: self.listen,
            advertise: self.advertise,
            database,
            bus,
            bus_password: secret(self.bus_password_file.as_ref(), BUS_PASSWORD)?,
            images: self.images,
            pace: Pace { open: self.open, last_call: self.last_call, lease: self.lease },
            session_time: self.session,
            drain: self.drain,
            threads: threads(self.threads),
            connections: count(self.connections)?.max(1),
            head_time: self.head_time,
            waiters: count(self.waiters)?.max(1),
            admin_token: secret(self.admin_token_file.as_ref(), ADMIN)?,
            proxies: self.proxy.iter().map(IpAddr::to_canonical).collect(),
        })
    }
}

impl LoadArgs {
    fn order(self) -> Result<load::Order, Failure> {
        if !(0.0..=1.0).contains(&self.history) {
            return Err("--history: 0 to 1".into());
        }
        // In thousandths, 0 to 1000: the text of a whole number is read back.
        let permille = format!("{:.0}", self.history * 1000.0).parse().map_err(refused)?;
        let plan = Plan { seed: self.seed, max_users: self.max_users, history_permille: permille };
        let password = load::password(&self.password_file)?;
        let database = self.database.patient_address()?;
        Ok(load::Order {
            database,
            plan,
            password,
            cost: self.argon2,
            images: self.images,
            threads: threads(self.threads),
        })
    }
}

fn wait_for<T, E: Into<Failure>>(work: impl Future<Output = Result<T, E>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?.block_on(work).map_err(E::into)
}

/// Does what was asked; the exit code.
pub(crate) fn execute(cli: Cli, out: &mut (dyn Write + Send), err: &mut (dyn Write + Send)) -> Result<u8, Failure> {
    match cli.command {
        Command::Serve(args) => server::serve(args.settings()?, out).map(|()| DONE).map_err(refused),
        Command::Load(args) => {
            let loaded = wait_for(load::load(args.order()?, err))?;
            writeln!(out, "{loaded}").map(|()| DONE).map_err(refused)
        }
        Command::Check(CheckArgs { database, live, server }) => {
            let found = wait_for(check::check(database.patient_address()?, live, server))?;
            writeln!(out, "{}", found.json()).map_err(refused)?;
            for violation in &found.violations {
                writeln!(err, "violated: {violation}").map_err(refused)?;
            }
            Ok(if found.violations.is_empty() { DONE } else { VIOLATED })
        }
        Command::Reset(ResetArgs { database, wait }) => {
            let done = wait_for(reset::reset(database.patient_address()?, wait))?;
            writeln!(out, "{done}").map(|()| DONE).map_err(refused)
        }
        Command::Create(ExternalArgs { database, owner, number }) => {
            let made = wait_for(external::create(database.address()?, owner, number))?;
            writeln!(out, "{made}").map(|()| DONE).map_err(refused)
        }
        Command::Remove(ExternalArgs { database, owner, number: _ }) => {
            let removed = wait_for(external::remove(database.address()?, owner))?;
            writeln!(out, "{removed}").map(|()| DONE).map_err(refused)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn each_command_has_examples_then_its_usage_then_options_in_80_columns() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands_mut() {
            let (name, long) = (command.get_name().to_owned(), command.render_long_help().to_string());
            for text in [command.render_help().to_string(), long] {
                let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{name} has no '{what}':\n{text}"));
                assert!(place("Examples:\n") < place("Usage: ") && place("Usage: ") < place("Options:\n"), "{text}");
                let widest = text.lines().map(|line| line.chars().count()).max();
                assert!(widest <= Some(80), "{name}: {widest:?}\n{text}");
            }
        }
    }

    #[test]
    fn each_example_is_a_command_line_that_is_read() {
        for examples in
            [SERVE_EXAMPLES, LOAD_EXAMPLES, CHECK_EXAMPLES, RESET_EXAMPLES, CREATE_EXAMPLES, REMOVE_EXAMPLES]
        {
            let joined = examples.replace("\\\n", " ");
            for line in joined.lines().skip(1) {
                let words: Vec<OsString> = line.split_whitespace().skip(2).map(OsString::from).collect();
                parse(&words).unwrap_or_else(|why| panic!("{line}: {why}"));
            }
        }
    }
}
