//! The bus over Redis: what others publish comes on one connection, own parcels leave on another. Of its protocol, version 2 (RESP2),
//! only what these two commands need.

use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A parcel has a few KiB; a line of a reply, the words of an error.
const LONGEST_PARCEL: usize = 1 << 20;
const LONGEST_LINE: u64 = 4096;
/// How long a server may take to accept a connection, and to answer a command.
const PATIENCE: Duration = Duration::from_secs(5);

/// Part of a reply.
#[derive(Debug, PartialEq, Eq)]
enum Value {
    Number(i64),
    Text(String),
}

/// A connection to a server.
pub(super) struct Redis(BufReader<TcpStream>);

impl Redis {
    /// Connects to HOST:PORT, and logs in where there is a password.
    pub(super) async fn open(address: &str, password: Option<&str>) -> io::Result<Self> {
        let stream = in_time(TcpStream::connect(address)).await?;
        stream.set_nodelay(true)?;
        let mut redis = Redis(BufReader::new(stream));
        if let Some(password) = password {
            match redis.answer(&["AUTH", password]).await?.as_slice() {
                [Value::Text(said)] if said == "OK" => {}
                other => return Err(unexpected("AUTH", other)),
            }
        }
        Ok(redis)
    }

    /// Publishes a text to the channel.
    pub(super) async fn publish(&mut self, channel: &str, text: &str) -> io::Result<()> {
        match self.answer(&["PUBLISH", channel, text]).await?.as_slice() {
            [Value::Number(_)] => Ok(()),
            other => Err(unexpected("PUBLISH", other)),
        }
    }

    /// From now on the connection is for [`Redis::published`].
    pub(super) async fn subscribe(&mut self, channel: &str) -> io::Result<()> {
        match self.answer(&["SUBSCRIBE", channel]).await?.as_slice() {
            [Value::Text(kind), Value::Text(to), Value::Number(1)] if kind == "subscribe" && to == channel => Ok(()),
            other => Err(unexpected("SUBSCRIBE", other)),
        }
    }

    /// Waits for the next text that somebody publishes.
    pub(super) async fn published(&mut self) -> io::Result<String> {
        match <[Value; 3]>::try_from(self.reply().await?) {
            Ok([Value::Text(kind), Value::Text(_), Value::Text(text)]) if kind == "message" => Ok(text),
            Ok(other) => Err(unexpected("SUBSCRIBE", &other)),
            Err(other) => Err(unexpected("SUBSCRIBE", &other)),
        }
    }

    async fn answer(&mut self, command: &[&str]) -> io::Result<Vec<Value>> {
        let mut bytes = format!("*{}\r\n", command.len());
        for word in command {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        in_time(async {
            self.0.get_mut().write_all(bytes.as_bytes()).await?;
            self.reply().await
        })
        .await
    }

    /// The parts of an array, or the one that is no array.
    async fn reply(&mut self) -> io::Result<Vec<Value>> {
        let line = self.line().await?;
        let Some(parts) = line.strip_prefix('*') else { return Ok(vec![self.value(&line).await?]) };
        let parts: usize = parts.parse().ok().filter(|parts| *parts <= 3).ok_or_else(|| not_redis(&line))?;
        let mut values = Vec::with_capacity(parts);
        for _ in 0..parts {
            let line = self.line().await?;
            values.push(self.value(&line).await?);
        }
        Ok(values)
    }

    /// The value that begins with this line.
    async fn value(&mut self, line: &str) -> io::Result<Value> {
        let number = |text: &str| text.parse::<i64>().ok().ok_or_else(|| not_redis(line));
        match line.split_at_checked(1).ok_or_else(|| not_redis(line))? {
            (":", rest) => Ok(Value::Number(number(rest)?)),
            ("+", rest) => Ok(Value::Text(rest.to_owned())),
            ("-", rest) => Err(io::Error::other(rest.to_owned())),
            ("$", rest) => {
                let length = usize::try_from(number(rest)?).ok().filter(|length| *length <= LONGEST_PARCEL);
                let mut bytes = vec![0; length.ok_or_else(|| not_redis(line))? + 2];
                self.0.read_exact(&mut bytes).await?;
                let text = bytes.strip_suffix(b"\r\n").ok_or_else(|| not_redis(line))?;
                Ok(Value::Text(String::from_utf8(text.to_vec()).ok().ok_or_else(|| not_redis(line))?))
            }
            _ => Err(not_redis(line)),
        }
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        (&mut self.0).take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "the connection ended"));
        }
        let text = String::from_utf8_lossy(&line);
        text.strip_suffix("\r\n").map(str::to_owned).ok_or_else(|| not_redis(&text))
    }
}

async fn in_time<T>(done: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = || io::Error::new(ErrorKind::TimedOut, format!("no answer within {} s", PATIENCE.as_secs()));
    timeout(PATIENCE, done).await.unwrap_or_else(|_| Err(late()))
}

fn not_redis(line: &str) -> io::Error {
    let start: String = line.chars().take(40).collect();
    io::Error::new(ErrorKind::InvalidData, format!("{start:?} is not a reply of Redis"))
}

fn unexpected(command: &str, reply: &[Value]) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{command} was answered with {reply:?}"))
}

#[cfg(test)]
mod tests {
    use super::Redis;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// What a client does against a server that expects `asked` and then sends `pieces`.
    async fn met<T>(asked: &str, pieces: &[&str], client: impl AsyncFnOnce(Redis) -> T) -> T {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = async {
            let (mut stream, _) = listener.accept().await.expect("a client");
            stream.set_nodelay(true).expect("an option");
            let mut bytes = vec![0; asked.len()];
            stream.read_exact(&mut bytes).await.expect("a command");
            assert_eq!(String::from_utf8_lossy(&bytes), asked);
            for piece in pieces {
                stream.write_all(piece.as_bytes()).await.expect("sent");
                tokio::task::yield_now().await;
            }
        };
        let client = async { client(Redis::open(&address, None).await.expect("connected")).await };
        tokio::join!(server, client).1
    }

    const SUBSCRIBE: &str = "*2\r\n$9\r\nSUBSCRIBE\r\n$7\r\nauction\r\n";
    const SUBSCRIBED: &str = "*3\r\n$9\r\nsubscribe\r\n$7\r\nauction\r\n:1\r\n";

    #[tokio::test]
    async fn texts_come_whole_in_whatever_pieces() {
        let message = "*3\r\n$7\r\nmessage\r\n$7\r\nauction\r\n$6\r\na\r\nb\u{e9}\r\n";
        let all = format!("{SUBSCRIBED}{message}{message}");
        for at in (0..=all.len()).filter(|at| all.is_char_boundary(*at)) {
            let (one, other) = all.split_at(at);
            let pieces = [one, other];
            let texts = met(SUBSCRIBE, &pieces, async |mut redis| {
                redis.subscribe("auction").await.expect("subscribed");
                let texts = [redis.published().await.expect("a text"), redis.published().await.expect("another")];
                (texts, redis.published().await.expect_err("the end").to_string())
            });
            let expected = (["a\r\nb\u{e9}"; 2].map(str::to_owned), "the connection ended".to_owned());
            assert_eq!(texts.await, expected);
        }
    }

    /// The Redis of a run has a password: without it every server's bus was refused, and events came at the pace of the beat.
    #[tokio::test]
    async fn a_password_is_given_before_anything_else() {
        let auth = "*2\r\n$4\r\nAUTH\r\n$6\r\ns3cr3t\r\n";
        for (reply, wrong) in [
            ("+OK\r\n", ""),
            ("-WRONGPASS invalid username-password pair\r\n", "WRONGPASS invalid username-password pair"),
            (":1\r\n", "AUTH was answered with [Number(1)]"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address").to_string();
            let server = async {
                let (mut stream, _) = listener.accept().await.expect("a client");
                let mut bytes = vec![0; auth.len()];
                stream.read_exact(&mut bytes).await.expect("a command");
                assert_eq!(String::from_utf8_lossy(&bytes), auth);
                stream.write_all(reply.as_bytes()).await.expect("sent");
            };
            let (said, ()) = tokio::join!(Redis::open(&address, Some("s3cr3t")), server);
            assert_eq!(said.err().map(|why| why.to_string()).unwrap_or_default(), wrong, "{reply:?}");
        }
    }

    #[tokio::test]
    async fn what_redis_refuses_and_what_is_not_redis_are_errors() {
        let publish = "*3\r\n$7\r\nPUBLISH\r\n$7\r\nauction\r\n$2\r\nhi\r\n";
        for (reply, wrong) in [
            (":2\r\n", ""),
            ("-NOAUTH Authentication required.\r\n", "NOAUTH Authentication required."),
            ("HTTP/1.1 400 Bad Request\r\n", "\"HTTP/1.1 400 Bad Request\" is not a reply of Redis"),
            ("+OK\r\n", "PUBLISH was answered with [Text(\"OK\")]"),
            ("$99999999999\r\n", "\"$99999999999\" is not a reply of Redis"),
            ("$-1\r\n", "\"$-1\" is not a reply of Redis"),
            ("*9\r\n", "\"*9\" is not a reply of Redis"),
            ("$2\r\nabcd", "\"$2\" is not a reply of Redis"),
            ("\r\n", "\"\" is not a reply of Redis"),
            ("", "the connection ended"),
        ] {
            let said = met(publish, &[reply], async |mut redis| redis.publish("auction", "hi").await).await;
            assert_eq!(said.err().map(|why| why.to_string()).unwrap_or_default(), wrong, "{reply:?}");
        }
        let other = SUBSCRIBED.replace(":1", ":2");
        let said = met(SUBSCRIBE, &[&other], async |mut redis| redis.subscribe("auction").await).await;
        let said = said.expect_err("another number of channels").to_string();
        assert!(said.starts_with("SUBSCRIBE was answered with"), "{said}");
    }
}
