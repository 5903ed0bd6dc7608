//! The rows of the site: accounts, past, live and future auctions with their items, bids, attendances and purchases.
//!
//! The sizes are those of the model (per simulated user that the site is loaded for): 5 accounts; per account 5 purchases, 100 bids, 20 attendances and
//! half a past auction of 10 items, 20 bids an item, 40 attendees; one live auction of 10-20 items for 15 users, as many future ones.
//! `history` scales past auctions and what hangs on them.

use super::{Random, words};
use crate::database::Value;
use crate::nouns::{Id, bid_id};

/// What every account may spend.
pub(crate) const CREDIT_CENTS: i64 = 100_000_000;

/// All times are relative to 2026-01-01, so that the rows do not depend on the day of loading.
const PRESENT_MS: i64 = 1_767_225_600_000;
const DAY_MS: i64 = 86_400_000;
const ITEM_MS: i64 = 300_000;
const PAST_ITEMS: i64 = 10;
const PAST_BIDS: i64 = 20;
const ATTENDEES: usize = 40;

const FUTURE: u64 = 3;
const LIVE: u64 = 2;
const PAST: u64 = 1;

pub(crate) const ACCOUNT: &[&str] = &[
    "id",
    "username",
    "password_hash",
    "first_name",
    "last_name",
    "email",
    "revision",
    "loaded_credit_cents",
    "credit_cents",
    "held_cents",
];
pub(crate) const AUCTION: &[&str] = &[
    "id",
    "name",
    "category",
    "status",
    "starts_ms",
    "round",
    "items",
    "current_item",
    "last_order",
    "closes_ms",
    "owner",
    "fence",
    "lease_until_ms",
];
pub(crate) const ITEM: &[&str] = &[
    "id",
    "auction_id",
    "seller_id",
    "position",
    "round",
    "loaded",
    "image_item",
    "images",
    "name",
    "description",
    "manufacturer",
    "item_condition",
    "state",
    "starting_cents",
    "high_bid",
    "high_cents",
    "high_bidder",
    "bids",
];
pub(crate) const BID: &[&str] =
    &["id", "auction_id", "item_id", "account_id", "amount_cents", "event_order", "accepted_ns"];
pub(crate) const ATTENDANCE: &[&str] = &["account_id", "auction_id", "loaded", "joined_ms", "left_ms"];
pub(crate) const PURCHASE: &[&str] = &["item_id", "account_id", "bid_id", "loaded", "amount_cents", "bought_ms"];

type Rows = Vec<Vec<Value>>;

/// How large a site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub seed: u64,
    pub max_users: u32,
    /// In thousandths: 1000 is the whole history.
    pub history_permille: u32,
}

/// Rows of one or more auctions.
#[derive(Debug, Default)]
pub(crate) struct Auctions {
    pub auctions: Rows,
    pub items: Rows,
    pub bids: Rows,
    pub attendances: Rows,
    pub purchases: Rows,
    /// `(item, images, with full size)`.
    pub pictures: Vec<(Id, i64, bool)>,
}

impl Plan {
    pub(crate) fn accounts(&self) -> i64 {
        5 * i64::from(self.max_users)
    }

    pub(crate) fn live(&self) -> i64 {
        i64::from(self.max_users.div_ceil(15))
    }

    pub(crate) fn future(&self) -> i64 {
        self.live()
    }

    pub(crate) fn past(&self) -> i64 {
        self.accounts() * i64::from(self.history_permille) / 2000
    }

    /// The row of an account that has bought for `spent` cents.
    pub(crate) fn account(&self, id: Id, password_hash: &str, spent: i64) -> Vec<Value> {
        let (first, last, email) = self.person(id);
        let credit = CREDIT_CENTS - spent;
        vec![
            id.into(),
            format!("user{id}").into(),
            password_hash.into(),
            first.into(),
            last.into(),
            email.into(),
            0.into(),
            credit.into(),
            credit.into(),
            0.into(),
        ]
    }

    /// First name, last name and address of an account.
    pub(crate) fn person(&self, id: Id) -> (&'static str, &'static str, String) {
        let mut random = Random::of(self.seed, &[10, id.unsigned_abs()]);
        let (first, last) = (*random.pick(&words::FIRST), *random.pick(&words::LAST));
        (first, last, format!("{}.{}.{id}@auction.example", first.to_lowercase(), last.to_lowercase()))
    }

    /// Past auctions, in order; call with rising `index` and the same `state`.
    pub(crate) fn past_auction(&self, index: i64, state: &mut PastState, rows: &mut Auctions) {
        let id = self.live() + self.future() + 1 + index;
        let mut random = Random::of(self.seed, &[PAST, id.unsigned_abs()]);
        let attendees = state.attendees(self);
        let starts = PRESENT_MS - DAY_MS - random.between(0, 729 * DAY_MS);
        let order = PAST_ITEMS * PAST_BIDS;
        rows.auctions.push(self.auction(id, "past", starts, PAST_ITEMS, order));
        for &account in &attendees {
            let joined = starts + random.between(0, 60_000);
            let left = starts + PAST_ITEMS * ITEM_MS;
            rows.attendances.push(vec![account.into(), id.into(), 1.into(), joined.into(), left.into()]);
        }
        for position in 0..PAST_ITEMS {
            let item = state.next_item;
            state.next_item += 1;
            let starting = starting(&mut random);
            let opens = starts + position * ITEM_MS;
            let mut high = (0, 0, starting);
            for number in 0..PAST_BIDS {
                let order = position * PAST_BIDS + number + 1;
                let mut bidder = *random.pick(&attendees);
                while bidder == high.1 && attendees.len() > 1 {
                    bidder = *random.pick(&attendees);
                }
                let raise = if number == 0 { 0 } else { (high.2 * random.normal(20, 20).clamp(5, 60) / 1000).max(1) };
                high = (bid_id(id, order), bidder, high.2 + raise);
                let at = opens + number * (ITEM_MS - 60_000) / PAST_BIDS;
                let row = [high.0, id, item, bidder, high.2, order, at * 1_000_000];
                rows.bids.push(row.into_iter().map(Value::Int).collect());
            }
            rows.items.push(self.item(item, id, position, (1, "sold"), starting, Some(high)));
            rows.pictures.push((item, 1, false));
            let bought = opens + ITEM_MS;
            let row = [item, high.1, high.0, 1, high.2, bought];
            rows.purchases.push(row.into_iter().map(Value::Int).collect());
            if let Some(spent) = usize::try_from(high.1).ok().and_then(|account| state.spent.get_mut(account)) {
                *spent += high.2;
            }
        }
    }

    /// A live (ids from 1) or future auction (ids after those).
    pub(crate) fn coming_auction(&self, id: Id, next_item: &mut Id, rows: &mut Auctions) {
        let live = id <= self.live();
        let mut random = Random::of(self.seed, &[if live { LIVE } else { FUTURE }, id.unsigned_abs()]);
        let items = random.between(10, 20);
        let starts = if live { PRESENT_MS } else { PRESENT_MS + DAY_MS + random.between(0, 181 * DAY_MS) };
        rows.auctions.push(self.auction(id, if live { "live" } else { "future" }, starts, items, 0));
        for position in 0..items {
            let item = *next_item;
            *next_item += 1;
            let images = if live { random.between(1, 4) } else { 1 };
            rows.items.push(self.item(item, id, position, (images, "waiting"), starting(&mut random), None));
            rows.pictures.push((item, images, live));
        }
    }

    fn auction(&self, id: Id, status: &str, starts_ms: i64, items: i64, last_order: i64) -> Vec<Value> {
        let mut random = Random::of(self.seed, &[4, id.unsigned_abs()]);
        let category = *random.pick(&words::CATEGORIES);
        let name = format!("{} of the {} collection", category, random.pick(&words::LAST));
        vec![
            id.into(),
            name.into(),
            category.into(),
            status.into(),
            starts_ms.into(),
            0.into(),
            items.into(),
            Value::Null,
            last_order.into(),
            0.into(),
            Value::Null,
            0.into(),
            0.into(),
        ]
    }

    fn item(
        &self,
        id: Id,
        auction: Id,
        position: i64,
        (images, state): (i64, &str),
        starting: i64,
        high: Option<(Id, Id, i64)>,
    ) -> Vec<Value> {
        let mut random = Random::of(self.seed, &[5, id.unsigned_abs()]);
        let (adjective, thing) = (*random.pick(&words::ADJECTIVES), *random.pick(&words::THINGS));
        let maker = *random.pick(&words::MAKERS);
        let year = random.between(1780, 1985);
        let mut name = format!("{adjective} {thing}, {year}");
        name[..1].make_ascii_uppercase();
        let description = format!("{} {}", random.pick(&words::SENTENCES), random.pick(&words::SENTENCES));
        let seller = random.between(1, self.accounts());
        vec![
            id.into(),
            auction.into(),
            seller.into(),
            position.into(),
            0.into(),
            1.into(),
            id.into(),
            images.into(),
            name.into(),
            description.into(),
            maker.into(),
            (*random.pick(&words::CONDITIONS)).into(),
            state.into(),
            starting.into(),
            high.map(|it| it.0).into(),
            high.map(|it| it.2).into(),
            high.map(|it| it.1).into(),
            if high.is_some() { PAST_BIDS } else { 0 }.into(),
        ]
    }
}

/// Starting bid: N(200, 200) whole units, at least one.
fn starting(random: &mut Random) -> i64 {
    random.normal(200, 200).max(1) * 100
}

/// What is carried from one past auction to the next.
#[derive(Debug)]
pub(crate) struct PastState {
    /// By account id.
    pub spent: Vec<i64>,
    pub next_item: Id,
    deck: Vec<Id>,
    deals: u64,
}

impl PastState {
    pub(crate) fn new(plan: &Plan, next_item: Id) -> Self {
        let accounts = usize::try_from(plan.accounts()).unwrap_or(0);
        PastState { spent: vec![0; accounts + 1], next_item, deck: Vec::new(), deals: 0 }
    }

    /// The next attendees: accounts are dealt out in shuffled rounds, so that each attends equally often.
    fn attendees(&mut self, plan: &Plan) -> Vec<Id> {
        if self.deck.len() < ATTENDEES {
            self.deck = (1..=plan.accounts()).collect();
            Random::of(plan.seed, &[6, self.deals]).shuffle(&mut self.deck);
            self.deals += 1;
        }
        let left = self.deck.len().saturating_sub(ATTENDEES);
        self.deck.split_off(left)
    }
}

#[cfg(test)]
mod tests {
    use super::{Auctions, PastState, Plan};
    use crate::database::Value;

    #[test]
    fn the_whole_history_has_the_models_sizes() {
        let plan = Plan { seed: 1, max_users: 80, history_permille: 1000 };
        let (mut rows, mut state) = (Auctions::default(), PastState::new(&plan, 1));
        (0..plan.past()).for_each(|index| plan.past_auction(index, &mut state, &mut rows));
        let accounts = usize::try_from(plan.accounts()).unwrap();
        assert_eq!(rows.auctions.len(), accounts / 2);
        assert_eq!(rows.items.len(), 5 * accounts);
        assert_eq!(rows.purchases.len(), 5 * accounts);
        assert_eq!(rows.bids.len(), 100 * accounts);
        assert_eq!(rows.attendances.len(), 20 * accounts);
        let mut times = vec![0; accounts + 1];
        for row in &rows.attendances {
            let Value::Int(account) = row[0] else { panic!("{row:?}") };
            times[usize::try_from(account).unwrap()] += 1;
        }
        assert!(times[1..].iter().all(|&attended| attended == 20), "everybody attends 20 auctions");
    }

    #[test]
    fn a_seed_decides_every_row() {
        let rows = |seed| {
            let plan = Plan { seed, max_users: 30, history_permille: 100 };
            let (mut rows, mut state) = (Auctions::default(), PastState::new(&plan, 1));
            (0..plan.past()).for_each(|index| plan.past_auction(index, &mut state, &mut rows));
            format!("{rows:?}")
        };
        assert_eq!(rows(3), rows(3));
        assert_ne!(rows(3), rows(4));
    }
}
