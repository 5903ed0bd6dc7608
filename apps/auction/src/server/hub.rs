//! What this server knows of live auctions, and the waking of everybody who waits for news.
//!
//! Each auction that somebody looked at has a channel: its present state, its last events in the order that the owner gave them,
//! and the order reached. Whoever attends sleeps on that order. An event that is not the next one shows that the bus
//! lost something: the channel then reads bids and state from the database, so that no bid fails to be pushed.

use crate::database::{Database, Fault};
use crate::nouns::{Current, Event, EventType, Id, Item, minimum};
use crate::store::{browse, sales};
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tokio::sync::watch;

/// Events that a channel remembers, and bids that are read at once after a gap.
const REMEMBERED: usize = 64;
const CATCH_UP: i64 = 1000;

/// An event as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Pushed {
    pub order: i64,
    pub kind: EventType,
    pub json: Arc<str>,
}

/// What an attendee that has seen everything up to some order is to be sent.
#[derive(Debug)]
pub(crate) struct News {
    /// Ask again with this.
    pub order: i64,
    /// Something between is not remembered as events: start from [`Channel::current`].
    pub resync: bool,
    pub events: Vec<Pushed>,
}

#[derive(Debug)]
struct Live {
    order: i64,
    state: &'static str,
    item_id: Option<Id>,
    item: Option<Item>,
    closes_ms: i64,
    ring: VecDeque<Pushed>,
    /// Up to here, events are forgotten or were never seen one by one.
    forgotten: i64,
    counts: Counts,
}

/// What was pushed, for the invariant check.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Counts {
    pub auction_id: Id,
    pub after: i64,
    pub order: i64,
    pub bids: i64,
    pub amount_sum_cents: i64,
    pub deliveries: u64,
    pub missed: u64,
}

/// One live auction.
#[derive(Debug)]
pub(crate) struct Channel {
    pub auction: Id,
    reached: watch::Sender<i64>,
    live: Mutex<Live>,
    catching_up: tokio::sync::Mutex<()>,
    deliveries: AtomicU64,
    missed: AtomicU64,
}

fn seen(item: Option<&Item>) -> &'static str {
    match item.map(|item| item.state.as_str()) {
        Some("open") => "open",
        Some("lastcall") => "lastcall",
        _ => "between",
    }
}

impl Channel {
    async fn load(database: &dyn Database, auction: Id) -> Result<Option<Self>, Fault> {
        let Some((found, item, closes_ms)) = sales::lot(database, auction).await? else { return Ok(None) };
        if found.status != "live" {
            return Ok(None);
        }
        let counts = Counts {
            auction_id: auction,
            after: found.order,
            order: found.order,
            bids: 0,
            amount_sum_cents: 0,
            deliveries: 0,
            missed: 0,
        };
        let live = Live {
            order: found.order,
            state: seen(item.as_ref()),
            item_id: item.as_ref().map(|item| item.item_id),
            item,
            closes_ms,
            ring: VecDeque::new(),
            forgotten: found.order,
            counts,
        };
        Ok(Some(Channel {
            auction,
            reached: watch::Sender::new(found.order),
            live: Mutex::new(live),
            catching_up: tokio::sync::Mutex::default(),
            deliveries: AtomicU64::new(0),
            missed: AtomicU64::new(0),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To sleep on until the order changes.
    pub(crate) fn listen(&self) -> watch::Receiver<i64> {
        self.reached.subscribe()
    }

    pub(crate) fn order(&self) -> i64 {
        self.lock().order
    }

    /// Takes the next event; false when one before it is missing.
    fn take(&self, event: &Event) -> bool {
        let mut live = self.lock();
        if event.order <= live.order {
            return true;
        }
        if event.order != live.order + 1 {
            return false;
        }
        live.apply(event);
        drop(live);
        self.reached.send_replace(event.order);
        true
    }

    /// What happened after `after`; none when nothing did.
    pub(crate) fn news(&self, after: i64) -> Option<News> {
        let live = self.lock();
        if live.order <= after {
            return None;
        }
        let events: Vec<Pushed> = live.ring.iter().filter(|it| it.order > after).cloned().collect();
        Some(News { order: live.order, resync: after < live.forgotten, events })
    }

    /// Counts what one attendee was sent.
    pub(crate) fn delivered(&self, news: &News) {
        let bids = news.events.iter().filter(|it| it.kind == EventType::Bid).count();
        self.deliveries.fetch_add(u64::try_from(bids).unwrap_or(0), Relaxed);
        if news.resync {
            self.missed.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let live = self.lock();
        Counts {
            order: live.order,
            deliveries: self.deliveries.load(Relaxed),
            missed: self.missed.load(Relaxed),
            ..live.counts
        }
    }

    /// What is up. The item is read when it was not looked at before.
    pub(crate) async fn current(&self, database: &dyn Database) -> Result<Current, Fault> {
        loop {
            let wanted = {
                let live = self.lock();
                match live.item_id {
                    Some(id) if live.item.is_none() => id,
                    _ => return Ok(live.current(self.auction)),
                }
            };
            let item = browse::item(database, wanted).await?;
            let item = item.ok_or_else(|| Fault::Unexpected(format!("item {wanted} is up and does not exist")))?;
            let mut live = self.lock();
            if live.item_id == Some(wanted) && live.item.is_none() {
                // Bids that were stored meanwhile are in the row already; their events come, and change nothing.
                live.item = Some(item);
            }
        }
    }

    /// Reads what the bus lost: bids one by one, and the state as it is.
    pub(crate) async fn catch_up(&self, database: &dyn Database) -> Result<(), Fault> {
        let _alone = self.catching_up.lock().await;
        let Some((auction, item, closes_ms)) = sales::lot(database, self.auction).await? else { return Ok(()) };
        let from = self.order();
        if auction.order <= from {
            return Ok(());
        }
        let bids = sales::bids_after(database, self.auction, from, CATCH_UP).await?;
        let mut live = self.lock();
        if live.order >= auction.order {
            return Ok(());
        }
        for bid in bids.iter().filter(|bid| bid.order > live.order && bid.order <= auction.order).collect::<Vec<_>>() {
            live.remember(bid);
        }
        live.forgotten = auction.order;
        live.order = auction.order;
        live.state = seen(item.as_ref());
        live.item_id = item.as_ref().map(|item| item.item_id);
        live.item = item;
        live.closes_ms = closes_ms;
        drop(live);
        self.reached.send_replace(auction.order);
        Ok(())
    }
}

impl Live {
    fn remember(&mut self, event: &Event) {
        if event.kind == EventType::Bid {
            self.counts.bids += 1;
            self.counts.amount_sum_cents += event.amount_cents.unwrap_or(0);
        }
        // An event is numbers and short names: it cannot fail to be written.
        let json = serde_json::to_string(event).unwrap_or_default();
        self.ring.push_back(Pushed { order: event.order, kind: event.kind, json: json.into() });
        if self.ring.len() > REMEMBERED
            && let Some(oldest) = self.ring.pop_front()
        {
            self.forgotten = self.forgotten.max(oldest.order);
        }
    }

    fn apply(&mut self, event: &Event) {
        self.remember(event);
        self.order = event.order;
        self.closes_ms = event.closes_ms;
        match event.kind {
            EventType::Sold | EventType::Returned => {
                (self.state, self.item_id, self.item) = ("between", None, None);
            }
            EventType::LastCall => self.state = "lastcall",
            EventType::Opened | EventType::Bid => self.state = "open",
        }
        if matches!(event.kind, EventType::Sold | EventType::Returned) {
            return;
        }
        if self.item_id != Some(event.item_id) {
            (self.item_id, self.item) = (Some(event.item_id), None);
        }
        // A row that was read lately may have this bid and later ones, whose ids are larger.
        if let (EventType::Bid, Some(item)) = (event.kind, &mut self.item)
            && event.bid_id > item.high_bid
        {
            (item.high_cents, item.high_bidder, item.high_bid) = (event.amount_cents, event.account_id, event.bid_id);
            item.bids += 1;
        }
    }

    fn current(&self, auction: Id) -> Current {
        let item = self.item.as_ref().filter(|_| self.item_id.is_some());
        let high_cents = item.and_then(|item| item.high_cents);
        Current {
            auction_id: auction,
            order: self.order,
            state: self.state,
            item: item.map(|item| Item { state: self.state.to_owned(), ..item.clone() }),
            high_cents,
            high_bidder: item.and_then(|item| item.high_bidder),
            high_bid: item.and_then(|item| item.high_bid),
            minimum_cents: item.map(|item| minimum(item.starting_cents, high_cents)),
            closes_ms: self.closes_ms,
        }
    }
}

/// All channels of this server.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    channels: RwLock<HashMap<Id, Arc<Channel>>>,
    loading: tokio::sync::Mutex<()>,
}

impl Hub {
    fn known(&self, auction: Id) -> Option<Arc<Channel>> {
        self.channels.read().unwrap_or_else(PoisonError::into_inner).get(&auction).cloned()
    }

    /// The channel of a live auction; none if there is no such.
    pub(crate) async fn channel(&self, database: &dyn Database, auction: Id) -> Result<Option<Arc<Channel>>, Fault> {
        if let Some(channel) = self.known(auction) {
            return Ok(Some(channel));
        }
        let _alone = self.loading.lock().await;
        if let Some(channel) = self.known(auction) {
            return Ok(Some(channel));
        }
        let Some(channel) = Channel::load(database, auction).await?.map(Arc::new) else { return Ok(None) };
        let mut channels = self.channels.write().unwrap_or_else(PoisonError::into_inner);
        channels.insert(auction, Arc::clone(&channel));
        Ok(Some(channel))
    }

    /// Hands an event to those who attend here; what is missing before it is read from the database.
    pub(crate) fn push(&self, database: &Arc<dyn Database>, event: &Event) {
        let Some(channel) = self.known(event.auction_id) else { return };
        if !channel.take(event) {
            self.repair(database, channel);
        }
    }

    fn repair(&self, database: &Arc<dyn Database>, channel: Arc<Channel>) {
        let database = Arc::clone(database);
        tokio::spawn(async move {
            if let Err(why) = channel.catch_up(&*database).await {
                super::log::line(&format!("catching up with auction {}: {why}", channel.auction));
            }
        });
    }

    /// Catches up where the database is further than the channel although an event could have come.
    pub(crate) fn compare(&self, database: &Arc<dyn Database>, stored: &HashMap<Id, i64>) {
        for channel in self.all() {
            if stored.get(&channel.auction).is_some_and(|&order| channel.order() < order) {
                self.repair(database, channel);
            }
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Channel>> {
        self.channels.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An auction whose item nobody has bid for.
    fn open() -> Live {
        let text = || "text".to_owned();
        let item = Item {
            item_id: 9,
            auction_id: Some(3),
            seller_id: 1,
            position: 1,
            name: text(),
            description: text(),
            manufacturer: text(),
            condition: text(),
            state: "open".to_owned(),
            starting_cents: 500,
            high_cents: None,
            high_bidder: None,
            bids: 0,
            images: 1,
            image_item: 9,
            high_bid: None,
        };
        let counts =
            Counts { auction_id: 3, after: 0, order: 0, bids: 0, amount_sum_cents: 0, deliveries: 0, missed: 0 };
        Live {
            order: 1,
            state: "open",
            item_id: Some(9),
            item: Some(item),
            closes_ms: 0,
            ring: VecDeque::new(),
            forgotten: 0,
            counts,
        }
    }

    /// It counted twice, and an earlier bid took the place of a later one.
    #[test]
    fn a_bid_that_is_in_the_row_already_counts_once() {
        let mut live = open();
        let row = live.item.as_mut().expect("an item");
        (row.bids, row.high_bid, row.high_cents, row.high_bidder) = (2, Some(103), Some(700), Some(6));
        let mut shown = |order: i64, cents: i64| {
            let bid = format!(
                r#"{{"type":"bid","auction_id":3,"order":{order},"item_id":9,"bid_id":{},"account_id":5,"amount_cents":{cents},"closes_ms":1}}"#,
                100 + order
            );
            live.apply(&serde_json::from_str(&bid).expect("an event"));
            let current = live.current(3);
            (current.item.map(|item| item.bids), current.high_cents)
        };
        assert_eq!(shown(2, 600), (Some(2), Some(700)));
        assert_eq!(shown(3, 700), (Some(2), Some(700)));
        assert_eq!(shown(4, 800), (Some(3), Some(800)), "it is not in the row");
    }

    #[test]
    fn while_no_item_is_up_there_is_no_least_bid() {
        let mut live = open();
        assert_eq!(live.current(3).minimum_cents, Some(minimum(500, None)));
        let sold = r#"{"type":"sold","auction_id":3,"order":2,"item_id":9,"closes_ms":1}"#;
        live.apply(&serde_json::from_str(sold).expect("an event"));
        let current = live.current(3);
        assert_eq!((current.state, current.item.is_none(), current.minimum_cents), ("between", true, None));
    }
}
