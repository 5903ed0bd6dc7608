//! A database of its own on a server of somebody else's: made, marked, and removed again.
//!
//! Nothing that is not this program's is ever touched. A database without a given name gets one that tells who made it, so
//! that what a killed run has left is found and removed by the next on the same machine. A database that is given by name must
//! be empty, or bear the mark of a run that has ended.

use crate::database::{self, Address, Database, Dialect, Fault, Value, any};
use crate::failure::Failure;
use crate::store::schema;
use serde_json::json;

/// How names of databases begin that this program chose.
const PREFIX: &str = "baremark_auction_";
/// The table that marks a database that was given by name; no other of ours is called like it.
const MARK: &str = "baremark_owner";

/// Who a database is made for: a process of this boot of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    /// The first eight digits of the boot's random id.
    boot: String,
    pid: u32,
    /// When the process was started, in clock ticks since the boot: pids are used again.
    started: u64,
}

impl Owner {
    fn of(pid: u32) -> Result<Owner, Failure> {
        let boot = boot()?;
        let started = started(pid).ok_or_else(|| format!("--owner: no process {pid} runs here"))?;
        Ok(Owner { boot, pid, started })
    }

    fn text(&self) -> String {
        format!("{}_{}_{}", self.boot, self.pid, self.started)
    }

    fn parse(text: &str) -> Option<Owner> {
        let mut parts = text.split('_');
        let (boot, pid, started) = (parts.next()?, parts.next()?, parts.next()?);
        let boot_is_one = boot.len() == 8 && boot.bytes().all(|byte| byte.is_ascii_hexdigit());
        let owner = Owner { boot: boot.to_owned(), pid: pid.parse().ok()?, started: started.parse().ok()? };
        boot_is_one.then_some(owner)
    }

    /// Whether it has ended; `None` of one of another boot or machine, of which nothing is known.
    fn has_ended(&self) -> Option<bool> {
        (boot().ok()? == self.boot).then(|| started(self.pid) != Some(self.started))
    }
}

fn boot() -> Result<String, Failure> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(path).map_err(|why| format!("{path}: {why}"))?;
    Ok(text.chars().take(8).collect())
}

/// The 22nd field of a process's stat, counted behind its name, which may hold anything.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Parts of `postgres://USER@HOST:PORT/NAME`: what is before the name, and the name.
fn parts(url: &str) -> Result<(&str, &str), Failure> {
    let scheme = url.find("://").map(|at| at + 3).ok_or("--database: an external database is PostgreSQL or MariaDB")?;
    let end = url[scheme..].find('/').map_or(url.len(), |at| scheme + at);
    let name = url[end..].trim_start_matches('/');
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') || name.len() > 48 {
        return Err(format!("'{name}' is not a name of a database; use at most 48 of a to z, 0 to 9 and _").into());
    }
    Ok((&url[..end], name))
}

fn named(address: &Address, name: &str) -> Result<Address, Failure> {
    let (server, _) = parts(&address.url)?;
    Ok(Address { url: format!("{server}/{name}"), ..address.clone() })
}

/// The database through which others are made and listed.
fn maintenance(address: &Address) -> Result<Address, Failure> {
    named(address, if address.url.starts_with("postgres") { "postgres" } else { "information_schema" })
}

/// Makes a database for a process, and removes those that ended processes of this machine have left. Without a name in the URL
/// it chooses one that says whose it is, and `number` tells several of one process apart. The name and what was removed, as JSON.
pub(crate) async fn create(address: Address, owner: u32, number: u32) -> Result<serde_json::Value, Failure> {
    let owner = Owner::of(owner)?;
    let (_, given) = parts(&address.url)?;
    if !given.is_empty() {
        take(&address, given, &owner).await?;
        return Ok(json!({ "database": given, "removed": [] }));
    }
    let server = database::open(&maintenance(&address)?).await?;
    let removed = remove_left(&*server).await?;
    let name = format!("{PREFIX}{}_{number}", owner.text());
    server.define(vec![making(&*server, &name)]).await?;
    Ok(json!({ "database": name, "removed": removed }))
}

/// Removes what [`create`] made.
pub(crate) async fn remove(address: Address, owner: u32) -> Result<serde_json::Value, Failure> {
    let (_, name) = parts(&address.url)?;
    if name.starts_with(PREFIX) {
        let server = database::open(&maintenance(&address)?).await?;
        server.define(vec![dropping(&*server, name)]).await?;
        return Ok(json!({ "removed": [name] }));
    }
    let database = database::open(&address).await?;
    let Some((marked, made)) = mark(&*database).await? else {
        return Err(format!("the database '{name}' does not bear this program's mark; nothing was removed").into());
    };
    if marked != Owner::of(owner)? {
        return Err(format!("the database '{name}' belongs to another run by now; nothing was removed").into());
    }
    if !made {
        database.define(schema::drops().chain([format!("DROP TABLE {MARK}")]).collect()).await?;
        return Ok(json!({ "removed": [] }));
    }
    drop(database);
    let server = database::open(&maintenance(&address)?).await?;
    server.define(vec![dropping(&*server, name)]).await?;
    Ok(json!({ "removed": [name] }))
}

/// Takes a database that was given by name: empty, not there, or left by a run that has ended.
async fn take(address: &Address, name: &str, owner: &Owner) -> Result<(), Failure> {
    let server = database::open(&maintenance(address)?).await?;
    let there = databases(&*server).await?.iter().any(|other| other == name);
    if !there {
        server.define(vec![making(&*server, name)]).await?;
    }
    let database = database::open(address).await?;
    let tables = tables(&*database).await?;
    let mut made = !there;
    if let Some((marked, by_us)) = mark(&*database).await? {
        made = by_us;
        match marked.has_ended() {
            Some(true) => {}
            Some(false) => {
                let process = marked.pid;
                return Err(format!(
                    "the database '{name}' is in use by process {process}; wait for its end, or give another database.name"
                ).into());
            }
            None => {
                return Err(format!(
                    "the database '{name}' is marked by a run of another machine, or before a restart of this one; drop it if that \
                     has ended, or give another database.name"
                ).into());
            }
        }
    } else if !tables.is_empty() {
        let some = tables.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let count = tables.len();
        return Err(format!(
            "the database '{name}' holds tables that are not this program's ({count}: {some}); give an empty one, or leave \
             database.name out"
        ).into());
    }
    let fresh = [
        format!("DROP TABLE IF EXISTS {MARK}"),
        format!("CREATE TABLE {MARK} (owner {{key}} PRIMARY KEY, made {{long}} NOT NULL)"),
    ];
    database.define(schema::drops().chain(fresh).collect()).await?;
    const PUT: &str = "INSERT INTO baremark_owner (owner, made) VALUES (?, ?)";
    let step = any(PUT, vec![owner.text().into(), i64::from(made).into()]);
    database.run(vec![step]).await?;
    Ok(())
}

/// Whose mark a database bears, and whether this program made it.
async fn mark(database: &dyn Database) -> Result<Option<(Owner, bool)>, Failure> {
    if !tables(database).await?.iter().any(|table| table == MARK) {
        return Ok(None);
    }
    let rows = query(database, "SELECT owner, made FROM baremark_owner").await?;
    let Some(mut row) = rows.into_iter().next() else { return Ok(None) };
    let mut read = || -> Result<(String, i64), Fault> { Ok((row.text()?, row.int()?)) };
    let (owner, made) = read()?;
    Ok(Owner::parse(&owner).map(|owner| (owner, made != 0)))
}

/// Databases that this program named and whose processes on this machine have ended are dropped.
async fn remove_left(server: &dyn Database) -> Result<Vec<String>, Fault> {
    let ended = |name: &String| {
        let owner = name.strip_prefix(PREFIX).and_then(Owner::parse);
        owner.is_some_and(|owner| owner.has_ended() == Some(true))
    };
    let left: Vec<String> = databases(server).await?.into_iter().filter(ended).collect();
    server.define(left.iter().map(|name| dropping(server, name)).collect()).await?;
    Ok(left)
}

async fn databases(server: &dyn Database) -> Result<Vec<String>, Fault> {
    let sql = match server.dialect() {
        Dialect::Postgres => "SELECT datname::text FROM pg_database",
        _ => "SELECT schema_name FROM information_schema.schemata",
    };
    texts(query(server, sql).await?)
}

async fn tables(database: &dyn Database) -> Result<Vec<String>, Fault> {
    let sql = match database.dialect() {
        Dialect::Postgres => {
            "SELECT table_name::text FROM information_schema.tables
             WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
        }
        _ => "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
    };
    texts(query(database, sql).await?)
}

fn texts(rows: Vec<database::Row>) -> Result<Vec<String>, Fault> {
    rows.into_iter().map(|mut row| row.text()).collect()
}

async fn query(database: &dyn Database, sql: &'static str) -> Result<Vec<database::Row>, Fault> {
    database.query(sql, Vec::<Value>::new()).await
}

/// Names are checked: there is nothing in them to quote.
fn making(server: &dyn Database, name: &str) -> String {
    match server.dialect() {
        Dialect::Postgres => format!("CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0"),
        _ => format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"),
    }
}

fn dropping(server: &dyn Database, name: &str) -> String {
    match server.dialect() {
        // Connections that a killed server has left hold nobody up.
        Dialect::Postgres => format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
        _ => format!("DROP DATABASE IF EXISTS {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_back_and_known_to_live_or_to_have_ended() {
        let own = Owner::of(std::process::id()).unwrap();
        assert_eq!(Owner::parse(&own.text()), Some(own.clone()));
        assert_eq!(Owner::parse(&format!("{}_7", own.text())), Some(own.clone()), "a number may follow");
        assert_eq!(own.has_ended(), Some(false));
        let before = Owner { started: own.started - 1, ..own.clone() };
        assert_eq!(before.has_ended(), Some(true), "another process had this pid");
        let elsewhere = Owner { boot: "00000000".to_owned(), ..own };
        assert_eq!(elsewhere.has_ended(), None);
        for text in ["", "users", "0a0b0c0d_x_1", "0a0b0c0d_1", "zzzzzzzz_1_2"] {
            assert_eq!(Owner::parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_that_would_need_quotes_are_refused() {
        assert_eq!(parts("postgres://u@127.0.0.1:5432/mine").unwrap(), ("postgres://u@127.0.0.1:5432", "mine"));
        assert_eq!(parts("mysql://u@127.0.0.1:3306").unwrap(), ("mysql://u@127.0.0.1:3306", ""));
        for url in ["postgres://u@h:1/a;b", "postgres://u@h:1/A", "postgres://u@h:1/a?x=1", "sqlite:file"] {
            assert!(parts(url).is_err(), "{url}");
        }
    }
}
