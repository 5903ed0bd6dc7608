//! What one server tells all others at once: events, logouts, leases given back.
//!
//! The bus may lose messages; it is the quick way, not the safe one. A channel notices gaps by their order and every server compares
//! its channels with the database at each beat (`hub`, `keeper`), so a lost message costs time and nothing else.

mod redis;

use super::App;
use crate::nouns::Event;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, NoTls};

/// PostgreSQL refuses notifications of 8000 bytes and more.
const ROOM: usize = 7000;
const CHANNEL: &str = "auction";

/// Which bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// None beyond this process: with several servers, others follow at the pace of the beat.
    Process,
    Postgres,
    /// At HOST:PORT.
    Redis(String),
}

impl Kind {
    /// `process`, `postgres` or `redis://HOST:PORT`.
    ///
    /// # Errors
    /// What would be right.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "process" => Ok(Kind::Process),
            "postgres" => Ok(Kind::Postgres),
            _ => {
                let wrong = || format!("`{text}` is not a bus; write process, postgres or redis://HOST:PORT");
                redis_address(text).map(Kind::Redis).ok_or_else(wrong)
            }
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::Process => "process",
            Kind::Postgres => "postgres",
            Kind::Redis(_) => "redis",
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Message {
    Event(Event),
    /// The hash of a token, in hexadecimal digits.
    Logout(String),
    Leases,
}

#[derive(Serialize, Deserialize)]
struct Parcel<M> {
    from: String,
    messages: Vec<M>,
}

/// The sending end.
pub(crate) struct Bus {
    pub kind: Kind,
    queue: Option<mpsc::UnboundedSender<Message>>,
}

impl Bus {
    /// A bus and what it has to send.
    pub(crate) fn new(kind: Kind) -> (Self, Option<mpsc::UnboundedReceiver<Message>>) {
        if kind == Kind::Process {
            return (Bus { kind, queue: None }, None);
        }
        let (queue, outgoing) = mpsc::unbounded_channel();
        (Bus { kind, queue: Some(queue) }, Some(outgoing))
    }

    pub(crate) fn send(&self, message: Message) {
        if let Some(queue) = &self.queue {
            // The queue lives as long as the process.
            let _ = queue.send(message);
        }
    }

    pub(crate) fn leases_changed(&self) {
        self.send(Message::Leases);
    }
}

/// Runs the bus: connects, again after every loss.
pub(crate) async fn carry(app: Arc<App>, mut outgoing: mpsc::UnboundedReceiver<Message>) {
    loop {
        let lost = match &app.bus.kind {
            Kind::Process => return,
            Kind::Postgres => postgres(&app, &mut outgoing).await,
            Kind::Redis(address) => redis(&app, address, &mut outgoing).await,
        };
        super::log::line(&format!("bus: {lost}; connecting again"));
        // What waited is in the database; the others will find it there.
        while outgoing.try_recv().is_ok() {}
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The next messages that fit one parcel; waits for the first.
async fn pack(from: &str, outgoing: &mut mpsc::UnboundedReceiver<Message>) -> Option<String> {
    let mut messages = Vec::new();
    let mut size = 0;
    let mut next = outgoing.recv().await;
    while let Some(message) = next {
        // Messages are numbers and short names: they cannot fail to be written.
        let text = serde_json::value::to_raw_value(&message).ok()?;
        size += text.get().len() + 1;
        messages.push(text);
        next = if size < ROOM - 600 { outgoing.try_recv().ok() } else { None };
    }
    if messages.is_empty() {
        return None;
    }
    serde_json::to_string(&Parcel { from: from.to_owned(), messages }).ok()
}

fn unpack(app: &Arc<App>, text: &str) {
    match serde_json::from_str::<Parcel<Message>>(text) {
        Ok(parcel) if parcel.from == app.id => {}
        Ok(parcel) => parcel.messages.into_iter().for_each(|message| app.receive(message)),
        Err(why) => super::log::line(&format!("bus: a message that cannot be read: {why}")),
    }
}

async fn postgres(app: &Arc<App>, outgoing: &mut mpsc::UnboundedReceiver<Message>) -> String {
    let config = match crate::database::postgres_config(&app.database_address) {
        Ok(config) => config,
        Err(why) => return why.to_string(),
    };
    let (client, mut connection) = match config.connect(NoTls).await {
        Ok(pair) => pair,
        Err(why) => return why.to_string(),
    };
    let listener = Arc::clone(app);
    let mut listening = tokio::spawn(async move {
        let mut messages = futures_util::stream::poll_fn(|context| connection.poll_message(context));
        while let Some(message) = messages.next().await {
            match message {
                Ok(AsyncMessage::Notification(it)) => unpack(&listener, it.payload()),
                Ok(_) => {}
                Err(why) => return why.to_string(),
            }
        }
        "the connection ended".to_owned()
    });
    if let Err(why) = client.batch_execute(&format!("LISTEN {CHANNEL}")).await {
        return why.to_string();
    }
    loop {
        tokio::select! {
            ended = &mut listening => return ended.unwrap_or_else(|why| why.to_string()),
            parcel = pack(&app.id, outgoing) => {
                let Some(parcel) = parcel else { return "nothing to send".to_owned() };
                if let Err(why) = client.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &parcel]).await {
                    listening.abort();
                    return why.to_string();
                }
            }
        }
    }
}

async fn redis(app: &Arc<App>, address: &str, outgoing: &mut mpsc::UnboundedReceiver<Message>) -> String {
    let password = app.bus_password.as_deref();
    let attempt = async {
        let mut listener = redis::Redis::open(address, password).await?;
        listener.subscribe(CHANNEL).await?;
        Ok::<_, std::io::Error>((listener, redis::Redis::open(address, password).await?))
    };
    let (mut connection, mut sender) = match attempt.await {
        Ok(pair) => pair,
        Err(why) => return why.to_string(),
    };
    let listener = Arc::clone(app);
    let mut listening = tokio::spawn(async move {
        loop {
            match connection.published().await {
                Ok(text) => unpack(&listener, &text),
                Err(why) => return why.to_string(),
            }
        }
    });
    loop {
        tokio::select! {
            ended = &mut listening => return ended.unwrap_or_else(|why| why.to_string()),
            parcel = pack(&app.id, outgoing) => {
                let Some(parcel) = parcel else { return "nothing to send".to_owned() };
                if let Err(why) = sender.publish(CHANNEL, &parcel).await {
                    listening.abort();
                    return why.to_string();
                }
            }
        }
    }
}

/// HOST:PORT of `redis://HOST:PORT`.
fn redis_address(text: &str) -> Option<String> {
    let address = text.strip_prefix("redis://")?;
    let (host, port) = address.rsplit_once(':')?;
    let is_host = !host.is_empty() && !host.contains(['@', '/', ' ']);
    (is_host && port.parse::<u16>().is_ok()).then(|| address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn a_bus_is_named_with_host_and_port() {
        for (text, address) in [("redis://db-1:6379", "db-1:6379"), ("redis://[::1]:7000", "[::1]:7000")] {
            assert_eq!(Kind::parse(text), Ok(Kind::Redis(address.to_owned())));
        }
        for text in [
            "redis://",
            "redis://db-1",
            "redis://:6379",
            "redis://db-1:99999",
            "redis://a:b@db-1:6379",
            "redis://db-1:1/2",
            "nats",
        ] {
            assert_eq!(
                Kind::parse(text),
                Err(format!("`{text}` is not a bus; write process, postgres or redis://HOST:PORT"))
            );
        }
    }
}
