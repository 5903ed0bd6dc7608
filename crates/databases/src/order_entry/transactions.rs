//! The five transactions (rules 2.4 to 2.8), the mix, and what a terminal was acknowledged.

use super::draw::{Constants, Draw};
use super::schema::{DISTRICTS, ITEMS};
use crate::conditions::{Account, mismatches};
use crate::database::{Access, Answers, Batch, Cell, Class, Connection, Dialect, Failure, Param, Rows};
use crate::draws::Draws;
use crate::engine::{Client, Done};
use crate::loading::now_ms;
use crate::statements::statements;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The transactions, in the order of their share.
pub const NAMES: [&str; 5] = ["new-order", "payment", "order-status", "delivery", "stock-level"];
/// Of 100 transactions.
pub const MIX: [usize; 5] = [45, 43, 4, 4, 4];
/// Keying times, in seconds (rule 5.2.5.2).
const KEYING_S: [u64; 5] = [18, 3, 2, 2, 2];
/// Mean thinking times, in seconds (rule 5.2.5.4).
const THINKING_S: [f64; 5] = [12.0, 12.0, 10.0, 5.0, 5.0];
/// What the 90th percentile of each must keep, in ms (rule 5.2.5.3).
pub const LIMIT_MS: [f64; 5] = [5000.0, 5000.0, 5000.0, 5000.0, 20_000.0];
/// Most characters of a customer's data.
const DATA: usize = 500;

/// What was acknowledged to all terminals of a run.
#[derive(Debug, Default)]
pub struct Acknowledged {
    /// New orders.
    pub new_orders: AtomicU64,
    /// Payments.
    pub payments: AtomicU64,
    /// Orders delivered.
    pub delivered: AtomicU64,
    /// New orders of unknown outcome.
    pub ambiguous_orders: AtomicU64,
    /// Payments of unknown outcome.
    pub ambiguous_payments: AtomicU64,
    /// Delivery transactions of unknown outcome; each delivers at most ten orders.
    pub ambiguous_deliveries: AtomicU64,
    /// Warehouse, district and number of each new order, where they are requested.
    pub orders: Option<Mutex<Vec<[i64; 3]>>>,
}

statements! {
    W_TAX = "select w_tax from warehouse where w_id = ?";
    D_NEXT = "select d_tax, d_next_o_id from district where d_w_id = ? and d_id = ? {lock}";
    D_BUMP = "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = ? and d_id = ?";
    C_RATES = "select c_discount, c_last, c_credit from customer where c_w_id = ? and c_d_id = ? and c_id = ?";
    O_INSERT = "insert into orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) values (?, ?, ?, ?, ?, null, ?, ?)";
    NO_INSERT = "insert into new_order (no_w_id, no_d_id, no_o_id) values (?, ?, ?)";
    I_PRICE = "select i_price, i_name, i_data from item where i_id = ?";
    S_UPDATE = "update stock set s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + ? where s_w_id = ? and s_i_id = ?";
    OL_INSERT = "insert into order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) values (?, ?, ?, ?, ?, ?, null, ?, ?, ?)";
    W_PAID = "update warehouse set w_ytd = w_ytd + ? where w_id = ?";
    W_ADDRESS = "select w_name, w_street_1, w_street_2, w_city, w_state, w_zip from warehouse where w_id = ?";
    D_PAID = "update district set d_ytd = d_ytd + ? where d_w_id = ? and d_id = ?";
    D_ADDRESS = "select d_name, d_street_1, d_street_2, d_city, d_state, d_zip from district where d_w_id = ? and d_id = ?";
    C_NAMED = "select c_id from customer where c_w_id = ? and c_d_id = ? and c_last = ? order by c_first";
    C_PAYER = "select c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance from customer where c_w_id = ? and c_d_id = ? and c_id = ? {lock}";
    C_PAID = "update customer set c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, c_payment_cnt = c_payment_cnt + 1 where c_w_id = ? and c_d_id = ? and c_id = ?";
    C_DATA = "select c_data from customer where c_w_id = ? and c_d_id = ? and c_id = ?";
    C_PAID_BAD = "update customer set c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, c_payment_cnt = c_payment_cnt + 1, c_data = ? where c_w_id = ? and c_d_id = ? and c_id = ?";
    H_INSERT = "insert into history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) values (?, ?, ?, ?, ?, ?, ?, ?)";
    C_STATUS = "select c_first, c_middle, c_last, c_balance from customer where c_w_id = ? and c_d_id = ? and c_id = ?";
    O_LAST = "select o_id, o_entry_d, o_carrier_id from orders where o_w_id = ? and o_d_id = ? and o_c_id = ? order by o_id desc limit 1";
    OL_OF_ORDER = "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from order_line where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?";
    NO_OLDEST = "select no_o_id from new_order where no_w_id = ? and no_d_id = ? order by no_o_id limit 1";
    NO_DELETE = "delete from new_order where no_w_id = ? and no_d_id = ? and no_o_id = ?";
    O_CUSTOMER = "select o_c_id from orders where o_w_id = ? and o_d_id = ? and o_id = ?";
    O_CARRIER = "update orders set o_carrier_id = ? where o_w_id = ? and o_d_id = ? and o_id = ?";
    OL_DELIVERED = "update order_line set ol_delivery_d = ? where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?";
    OL_SUM = "select sum(ol_amount) from order_line where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?";
    C_DELIVERED = "update customer set c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 where c_w_id = ? and c_d_id = ? and c_id = ?";
    D_LEVEL = "select d_next_o_id from district where d_w_id = ? and d_id = ?";
    S_LOW = "select count(distinct s_i_id) from order_line join stock on s_i_id = ol_i_id where ol_w_id = ? and ol_d_id = ? and ol_o_id >= ? and ol_o_id < ? and s_w_id = ? and s_quantity < ?";
}

/// Stock of an item with the text for this district; its statements follow the others, one a district.
fn stock_of(district: i64) -> String {
    format!("select s_quantity, s_data, s_dist_{district:02} from stock where s_w_id = ? and s_i_id = ? {{lock}}")
}

/// How a customer is chosen.
#[derive(Clone, Debug)]
enum Chosen {
    Id(i64),
    /// The middle one of those with this last name.
    Name(String),
}

/// A line of an order.
#[derive(Clone, Copy, Debug)]
struct Line {
    item: i64,
    supplier: i64,
    quantity: i64,
}

/// Inputs of a transaction.
#[derive(Clone, Debug)]
enum Input {
    NewOrder { d: i64, c: i64, lines: Vec<Line> },
    Payment { d: i64, of: (i64, i64), chosen: Chosen, amount: i64 },
    OrderStatus { d: i64, chosen: Chosen },
    Delivery { carrier: i64 },
    StockLevel { d: i64, threshold: i64 },
}

/// What all terminals of a run share.
#[derive(Clone)]
pub struct Rules {
    /// Warehouses of the database.
    pub warehouses: i64,
    /// Constants of the run.
    pub constants: Constants,
    /// Seed of the run.
    pub seed: u64,
    /// Keying and thinking, and a warehouse of its own for each terminal.
    pub paced: bool,
    /// How the database writes SQL.
    pub dialect: Dialect,
    /// What was acknowledged.
    pub acknowledged: Arc<Acknowledged>,
}

/// A terminal.
pub struct Terminal {
    rules: Rules,
    draw: Draw,
    deck: Vec<usize>,
    home: (i64, i64),
    w: i64,
    kind: usize,
    input: Input,
    rows: Rows,
    answers: Answers,
    written: Vec<Written>,
}

impl Terminal {
    /// Terminal `number`, counted from 0.
    #[must_use]
    pub fn new(rules: &Rules, number: usize) -> Terminal {
        let number_64 = number as u64;
        let of = |n: u64| i64::try_from(n).unwrap_or(0);
        let w = of(number_64 / 10) % rules.warehouses + 1;
        let home = (w, of(number_64) % DISTRICTS + 1);
        let draw = Draw::stream(rules.seed, 1 + number_64, rules.constants);
        let input = Input::Delivery { carrier: 1 };
        let (rules, rows, answers) = (rules.clone(), Rows::default(), Answers::default());
        Terminal { rules, draw, deck: Vec::new(), home, w, kind: 3, input, rows, answers, written: Vec::new() }
    }

    /// The next card of the deck: of each 100 in a row that start with a new deck, the mix is exact (rule 5.2.4.2).
    fn card(&mut self) -> usize {
        if self.deck.is_empty() {
            self.deck = (0..5).flat_map(|kind| vec![kind; MIX[kind]]).collect();
            self.draw.shuffle(&mut self.deck);
        }
        self.deck.pop().unwrap_or(0)
    }

    fn other_warehouse(&mut self) -> i64 {
        let other = self.draw.uniform(1, self.rules.warehouses - 1);
        if other >= self.w { other + 1 } else { other }
    }

    fn chosen(&mut self) -> Chosen {
        if self.draw.chance(60) { Chosen::Name(self.draw.last_name()) } else { Chosen::Id(self.draw.customer()) }
    }

    fn new_order_input(&mut self) -> Input {
        let d = self.draw.uniform(1, DISTRICTS);
        let c = self.draw.customer();
        let count = self.draw.uniform(5, 15);
        let fails = self.draw.chance(1);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| {
                let remote = self.rules.warehouses > 1 && self.draw.chance(1);
                let supplier = if remote { self.other_warehouse() } else { self.w };
                Line { item: self.draw.item(), supplier, quantity: self.draw.uniform(1, 10) }
            })
            .collect();
        lines.sort_by_key(|line| (line.supplier, line.item));
        if let Some(last) = lines.last_mut().filter(|_| fails) {
            last.item = ITEMS + 1;
        }
        Input::NewOrder { d, c, lines }
    }

    fn payment_input(&mut self) -> Input {
        let d = self.draw.uniform(1, DISTRICTS);
        let remote = self.rules.warehouses > 1 && self.draw.chance(15);
        let of = if remote { (self.other_warehouse(), self.draw.uniform(1, DISTRICTS)) } else { (self.w, d) };
        Input::Payment { d, of, chosen: self.chosen(), amount: self.draw.uniform(100, 500_000) }
    }

    fn new_order(&mut self, db: &mut dyn Connection) -> Result<Done, Failure> {
        let Input::NewOrder { d, c, lines } = &self.input else { return Err(wrong_input()) };
        let (w, d, c, answers) = (self.w, *d, *c, &mut self.answers);
        db.begin(Access::Write)?;
        let mut batch = answers.batch();
        let tax = add(&mut batch, Statement::W_TAX, &[w.into()]);
        let next = add(&mut batch, Statement::D_NEXT, &[w.into(), d.into()]);
        add(&mut batch, Statement::D_BUMP, &[w.into(), d.into()]);
        let rates = add(&mut batch, Statement::C_RATES, &[w.into(), d.into(), c.into()]);
        answers.execute(db, batch)?;
        answers.rows(tax).int(0, 0)?;
        answers.rows(rates).int(0, 0)?;
        let o = answers.rows(next).int(0, 1)?;
        let local = i64::from(lines.iter().all(|line| line.supplier == w));
        let count = lines.len() as u64;
        let order = [w, d, o, c, now_ms(), i64::try_from(count).unwrap_or(0), local].map(Param::Int);
        let mut batch = answers.batch();
        add(&mut batch, Statement::O_INSERT, &order);
        add(&mut batch, Statement::NO_INSERT, &[w.into(), d.into(), o.into()]);
        let first = batch.len();
        for line in lines {
            add(&mut batch, Statement::I_PRICE, &[line.item.into()]);
            batch.add(stock_statement(d), &[line.supplier.into(), line.item.into()]);
        }
        answers.execute(db, batch)?;
        let read = |number: usize| [first + 2 * number, first + 2 * number + 1].map(|at| answers.rows(at));
        // A missing item is the last, and rolls back what the others have changed.
        let there = (0..lines.len()).take_while(|number| !read(*number)[0].is_empty()).count();
        Written::read(&lines[..there], read, &mut self.written)?;
        let mut batch = answers.batch();
        for (number, (line, written)) in (1_i64..).zip(lines.iter().zip(&self.written)) {
            order_line(&mut batch, [w, d, o, number], *line, written);
        }
        answers.execute(db, batch)?;
        if there < lines.len() {
            db.rollback()?;
            return Ok(Done::RolledBack);
        }
        db.commit()?;
        self.rules.acknowledged.new_orders.fetch_add(1, Ordering::Relaxed);
        if let Some(orders) = &self.rules.acknowledged.orders {
            orders.lock().unwrap_or_else(PoisonError::into_inner).push([w, d, o]);
        }
        Ok(Done::Committed)
    }

    fn payment(&mut self, db: &mut dyn Connection) -> Result<Done, Failure> {
        let Input::Payment { d, of, chosen, amount } = &self.input else { return Err(wrong_input()) };
        let (w, d, (cw, cd), amount) = (self.w, *d, *of, *amount);
        let (rows, answers) = (&mut self.rows, &mut self.answers);
        db.begin(Access::Write)?;
        let mut batch = answers.batch();
        add(&mut batch, Statement::W_PAID, &[amount.into(), w.into()]);
        let warehouse = add(&mut batch, Statement::W_ADDRESS, &[w.into()]);
        add(&mut batch, Statement::D_PAID, &[amount.into(), w.into(), d.into()]);
        let district = add(&mut batch, Statement::D_ADDRESS, &[w.into(), d.into()]);
        let named = named(&mut batch, cw, cd, chosen);
        answers.execute(db, batch)?;
        let data = format!("{}    {}", answers.rows(warehouse).text(0, 0), answers.rows(district).text(0, 0));
        let c = choose(chosen, answers.rows(named))?;
        let customer = [cw, cd, c].map(Param::Int);
        run(db, Statement::C_PAYER, &customer, rows)?;
        let mut text = String::new();
        if rows.text(0, 10) == "BC" {
            run(db, Statement::C_DATA, &customer, rows)?;
            text = format!("{c} {cd} {cw} {d} {w} {amount} {}", rows.text(0, 0));
            text.truncate(DATA);
        }
        let mut batch = answers.batch();
        if text.is_empty() {
            add(&mut batch, Statement::C_PAID, &[amount, amount, cw, cd, c].map(Param::Int));
        } else {
            let params = [amount.into(), amount.into(), text.as_str().into(), cw.into(), cd.into(), c.into()];
            add(&mut batch, Statement::C_PAID_BAD, &params);
        }
        let history: [Param<'_>; 8] =
            [c.into(), cd.into(), cw.into(), d.into(), w.into(), now_ms().into(), amount.into(), data.as_str().into()];
        add(&mut batch, Statement::H_INSERT, &history);
        answers.execute(db, batch)?;
        db.commit()?;
        self.rules.acknowledged.payments.fetch_add(1, Ordering::Relaxed);
        Ok(Done::Committed)
    }

    fn order_status(&mut self, db: &mut dyn Connection) -> Result<Done, Failure> {
        let Input::OrderStatus { d, chosen } = &self.input else { return Err(wrong_input()) };
        let (w, d, rows, answers) = (self.w, *d, &mut self.rows, &mut self.answers);
        db.begin(Access::Read)?;
        let mut batch = answers.batch();
        let named = named(&mut batch, w, d, chosen);
        answers.execute(db, batch)?;
        let c = choose(chosen, answers.rows(named))?;
        let mut batch = answers.batch();
        let status = add(&mut batch, Statement::C_STATUS, &[w, d, c].map(Param::Int));
        let last = add(&mut batch, Statement::O_LAST, &[w, d, c].map(Param::Int));
        answers.execute(db, batch)?;
        answers.rows(status).int(0, 3)?;
        let o = answers.rows(last).int(0, 0)?;
        run(db, Statement::OL_OF_ORDER, &[w, d, o].map(Param::Int), rows)?;
        db.commit()?;
        Ok(Done::Committed)
    }

    fn delivery(&mut self, db: &mut dyn Connection) -> Result<Done, Failure> {
        let Input::Delivery { carrier } = &self.input else { return Err(wrong_input()) };
        let (w, carrier, rows, answers, now) = (self.w, *carrier, &mut self.rows, &mut self.answers, now_ms());
        let mut delivered = 0;
        db.begin(Access::Write)?;
        for d in 1..=DISTRICTS {
            run(db, Statement::NO_OLDEST, &[w, d].map(Param::Int), rows)?;
            if rows.is_empty() {
                continue;
            }
            let o = rows.int(0, 0)?;
            let order = [w, d, o].map(Param::Int);
            let mut batch = answers.batch();
            let deleted = add(&mut batch, Statement::NO_DELETE, &order);
            let customer = add(&mut batch, Statement::O_CUSTOMER, &order);
            add(&mut batch, Statement::O_CARRIER, &[carrier, w, d, o].map(Param::Int));
            add(&mut batch, Statement::OL_DELIVERED, &[now, w, d, o].map(Param::Int));
            let sum = add(&mut batch, Statement::OL_SUM, &order);
            answers.execute(db, batch)?;
            if answers.count(deleted) == 0 {
                return Err(Failure::new(Class::Serialization, "the oldest new order was delivered by another"));
            }
            let c = answers.rows(customer).int(0, 0)?;
            let amount = answers.rows(sum).int(0, 0)?;
            run(db, Statement::C_DELIVERED, &[amount, w, d, c].map(Param::Int), rows)?;
            delivered += 1;
        }
        db.commit()?;
        self.rules.acknowledged.delivered.fetch_add(delivered, Ordering::Relaxed);
        Ok(Done::Committed)
    }

    fn stock_level(&mut self, db: &mut dyn Connection) -> Result<Done, Failure> {
        let Input::StockLevel { d, threshold } = &self.input else { return Err(wrong_input()) };
        let (w, rows) = (self.w, &mut self.rows);
        db.begin(Access::Read)?;
        run(db, Statement::D_LEVEL, &[w, *d].map(Param::Int), rows)?;
        let next = rows.int(0, 0)?;
        run(db, Statement::S_LOW, &[w, *d, next - 20, next, w, *threshold].map(Param::Int), rows)?;
        rows.int(0, 0)?;
        db.commit()?;
        Ok(Done::Committed)
    }
}

fn wrong_input() -> Failure {
    Failure::other("the inputs are of another transaction")
}

/// Adds a statement to a batch and returns its number there.
fn add<'p>(batch: &mut Batch<'p>, statement: Statement, params: &[Param<'p>]) -> usize {
    batch.add(statement as usize, params)
}

/// Adds the search of a customer by name and returns its number in the batch; one who is chosen by number is not searched.
fn named<'p>(batch: &mut Batch<'p>, w: i64, d: i64, chosen: &'p Chosen) -> usize {
    match chosen {
        Chosen::Id(_) => batch.len(),
        Chosen::Name(name) => add(batch, Statement::C_NAMED, &[w.into(), d.into(), name.as_str().into()]),
    }
}

/// The customer's number: the middle one of those with the name, by first name (rule 2.5.2.2).
fn choose(chosen: &Chosen, found: &Rows) -> Result<i64, Failure> {
    match chosen {
        Chosen::Id(c) => Ok(*c),
        Chosen::Name(_) => found.int(found.len().div_ceil(2).saturating_sub(1), 0),
    }
}

/// The number of the statement that reads an item's stock with the text for this district.
fn stock_statement(d: i64) -> usize {
    STATEMENTS.len() + usize::try_from(d - 1).unwrap_or(0)
}

/// What a line of an order writes that depends on what was read.
struct Written {
    amount: i64,
    /// The quantity that is left in stock.
    left: i64,
    info: String,
}

impl Written {
    /// Of lines in the order of their stock rows, into `all`; `read` has the price and the stock of each.
    fn read<'r>(lines: &[Line], read: impl Fn(usize) -> [&'r Rows; 2], all: &mut Vec<Written>) -> Result<(), Failure> {
        all.clear();
        for (number, line) in lines.iter().enumerate() {
            let [price, stock] = read(number);
            let before = number.checked_sub(1).map(|before| &lines[before]);
            // A second line of the same stock was read before the first was written.
            let same = before.is_some_and(|before| (before.supplier, before.item) == (line.supplier, line.item));
            let there = match all.last().filter(|_| same) {
                Some(written) => written.left,
                None => stock.int(0, 0)?,
            };
            let rest = there - line.quantity;
            let left = if rest >= 10 { rest } else { rest + 91 };
            let Some(Cell::Text(info)) = stock.cell(0, 2) else {
                return Err(Failure::other("stock: the text of its district is missing"));
            };
            all.push(Written { amount: price.int(0, 0)? * line.quantity, left, info: info.clone() });
        }
        Ok(())
    }
}

/// Adds what takes the stock of a line and writes the line; `at` is its key, the fourth its number.
fn order_line<'p>(batch: &mut Batch<'p>, at: [i64; 4], line: Line, written: &'p Written) {
    let [w, d, o, number] = at;
    let Written { amount, left, info } = written;
    let remote = i64::from(line.supplier != w);
    add(batch, Statement::S_UPDATE, &[*left, line.quantity, remote, line.supplier, line.item].map(Param::Int));
    let numbers = [w, d, o, number, line.item, line.supplier, line.quantity, *amount].map(Param::Int);
    let [w, d, o, number, item, supplier, quantity, amount] = numbers;
    let params = [w, d, o, number, item, supplier, quantity, amount, info.as_str().into()];
    add(batch, Statement::OL_INSERT, &params);
}

impl Client for Terminal {
    fn statements(&self) -> Vec<String> {
        let all = STATEMENTS.iter().map(|sql| (*sql).to_owned()).chain((1..=DISTRICTS).map(stock_of));
        all.map(|sql| self.rules.dialect.sql(&sql)).collect()
    }

    fn draw(&mut self) -> usize {
        self.kind = self.card();
        self.w = if self.rules.paced { self.home.0 } else { self.draw.uniform(1, self.rules.warehouses) };
        let d = self.draw.uniform(1, DISTRICTS);
        self.input = match self.kind {
            0 => self.new_order_input(),
            1 => self.payment_input(),
            2 => Input::OrderStatus { d, chosen: self.chosen() },
            3 => Input::Delivery { carrier: self.draw.uniform(1, 10) },
            _ => {
                let d = if self.rules.paced { self.home.1 } else { d };
                Input::StockLevel { d, threshold: self.draw.uniform(10, 20) }
            }
        };
        self.kind
    }

    fn before(&self) -> Duration {
        if self.rules.paced { Duration::from_secs(KEYING_S[self.kind]) } else { Duration::ZERO }
    }

    fn after(&mut self) -> Duration {
        if !self.rules.paced {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(self.draw.exponential(THINKING_S[self.kind]))
    }

    fn run(&mut self, connection: &mut dyn Connection) -> Result<Done, Failure> {
        match self.kind {
            0 => self.new_order(connection),
            1 => self.payment(connection),
            2 => self.order_status(connection),
            3 => self.delivery(connection),
            _ => self.stock_level(connection),
        }
    }

    fn ambiguous(&mut self) {
        let log = &self.rules.acknowledged;
        let count = match self.kind {
            0 => &log.ambiguous_orders,
            1 => &log.ambiguous_payments,
            3 => &log.ambiguous_deliveries,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Compares what was acknowledged with what the database has beyond `warehouses` new warehouses; a mismatch in words.
///
/// # Errors
/// What the database says.
pub fn unaccounted(
    connection: &mut dyn Connection,
    acknowledged: &Acknowledged,
    warehouses: i64,
) -> Result<Option<String>, Failure> {
    let mut rows = Rows::default();
    let mut count = |sql: &str| -> Result<i64, Failure> {
        connection.query(sql, &mut rows)?;
        rows.int(0, 0)
    };
    let orders = count("select sum(d_next_o_id) from district")? - warehouses * DISTRICTS * 3001;
    let payments = count("select count(*) from history")? - warehouses * DISTRICTS * 3000;
    let delivered = count("select sum(c_delivery_cnt) from customer")?;
    let read = |counter: &AtomicU64| i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
    let account = |what, found, known, unknown| Account { what, found, known, unknown };
    let counters = acknowledged;
    Ok(mismatches(&[
        account("new orders", orders, read(&counters.new_orders), read(&counters.ambiguous_orders)),
        account("payments", payments, read(&counters.payments), read(&counters.ambiguous_payments)),
        account("deliveries", delivered, read(&counters.delivered), 10 * read(&counters.ambiguous_deliveries)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(warehouses: i64) -> Terminal {
        let constants = Constants::of_load(1);
        let acknowledged = Arc::default();
        Terminal::new(
            &Rules { warehouses, constants, seed: 7, paced: false, dialect: Dialect::Sqlite, acknowledged },
            0,
        )
    }

    #[test]
    fn the_mix_is_exact_in_each_hundred() {
        let mut terminal = terminal(1);
        for _ in 0..3 {
            let mut counts = [0; 5];
            (0..100).for_each(|_| counts[terminal.draw()] += 1);
            assert_eq!(counts, MIX);
        }
    }

    #[test]
    fn shares_of_remote_work_names_and_rollbacks_are_the_rules() {
        let mut terminal = terminal(10);
        let (mut lines, mut remote, mut orders, mut failing) = (0.0, 0.0, 0.0, 0.0);
        let (mut payments, mut elsewhere, mut named) = (0.0, 0.0, 0.0);
        for _ in 0..40_000 {
            terminal.draw();
            match &terminal.input {
                Input::NewOrder { lines: all, .. } => {
                    orders += 1.0;
                    lines += all.len() as f64;
                    remote += all.iter().filter(|line| line.supplier != terminal.w).count() as f64;
                    failing += f64::from(all.iter().any(|line| line.item > ITEMS));
                }
                Input::Payment { of, chosen, .. } => {
                    payments += 1.0;
                    elsewhere += f64::from(of.0 != terminal.w);
                    named += f64::from(matches!(chosen, Chosen::Name(_)));
                }
                _ => {}
            }
        }
        // Within five standard errors of the shares in the rules.
        let near = |found: f64, of: f64, share: f64| {
            let (mean, error) = (found / of, (share * (1.0 - share) / of).sqrt());
            assert!((mean - share).abs() < 5.0 * error, "{mean} for {share}");
        };
        near(remote, lines, 0.01);
        near(failing, orders, 0.01);
        near(elsewhere, payments, 0.15);
        near(named, payments, 0.60);
        assert!((lines / orders - 10.0).abs() < 0.15, "{}", lines / orders);
    }

    #[test]
    fn lines_of_the_same_stock_take_what_the_line_before_them_left() {
        let line = |item: i64, quantity: i64| Line { item, supplier: 1, quantity };
        let lines = [line(1, 5), line(2, 4), line(2, 4), line(2, 10)];
        let price = Rows { width: 1, cells: vec![Cell::Int(7)] };
        let stock = Rows { width: 3, cells: vec![Cell::Int(20), Cell::Null, Cell::Text("x".to_owned())] };
        let mut written = Vec::new();
        Written::read(&lines, |_| [&price, &stock], &mut written).expect("all is there");
        let numbers: Vec<[i64; 2]> = written.iter().map(|line| [line.amount, line.left]).collect();
        assert_eq!(numbers, [[35, 15], [28, 16], [28, 12], [70, 93]]);
        let none = Rows::default();
        assert!(Written::read(&lines, |_| [&price, &none], &mut written).is_err());
    }

    #[test]
    fn one_warehouse_has_nothing_remote() {
        let mut terminal = terminal(1);
        for _ in 0..2000 {
            terminal.draw();
            match &terminal.input {
                Input::NewOrder { lines, .. } => assert!(lines.iter().all(|line| line.supplier == 1)),
                Input::Payment { of, .. } => assert_eq!(of.0, 1),
                _ => {}
            }
        }
    }
}
