//! A database on a server that is there already, named by a URL in a file or in the environment.
//!
//! The URL has a password: it is in no study, argument, log or document. The database must be empty; a table of the run's own marks what is in it
//! as the run's, so that what a killed run left is removed by the next one. Tables of others never are: others may have made some next to the mark, or
//! the mark, and whoever makes a table chooses its name. None that no workload makes is removed, and no name of the server's is executed.

use crate::database::{Connection, Failure, Isolation, Rows};
use crate::endpoint::Endpoint;
use crate::hammer::schema::SCHEMA as HAMMER;
use crate::kind::Kind;
use crate::loading::table_of;
use crate::login::Login;
use crate::{dvd_store, management_db, order_entry};
use baremark_load::url::{self, UrlError};
use baremark_sys::secrets;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

/// The table that marks a database as a run's.
const MARK: &str = "baremark_run";
/// How long a server may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const EXAMPLE: &str = "write postgres://USER:PASSWORD@HOST:PORT/DATABASE or mariadb://...";

/// Where the URL is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a file that only its owner may read.
    File(PathBuf),
    /// In a variable of the environment.
    Environment(String),
}

impl Source {
    /// The source of a study's `file:PATH` or `env:NAME`.
    #[must_use]
    pub fn of(word: &str) -> Option<Source> {
        match word.split_once(':')? {
            ("file", path) if path.starts_with('/') => Some(Source::File(PathBuf::from(path))),
            ("env", name) if !name.is_empty() => Some(Source::Environment(name.to_owned())),
            _ => None,
        }
    }

    /// The database of its URL, and its name and place in words without the password.
    ///
    /// # Errors
    /// What is wrong with it, without the URL.
    pub fn endpoint(&self, kind: Kind, isolation: Isolation) -> Result<Endpoint, Failure> {
        let (place, text) = match self {
            Source::Environment(name) => {
                let missing = || Failure::other(format!("the variable {name} is not set; {EXAMPLE}"));
                (name.clone(), secrets::get(name).ok_or_else(missing)?)
            }
            Source::File(path) => {
                let place = path.display().to_string();
                let named = |why: std::io::Error| Failure::other(format!("{place}: {why}; {EXAMPLE}"));
                if std::fs::metadata(path).map_err(named)?.mode() & 0o077 != 0 {
                    return Err(Failure::other(format!("{place}: others may read the URL; chmod 600 {place}")));
                }
                let text = std::fs::read_to_string(path).map_err(named)?;
                (place, text)
            }
        };
        let wrong = |what: &str| Failure::other(format!("{place}: {what}; {EXAMPLE}"));
        let parts = Parts::of(text.trim()).ok_or_else(|| wrong("not the URL of a database"))?;
        let address = reached(parts.server).map_err(|why| wrong(&why.to_string()))?;
        let login = Login {
            address,
            user: parts.user.to_owned(),
            password: parts.password.to_owned(),
            database: parts.database.to_owned(),
            isolation,
        };
        match (parts.scheme, kind) {
            ("postgres" | "postgresql", Kind::Postgres) => Ok(Endpoint::Postgres(login)),
            ("mariadb" | "mysql", Kind::Mariadb) => Ok(Endpoint::Mariadb(login)),
            (scheme, kind) => Err(wrong(&format!("{scheme}:// and database = \"{}\"", kind.word()))),
        }
    }
}

/// The parts of a URL.
struct Parts<'u> {
    scheme: &'u str,
    user: &'u str,
    password: &'u str,
    server: &'u str,
    database: &'u str,
}

impl Parts<'_> {
    fn of(text: &str) -> Option<Parts<'_>> {
        let (scheme, rest) = text.split_once("://")?;
        let (rest, database) = rest.rsplit_once('/')?;
        let (credentials, server) = rest.rsplit_once('@')?;
        let (user, password) = credentials.split_once(':')?;
        let is_plain =
            |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        (is_plain(database) && !user.is_empty() && server.contains(':')).then_some(Parts {
            scheme,
            user,
            password,
            server,
            database,
        })
    }
}

/// The first of the server's addresses that accepts a connection.
fn reached(server: &str) -> Result<SocketAddr, UrlError> {
    let (origin, _) = url::parse(&format!("http://{server}/"))?;
    origin.reachable(CONNECT_LIMIT)
}

fn tables(connection: &mut dyn Connection, kind: Kind) -> Result<Vec<String>, Failure> {
    let schema = if kind == Kind::Mariadb { "database()" } else { "'public'" };
    let mut rows = Rows::default();
    let sql = format!("select table_name as name from information_schema.tables where table_schema = {schema}");
    connection.query(&sql, &mut rows)?;
    Ok((0..rows.len()).map(|row| rows.text(row, 0).to_owned()).collect())
}

/// Whether a table has the name of the mark, or of one that a workload makes.
fn is_of_a_run(table: &str) -> bool {
    let made =
        [&order_entry::schema::TABLES[..], &dvd_store::schema::TABLES, &management_db::schema::TABLES, HAMMER.tables];
    table == MARK || made.into_iter().flatten().any(|create| table_of(create) == table)
}

/// Takes an empty database, or one that a killed run has left, for a run: it is empty but for the mark then.
///
/// # Errors
/// A database with tables of others, or what it says.
pub fn take(connection: &mut dyn Connection, kind: Kind) -> Result<(), Failure> {
    let there = tables(connection, kind)?;
    let is_marked = there.iter().any(|table| table == MARK);
    let others = there.iter().filter(|table| !is_marked || !is_of_a_run(table)).count();
    if others > 0 {
        let what = format!("the external database has {others} tables of others; name an empty one");
        return Err(Failure::other(what));
    }
    empty(connection, kind)?;
    connection.script(&format!("create table {MARK} (taken integer not null, primary key (taken))"))
}

/// Removes everything of a run.
///
/// # Errors
/// What the database says.
pub fn empty(connection: &mut dyn Connection, kind: Kind) -> Result<(), Failure> {
    let mut there = tables(connection, kind)?;
    there.retain(|table| is_of_a_run(table));
    // Removed last: until then the rest is the run's.
    there.sort_by_key(|table| table == MARK);
    for table in there {
        connection.script(&format!("drop table {table}"))?;
    }
    if kind == Kind::Postgres {
        connection.script("drop function if exists restock()")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{Access, Cell, Param};

    /// A database with these tables, and the statements that it was told to execute.
    struct Listed<'t> {
        tables: &'t [&'t str],
        executed: Vec<String>,
    }

    impl Connection for Listed<'_> {
        fn prepare(&mut self, _: &[String]) -> Result<(), Failure> {
            Ok(())
        }

        fn execute(&mut self, _: usize, _: &[Param<'_>], _: &mut Rows) -> Result<u64, Failure> {
            Ok(0)
        }

        fn begin(&mut self, _: Access) -> Result<(), Failure> {
            Ok(())
        }

        fn commit(&mut self) -> Result<(), Failure> {
            Ok(())
        }

        fn rollback(&mut self) -> Result<(), Failure> {
            Ok(())
        }

        fn script(&mut self, sql: &str) -> Result<(), Failure> {
            self.executed.push(sql.to_owned());
            Ok(())
        }

        fn query(&mut self, _: &str, rows: &mut Rows) -> Result<(), Failure> {
            rows.reset(1);
            rows.cells.extend(self.tables.iter().map(|table| Cell::Text((*table).to_owned())));
            Ok(())
        }

        fn insert(&mut self, _: &str, _: usize, _: &[Cell]) -> Result<(), Failure> {
            Ok(())
        }
    }

    /// A name that whoever may make a table can give it.
    const HOSTILE: &str = "x; alter role mallory superuser";

    /// Next to a mark every table was dropped, by the name that its maker had chosen.
    #[test]
    fn a_mark_makes_no_table_of_others_the_runs() {
        let marked = [MARK, "hammer", "accounts", HOSTILE];
        for (tables, others) in [(&["accounts"][..], 1), (&["orders"][..], 1), (&marked[..], 2)] {
            let mut database = Listed { tables, executed: Vec::new() };
            let why = take(&mut database, Kind::Postgres).expect_err("tables of others").to_string();
            assert!(why.ends_with(&format!("has {others} tables of others; name an empty one")), "{why}");
            assert_eq!(database.executed, [""; 0]);
        }
        let mut left = Listed { tables: &[MARK, "samples_20s", "hammer"], executed: Vec::new() };
        take(&mut left, Kind::Mariadb).expect("a killed run left it");
        assert_eq!(left.executed[..3], ["drop table samples_20s", "drop table hammer", "drop table baremark_run"]);
        // Somebody has made one since the run took the database.
        let mut taken = Listed { tables: &["hammer", MARK, HOSTILE], executed: Vec::new() };
        empty(&mut taken, Kind::Mariadb).expect("its own");
        assert_eq!(taken.executed, ["drop table hammer", "drop table baremark_run"]);
    }

    #[test]
    fn a_source_is_a_file_or_a_variable() {
        assert_eq!(Source::of("file:/a/b"), Some(Source::File(PathBuf::from("/a/b"))));
        assert_eq!(Source::of("env:URL"), Some(Source::Environment("URL".to_owned())));
        for wrong in ["postgres://a:b@c/d", "file:a", "env:", "x"] {
            assert_eq!(Source::of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_password_may_have_any_character_and_the_name_of_the_database_only_plain_ones() {
        let parts = Parts::of("postgres://me:p@ss:/word@db.example:5432/shop").expect("a URL");
        assert_eq!((parts.user, parts.password), ("me", "p@ss:/word"));
        assert_eq!((parts.scheme, parts.server, parts.database), ("postgres", "db.example:5432", "shop"));
        for wrong in ["postgres://me@host:1/d", "postgres://me:p@host/d", "postgres://me:p@host:1/d;x", "host:1/d"] {
            assert!(Parts::of(wrong).is_none(), "{wrong}");
        }
    }
}
