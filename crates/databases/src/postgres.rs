//! PostgreSQL over its own protocol: a blocking socket, prepared statements, values in binary.
//!
//! Messages and authentication are those of the crate `postgres-protocol`. The client above it that is in general use
//! (`tokio-postgres`) passes every statement between two tasks; a connection here is one thread that writes once and reads
//! once for a statement, as pgbench does. `make bench-db` compares both with pgbench.

use crate::database::{
    Access, Answers, Batch, Cell, Class, Connection, Database, Dialect, Failure, Param, Rows, one_after_the_other,
};
use crate::login::Login;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::IsNull;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{self, DataRowBody, Message};
use postgres_protocol::message::frontend;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long the server may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// What one read takes at most.
const READ: usize = 16 << 10;
/// Bytes after which statements that are sent together are waited for: a server whose answers nobody reads reads nothing more, and this fits into
/// the buffers of a socket.
const TOGETHER: usize = 16 << 10;
/// Types of the server whose binary form is a whole number: int8, int2, int4.
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
/// A number with decimals, whose text is read.
const NUMERIC: u32 = 1700;

/// How a server is reached.
#[derive(Clone)]
pub struct Postgres(pub Login);

impl Database for Postgres {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let socket = TcpStream::connect_timeout(&self.0.address, CONNECT_LIMIT).map_err(lost)?;
        socket.set_nodelay(true).map_err(lost)?;
        let mut wire = Wire { socket, inbound: BytesMut::with_capacity(READ), outbound: BytesMut::new() };
        self.authenticate(&mut wire)?;
        let (statements, control) = (Vec::new(), 0);
        let mut connected = Connected { wire, statements, control, in_transaction: false, pipelined: false };
        let level = self.0.isolation.sql();
        connected.script(&format!("set session characteristics as transaction isolation level {level}"))?;
        connected.prepare(&[])?;
        Ok(Box::new(connected))
    }
}

impl Postgres {
    fn authenticate(&self, wire: &mut Wire) -> Result<(), Failure> {
        let Login { user, password, database, .. } = &self.0;
        let settings = [("user", user.as_str()), ("database", database.as_str()), ("client_encoding", "UTF8")];
        frontend::startup_message(settings, &mut wire.outbound).map_err(other)?;
        wire.send()?;
        let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        loop {
            match wire.next()? {
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(password.as_bytes(), &mut wire.outbound).map_err(other)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(user.as_bytes(), password.as_bytes(), body.salt());
                    frontend::password_message(hash.as_bytes(), &mut wire.outbound).map_err(other)?;
                }
                Message::AuthenticationSasl(body) => {
                    let offered = body.mechanisms().any(|name| Ok(name == SCRAM_SHA_256)).map_err(other)?;
                    if !offered {
                        return Err(Failure::other("the server offers no SCRAM-SHA-256; allow it in pg_hba.conf"));
                    }
                    frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut wire.outbound)
                        .map_err(other)?;
                }
                Message::AuthenticationSaslContinue(body) => {
                    scram.update(body.data()).map_err(other)?;
                    frontend::sasl_response(scram.message(), &mut wire.outbound).map_err(other)?;
                }
                Message::AuthenticationSaslFinal(body) => scram.finish(body.data()).map_err(other)?,
                Message::ErrorResponse(body) => return Err(failure(&body)),
                Message::ReadyForQuery(_) => return Ok(()),
                Message::AuthenticationOk
                | Message::BackendKeyData(_)
                | Message::ParameterStatus(_)
                | Message::NoticeResponse(_) => {}
                _ => return Err(Failure::other("the server requires an unsupported authentication method")),
            }
            wire.send()?;
        }
    }
}

/// A socket with messages.
struct Wire {
    socket: TcpStream,
    inbound: BytesMut,
    outbound: BytesMut,
}

impl Wire {
    fn send(&mut self) -> Result<(), Failure> {
        if self.outbound.is_empty() {
            return Ok(());
        }
        let sent = self.socket.write_all(&self.outbound).map_err(lost);
        self.outbound.clear();
        sent
    }

    /// Reads answers to the end of a request; the first error is its result.
    fn finish(
        &mut self,
        in_transaction: &mut bool,
        mut each: impl FnMut(&Message) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut outcome = Ok(());
        loop {
            match self.next()? {
                Message::ErrorResponse(body) => outcome = outcome.and(Err(failure(&body))),
                Message::ReadyForQuery(body) => {
                    *in_transaction = body.status() != b'I';
                    return outcome;
                }
                Message::NoticeResponse(_) | Message::ParameterStatus(_) => {}
                message => {
                    let taken = each(&message);
                    outcome = outcome.and(taken);
                }
            }
        }
    }

    fn next(&mut self) -> Result<Message, Failure> {
        loop {
            if let Some(message) = Message::parse(&mut self.inbound).map_err(other)? {
                return Ok(message);
            }
            let filled = self.inbound.len();
            self.inbound.resize(filled + READ, 0);
            let read = loop {
                match self.socket.read(&mut self.inbound[filled..]) {
                    Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                    read => break read,
                }
            };
            self.inbound.truncate(filled + *read.as_ref().unwrap_or(&0));
            if read.map_err(lost)? == 0 {
                return Err(Failure::new(Class::Lost, "the server closed the connection"));
            }
        }
    }
}

/// A prepared statement: its name and what the server says of its values.
struct Prepared {
    name: String,
    parameters: Vec<u32>,
    columns: Vec<u32>,
}

struct Connected {
    wire: Wire,
    /// The workload's statements, then begin, begin read only, commit and rollback.
    statements: Vec<Prepared>,
    /// The index of `begin`.
    control: usize,
    in_transaction: bool,
    /// Statements of a batch are sent together.
    pipelined: bool,
}

const CONTROL: [&str; 4] = ["begin", "begin read only", "commit", "rollback"];

impl Prepared {
    fn write(&self, params: &[Param<'_>], outbound: &mut BytesMut) -> Result<(), Failure> {
        let formats = self.columns.iter().map(|oid| i16::from(*oid != NUMERIC));
        let values = params.iter().zip(&self.parameters);
        let put = |(param, oid): (&Param<'_>, &u32), bytes: &mut BytesMut| write(*param, *oid, bytes);
        frontend::bind("", &self.name, [1], values, put, formats, outbound).map_err(|why| match why {
            frontend::BindError::Conversion(why) => Failure::other(why),
            frontend::BindError::Serialization(why) => other(why),
        })?;
        frontend::execute("", 0, outbound).map_err(other)
    }
}

impl Connected {
    /// Reads answers to the end of a request; the first error is its result.
    fn finish(&mut self, each: impl FnMut(&Message) -> Result<(), Failure>) -> Result<(), Failure> {
        self.wire.finish(&mut self.in_transaction, each)
    }

    /// Writes a statement, which is not sent yet; nothing of it when its parameters do not fit.
    fn write(&mut self, statement: usize, params: &[Param<'_>]) -> Result<(), Failure> {
        let prepared = self.statements.get(statement).ok_or_else(|| Failure::other("no such statement"))?;
        let outbound = &mut self.wire.outbound;
        let begin = outbound.len();
        let written = prepared.write(params, outbound);
        if written.is_err() {
            outbound.truncate(begin);
        }
        written
    }

    fn prepare_one(&mut self, name: String, sql: &str) -> Result<Prepared, Failure> {
        let outbound = &mut self.wire.outbound;
        frontend::parse(&name, sql, [], outbound).map_err(other)?;
        frontend::describe(b'S', &name, outbound).map_err(other)?;
        frontend::sync(outbound);
        self.wire.send()?;
        let (mut parameters, mut columns) = (Vec::new(), Vec::new());
        self.finish(|message| {
            match message {
                Message::ParameterDescription(body) => parameters = body.parameters().collect().map_err(other)?,
                Message::RowDescription(body) => {
                    columns = body.fields().map(|field| Ok(field.type_oid())).collect().map_err(other)?;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(Prepared { name, parameters, columns })
    }

    /// Sends the statements of a batch from `begin` on, as many as fit, with one Sync, and reads their answers; returns the number of the next. After an
    /// error the server skips what follows up to the Sync, and the transaction can only be rolled back.
    fn together(&mut self, batch: &Batch<'_>, begin: usize, answers: &mut Answers) -> Result<usize, Failure> {
        let mut end = begin;
        while let Some((statement, params)) = batch.call(end).filter(|_| self.wire.outbound.len() < TOGETHER) {
            if let Err(why) = self.write(statement, params) {
                // Those before it are not sent either.
                self.wire.outbound.clear();
                return Err(why);
            }
            end += 1;
        }
        let Connected { wire, statements, in_transaction, .. } = self;
        frontend::sync(&mut wire.outbound);
        wire.send()?;
        let mut number = begin;
        wire.finish(in_transaction, |message| {
            let Some((statement, _)) = batch.call(number) else { return Ok(()) };
            let Some((rows, affected)) = answers.of(number) else { return Ok(()) };
            match message {
                Message::BindComplete => rows.reset(statements[statement].columns.len()),
                Message::DataRow(row) => read_row(row, &statements[statement].columns, rows)?,
                Message::CommandComplete(body) => {
                    *affected = count(body.tag().map_err(other)?);
                    number += 1;
                }
                _ => {}
            }
            Ok(())
        })?;
        if number == end { Ok(end) } else { Err(Failure::other("the server answered fewer statements than were sent")) }
    }

    fn control(&mut self, which: usize) -> Result<(), Failure> {
        self.execute(self.control + which, &[], &mut Rows::default()).map(drop)
    }
}

impl Connection for Connected {
    fn prepare(&mut self, statements: &[String]) -> Result<(), Failure> {
        self.script("deallocate all")?;
        let mut prepared = Vec::with_capacity(statements.len() + CONTROL.len());
        let all = statements.iter().map(String::as_str).chain(CONTROL);
        for (number, sql) in all.enumerate() {
            prepared.push(self.prepare_one(format!("s{number}"), sql)?);
        }
        self.statements = prepared;
        self.control = statements.len();
        Ok(())
    }

    fn execute(&mut self, statement: usize, params: &[Param<'_>], rows: &mut Rows) -> Result<u64, Failure> {
        self.write(statement, params)?;
        let Connected { wire, statements, in_transaction, .. } = self;
        frontend::sync(&mut wire.outbound);
        wire.send()?;
        let columns = &statements[statement].columns;
        rows.reset(columns.len());
        let mut affected = 0;
        wire.finish(in_transaction, |message| {
            match message {
                Message::DataRow(row) => read_row(row, columns, rows)?,
                Message::CommandComplete(body) => affected = count(body.tag().map_err(other)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(affected)
    }

    fn batch(&mut self, batch: &Batch<'_>, answers: &mut Answers) -> Result<(), Failure> {
        if !self.pipelined {
            return one_after_the_other(self, batch, answers);
        }
        if !self.in_transaction {
            // Their Sync would commit all of them together.
            return Err(Failure::other("statements are sent together inside a transaction alone; begin one"));
        }
        answers.reset(batch.len());
        let mut begin = 0;
        while begin < batch.len() {
            begin = self.together(batch, begin, answers)?;
        }
        Ok(())
    }

    fn pipeline(&mut self) -> Result<(), Failure> {
        self.pipelined = true;
        Ok(())
    }

    fn begin(&mut self, access: Access) -> Result<(), Failure> {
        self.control(usize::from(access == Access::Read))
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.control(2).map_err(Failure::at_commit)
    }

    fn rollback(&mut self) -> Result<(), Failure> {
        if self.in_transaction { self.control(3) } else { Ok(()) }
    }

    fn script(&mut self, sql: &str) -> Result<(), Failure> {
        frontend::query(sql, &mut self.wire.outbound).map_err(other)?;
        self.wire.send()?;
        self.finish(|_| Ok(()))
    }

    fn query(&mut self, sql: &str, rows: &mut Rows) -> Result<(), Failure> {
        let prepared = self.prepare_one(String::new(), sql)?;
        self.statements.push(prepared);
        let done = self.execute(self.statements.len() - 1, &[], rows);
        self.statements.pop();
        done.map(drop)
    }

    fn insert(&mut self, table: &str, width: usize, cells: &[Cell]) -> Result<(), Failure> {
        frontend::query(&format!("copy {table} from stdin"), &mut self.wire.outbound).map_err(other)?;
        self.wire.send()?;
        // The answer ends with an error or asks for the data.
        loop {
            match self.wire.next()? {
                Message::CopyInResponse(_) => break,
                Message::ErrorResponse(body) => {
                    let why = failure(&body);
                    return self.finish(|_| Ok(())).and(Err(why));
                }
                _ => {}
            }
        }
        frontend::CopyData::new(copied(width, cells)).map_err(other)?.write(&mut self.wire.outbound);
        frontend::copy_done(&mut self.wire.outbound);
        self.wire.send()?;
        self.finish(|_| Ok(()))
    }
}

/// Rows in the text format of COPY; the texts of workloads have neither tabs nor backslashes.
fn copied(width: usize, cells: &[Cell]) -> Bytes {
    let mut text = String::with_capacity(cells.len() * 12);
    for (index, cell) in cells.iter().enumerate() {
        match cell {
            Cell::Null => text.push_str("\\N"),
            Cell::Int(number) => text.push_str(&number.to_string()),
            Cell::Text(value) => text.push_str(value),
        }
        text.push(if (index + 1).is_multiple_of(width) { '\n' } else { '\t' });
    }
    Bytes::from(text)
}

fn write(param: Param<'_>, oid: u32, bytes: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
    match (param, oid) {
        (Param::Null, _) => return Ok(IsNull::Yes),
        (Param::Int(number), INT8) => bytes.put_i64(number),
        (Param::Int(number), INT4) => bytes.put_i32(i32::try_from(number)?),
        (Param::Int(number), INT2) => bytes.put_i16(i16::try_from(number)?),
        (Param::Int(_), other) => return Err(format!("a whole number is passed for the type {other}").into()),
        (Param::Text(text), _) => bytes.put_slice(text.as_bytes()),
    }
    Ok(IsNull::No)
}

fn read_row(row: &DataRowBody, columns: &[u32], rows: &mut Rows) -> Result<(), Failure> {
    let buffer = row.buffer();
    let mut ranges = row.ranges();
    for oid in columns {
        let range = ranges.next().map_err(other)?.ok_or_else(|| Failure::other("a row has too few columns"))?;
        let Some(range) = range else {
            rows.cells.push(Cell::Null);
            continue;
        };
        let mut bytes = &buffer[range];
        rows.cells.push(match (*oid, bytes.len()) {
            (INT8, 8) => Cell::Int(bytes.get_i64()),
            (INT4, 4) => Cell::Int(bytes.get_i32().into()),
            (INT2, 2) => Cell::Int(bytes.get_i16().into()),
            _ => Cell::Text(String::from_utf8_lossy(bytes).into_owned()),
        });
    }
    Ok(())
}

/// The rows of a command's tag, such as `UPDATE 1` or `INSERT 0 1`.
fn count(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// By the code that the server gives; see PostgreSQL's appendix A.
fn failure(body: &backend::ErrorResponseBody) -> Failure {
    let (mut code, mut message) = (String::new(), String::new());
    let mut fields = body.fields();
    while let Ok(Some(field)) = fields.next() {
        let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => code = value,
            b'M' => message = value,
            _ => {}
        }
    }
    let class = match code.as_str() {
        "40001" => Class::Serialization,
        "40P01" | "55P03" => Class::Deadlock,
        "53000" | "53100" | "53200" | "53300" => Class::Resource,
        code if code.starts_with("08") || code.starts_with("57P") => Class::Lost,
        code if code.starts_with("23") => Class::Constraint,
        _ => Class::Other,
    };
    Failure::new(class, format!("{message} ({code})"))
}

fn lost(why: io::Error) -> Failure {
    Failure::new(Class::Lost, why)
}

fn other(why: io::Error) -> Failure {
    Failure::other(why)
}
