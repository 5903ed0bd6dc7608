//! The one who conducts a live auction on the server that owns it.
//!
//! A task for each owned auction takes bids one after another and closes items by the clock: OPEN, after a while without a bid
//! LASTCALL, after another SOLD to the high bidder or RETURNED. Every step is one fenced transaction first and an event
//! second, so that what is pushed is stored. Whatever goes wrong in between, the task forgets what it believed and reads the
//! database again: it is the only truth.

use super::App;
use super::refusal::Refusal;
use crate::database::Fault;
use crate::duration::{millis, now_ms, now_ns};
use crate::nouns::{Event, EventType, Id, bid_id, minimum};
use crate::store::accounts;
use crate::store::sales::{self, Bidding, Refused, Right};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Bids that may wait for one auction.
const QUEUE: usize = 1024;

/// A bid as it was asked for.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Asked {
    pub auction: Id,
    pub item: Id,
    pub account: Id,
    pub amount: i64,
}

pub(crate) struct BidCommand {
    pub asked: Asked,
    pub reply: oneshot::Sender<Result<Event, Refusal>>,
}

/// To reach the task of an owned auction; it ends when this is dropped, after the bids that it has taken.
pub(crate) struct Auctioneer {
    pub fence: i64,
    pub bids: mpsc::Sender<BidCommand>,
    pub ended: tokio::task::JoinHandle<()>,
}

/// The item that is up.
struct Lot {
    item: Id,
    last_call: bool,
    starting: i64,
    /// Bid, account, amount.
    high: Option<(Id, Id, i64)>,
    deadline: Instant,
}

struct Desk {
    app: Arc<App>,
    right: Right,
    round: i64,
    lot: Option<Lot>,
}

/// Why the desk cannot go on as it is.
enum Trouble {
    /// Read the database again.
    Forget,
    /// Another server owns the auction.
    Lost,
}

impl Auctioneer {
    pub(crate) fn start(app: &Arc<App>, auction: Id, fence: i64) -> Self {
        let (bids, queue) = mpsc::channel(QUEUE);
        let right = Right { auction, server: app.id.clone(), fence, order: 0 };
        let desk = Desk { app: Arc::clone(app), right, round: 0, lot: None };
        Auctioneer { fence, bids, ended: tokio::spawn(desk.conduct(queue)) }
    }
}

impl Desk {
    async fn conduct(mut self, mut queue: mpsc::Receiver<BidCommand>) {
        let mut pause = Duration::ZERO;
        loop {
            let trouble = match self.recover().await {
                Ok(()) => {
                    pause = Duration::ZERO;
                    match self.sell_items(&mut queue).await {
                        None => return,
                        Some(trouble) => trouble,
                    }
                }
                Err(trouble) => trouble,
            };
            self.lot = None;
            if matches!(trouble, Trouble::Lost) {
                self.app.keeper.lost(self.right.auction, self.right.fence);
                refuse_all(&mut queue, &Refusal::not_owner()).await;
                return;
            }
            pause = (pause * 2).clamp(Duration::from_millis(20), Duration::from_secs(1));
            let until = Instant::now() + pause;
            while let Ok(Some(command)) = tokio::time::timeout_at(until, queue.recv()).await {
                let _ = command.reply.send(Err(Refusal::unavailable("the database does not answer")));
            }
            if queue.is_closed() && queue.is_empty() {
                return;
            }
        }
    }

    /// Bids and deadlines until something goes wrong; none when the queue has ended.
    async fn sell_items(&mut self, queue: &mut mpsc::Receiver<BidCommand>) -> Option<Trouble> {
        loop {
            let deadline = self.lot.as_ref().map_or_else(|| Instant::now() + self.app.pace.open, |lot| lot.deadline);
            let step = tokio::select! {
                command = queue.recv() => match command {
                    Some(command) => self.bid(command).await,
                    None => return None,
                },
                () = tokio::time::sleep_until(deadline) => self.time_is_up().await,
            };
            if let Err(trouble) = step {
                return Some(trouble);
            }
        }
    }

    /// Takes the auction up as the database has it, and announces it again: whoever attends learns the new deadline.
    async fn recover(&mut self) -> Result<(), Trouble> {
        let database = Arc::clone(&self.app.database);
        let found = sales::lot(&*database, self.right.auction).await.map_err(|why| self.note(&why))?;
        let Some((auction, item, _)) = found else { return Err(Trouble::Lost) };
        self.right.order = auction.order;
        self.round = auction.round;
        let Some(item) = item else { return self.open_next().await };
        let last_call = item.state == "lastcall";
        let high = match (item.high_bid, item.high_bidder, item.high_cents) {
            (Some(bid), Some(account), Some(amount)) => Some((bid, account, amount)),
            _ => None,
        };
        self.announce(item.item_id, last_call, item.starting_cents, high).await
    }

    fn note(&self, why: &Fault) -> Trouble {
        super::log::line(&format!("auction {}: {why}", self.right.auction));
        Trouble::Forget
    }

    /// What a change's outcome means for the desk.
    fn settle(&self, outcome: Result<Result<(), Refused>, Fault>) -> Result<(), Trouble> {
        match outcome {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Refused::NotOwner)) => Err(Trouble::Lost),
            Ok(Err(_)) => Err(Trouble::Forget),
            Err(why) => Err(self.note(&why)),
        }
    }

    fn event(&self, kind: EventType, item: Id, closes_ms: i64) -> Event {
        Event {
            kind,
            auction_id: self.right.auction,
            order: self.right.order,
            item_id: item,
            bid_id: None,
            account_id: None,
            amount_cents: None,
            minimum_cents: None,
            accepted_ns: None,
            closes_ms,
        }
    }

    /// Stores and announces that an item is open or at its last call.
    async fn announce(
        &mut self,
        item: Id,
        last_call: bool,
        starting: i64,
        high: Option<(Id, Id, i64)>,
    ) -> Result<(), Trouble> {
        let (state, kind, time) = if last_call {
            ("lastcall", EventType::LastCall, self.app.pace.last_call)
        } else {
            ("open", EventType::Opened, self.app.pace.open)
        };
        let (closes_ms, deadline) = (now_ms() + millis(time), Instant::now() + time);
        self.right.order += 1;
        let stored = sales::announce(&*self.app.database, &self.right, item, state, closes_ms).await;
        self.settle(stored)?;
        self.lot = Some(Lot { item, last_call, starting, high, deadline });
        let mut event = self.event(kind, item, closes_ms);
        event.minimum_cents = Some(minimum(starting, high.map(|high| high.2)));
        self.app.publish(event);
        Ok(())
    }

    /// Puts the next item up; an auction without one starts over.
    async fn open_next(&mut self) -> Result<(), Trouble> {
        let database = Arc::clone(&self.app.database);
        let next = sales::waiting(&*database, self.right.auction).await.map_err(|why| self.note(&why))?;
        let Some(item) = next else {
            let begun = sales::start_over(&*database, &self.right, self.round).await;
            self.settle(begun)?;
            self.round += 1;
            let next = sales::waiting(&*database, self.right.auction).await.map_err(|why| self.note(&why))?;
            // An auction that never had an item is looked at again later.
            let Some(item) = next else { return Ok(()) };
            return self.open(item).await;
        };
        self.open(item).await
    }

    async fn open(&mut self, item: Id) -> Result<(), Trouble> {
        let found = crate::store::browse::item(&*self.app.database, item).await.map_err(|why| self.note(&why))?;
        let starting = found.ok_or(Trouble::Forget)?.starting_cents;
        self.announce(item, false, starting, None).await
    }

    async fn time_is_up(&mut self) -> Result<(), Trouble> {
        let Some(lot) = self.lot.take() else { return self.open_next().await };
        if !lot.last_call {
            return self.announce(lot.item, true, lot.starting, lot.high).await;
        }
        let now = now_ms();
        self.right.order += 1;
        let kind = match lot.high {
            Some(high) => {
                let stored = sales::sell(&*self.app.database, &self.right, lot.item, high, now).await;
                self.settle(stored)?;
                EventType::Sold
            }
            None => {
                let stored = sales::take_back(&*self.app.database, &self.right, lot.item, now).await;
                self.settle(stored)?;
                EventType::Returned
            }
        };
        let mut event = self.event(kind, lot.item, now);
        if let Some((bid, account, amount)) = lot.high {
            (event.bid_id, event.account_id, event.amount_cents) = (Some(bid), Some(account), Some(amount));
        }
        self.app.publish(event);
        self.open_next().await
    }

    /// Whether a bid is good as far as the desk knows; the rest is checked where it is stored.
    fn judge(&self, asked: &Asked) -> Result<&Lot, Refusal> {
        let lot = self.lot.as_ref().ok_or_else(|| Refusal::item_closed(None))?;
        if lot.item != asked.item {
            return Err(Refusal::item_closed(Some(lot.item)));
        }
        if lot.high.is_some_and(|(_, account, _)| account == asked.account) {
            return Err(Refusal::already_high_bidder());
        }
        let least = minimum(lot.starting, lot.high.map(|high| high.2));
        if asked.amount < least { Err(Refusal::too_low(least)) } else { Ok(lot) }
    }

    async fn bid(&mut self, BidCommand { asked, reply }: BidCommand) -> Result<(), Trouble> {
        let previous = match self.judge(&asked) {
            Ok(lot) => lot.high.map(|(_, account, amount)| (account, amount)),
            Err(refusal) => {
                let _ = reply.send(Err(refusal));
                return Ok(());
            }
        };
        let closes_ms = now_ms() + millis(self.app.pace.open);
        let right = Right { order: self.right.order + 1, ..self.right.clone() };
        let bidding = Bidding {
            item: asked.item,
            account: asked.account,
            amount: asked.amount,
            previous,
            accepted_ns: now_ns(),
            closes_ms,
        };
        let (answer, step) = match sales::accept(&*self.app.database, &right, &bidding).await {
            Ok(Ok(id)) => (Ok(self.accepted(id, &bidding)), Ok(())),
            Ok(Err(Refused::NotOwner)) => (Err(Refusal::not_owner()), Err(Trouble::Lost)),
            Ok(Err(Refused::NotAttending)) => (Err(Refusal::not_attending()), Ok(())),
            Ok(Err(Refused::Credit)) => (Err(self.short_of_credit(asked.account).await), Ok(())),
            Ok(Err(Refused::Stale)) => {
                (Err(Refusal::unavailable("the auction is being looked up")), Err(Trouble::Forget))
            }
            Err(Fault::Unconfirmed(why)) => {
                let id = bid_id(right.auction, right.order);
                (Err(Refusal::outcome_unknown(id)), Err(self.note(&Fault::Unconfirmed(why))))
            }
            Err(why) => (Err(Refusal::unavailable("the database does not answer")), Err(self.note(&why))),
        };
        // A bidder that has gone has its bid all the same.
        let _ = reply.send(answer);
        step
    }

    fn accepted(&mut self, id: Id, bid: &Bidding) -> Event {
        self.right.order += 1;
        if let Some(lot) = &mut self.lot {
            lot.high = Some((id, bid.account, bid.amount));
            lot.last_call = false;
            lot.deadline = Instant::now() + self.app.pace.open;
        }
        let mut event = self.event(EventType::Bid, bid.item, bid.closes_ms);
        (event.bid_id, event.account_id, event.amount_cents) = (Some(id), Some(bid.account), Some(bid.amount));
        event.minimum_cents = Some(minimum(bid.amount, Some(bid.amount)));
        // As it is stored: users match what they hear with their answers by it, also where a server read the bid from the database.
        event.accepted_ns = Some(bid.accepted_ns);
        self.app.publish(event.clone());
        event
    }

    async fn short_of_credit(&self, account: Id) -> Refusal {
        match accounts::profile(&*self.app.database, account).await {
            Ok(Some(profile)) => Refusal::credit(profile.credit_cents - profile.held_cents),
            Ok(None) => Refusal::unknown_token(),
            Err(why) => why.into(),
        }
    }
}

async fn refuse_all(queue: &mut mpsc::Receiver<BidCommand>, refusal: &Refusal) {
    queue.close();
    while let Some(command) = queue.recv().await {
        let _ = command.reply.send(Err(refusal.clone()));
    }
}
