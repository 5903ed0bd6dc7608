//! Fills a database with a site made from a seed, with progress.

use crate::database::{self, Address, Database, Value};
use crate::generate::picture::{Pictures, Size};
use crate::generate::site::{self, Auctions, PastState, Plan};
use crate::images::{self, Place};
use crate::nouns::Id;
use crate::password::{self, Cost};
use crate::store::schema::{self, Meta};
use serde_json::json;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// What to load.
pub(crate) struct Order {
    pub database: Address,
    pub plan: Plan,
    pub password: String,
    pub cost: Cost,
    pub images: Place,
    pub threads: usize,
}

/// Accounts share this many hashes (one password, several salts): a hash for each would cost hours, and no one would be safer.
const HASHES: usize = 16;
/// Past auctions and accounts that go to the database at once.
const CHUNK: i64 = 100;
const ACCOUNT_CHUNK: i64 = 5000;
/// Images that wait to be stored in a database, at most.
const WAITING: usize = 16;

type Sizes = Vec<(Id, i64, &'static str, Vec<u8>)>;

/// The password in a file; where there is none, it is made with a random one that only its owner may read.
pub(crate) fn password(path: &Path) -> Result<String, String> {
    let named = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    match std::fs::read_to_string(path) {
        Ok(text) => match text.lines().next().map(str::trim) {
            Some(line) if !line.is_empty() && line.chars().count() <= 128 => Ok(line.to_owned()),
            _ => Err(named(&"its first line must be a password of 1 to 128 characters")),
        },
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let made = password::hex(&password::random::<12>()?);
            let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            file.and_then(|mut file| writeln!(file, "{made}")).map_err(|why| named(&why))?;
            Ok(made)
        }
        Err(why) => Err(named(&why)),
    }
}

/// Lines of progress, at most two a second.
struct Progress<'a> {
    err: &'a mut (dyn Write + Send),
    begun: Instant,
    told: Instant,
}

impl Progress<'_> {
    fn tell(&mut self, what: &str, done: i64, of: i64) {
        if done < of && self.told.elapsed() < Duration::from_millis(500) {
            return;
        }
        self.told = Instant::now();
        let seconds = self.begun.elapsed().as_secs();
        // Progress that nobody reads is not worth failing for.
        let _ = writeln!(self.err, "{what}: {done} of {of}, {seconds} s since the beginning");
    }
}

/// Loads; returns what was loaded and how long it took, as JSON.
pub(crate) async fn load(order: Order, err: &mut (dyn Write + Send)) -> Result<serde_json::Value, String> {
    let begun = Instant::now();
    let mut progress = Progress { err, begun, told: begun };
    let database = database::open(&order.database).await.map_err(|why| why.to_string())?;
    let database = &*database;
    schema::create(database).await.map_err(|why| why.to_string())?;
    let plan = order.plan;
    let mut pictures = Vec::new();
    let mut next_item = 1;
    let mut coming = Auctions::default();
    for id in 1..=plan.live() + plan.future() {
        plan.coming_auction(id, &mut next_item, &mut coming);
    }
    put(database, &mut coming, &mut pictures).await?;
    let mut state = PastState::new(&plan, next_item);
    let mut from = 0;
    while from < plan.past() {
        let until = (from + CHUNK).min(plan.past());
        let mut rows = Auctions::default();
        (from..until).for_each(|index| plan.past_auction(index, &mut state, &mut rows));
        put(database, &mut rows, &mut pictures).await?;
        progress.tell("past auctions", until, plan.past());
        from = until;
    }
    accounts(database, &order, &state, &mut progress).await?;
    schema::finish(database).await.map_err(|why| why.to_string())?;
    let rows_ms = begun.elapsed().as_millis();
    let images_begun = Instant::now();
    let images = store_images(database, &order, pictures, &mut progress).await?;
    let images_ms = images_begun.elapsed().as_millis();
    let secret = password::hex(&password::random::<24>()?);
    let meta = Meta { seed: plan.seed, max_users: plan.max_users.into(), cluster_secret: secret };
    schema::seal(database, &meta).await.map_err(|why| why.to_string())?;
    Ok(json!({
        "max_users": plan.max_users,
        "seed": plan.seed,
        "accounts": plan.accounts(),
        "live_auctions": plan.live(),
        "past_auctions": plan.past(),
        "items": state.next_item - 1,
        "bids": plan.past() * 200,
        "rows_ms": rows_ms,
        "images": images,
        "images_ms": images_ms,
    }))
}

/// Stores rows; what is to be drawn is kept for later.
async fn put(database: &dyn Database, rows: &mut Auctions, pictures: &mut Vec<(Id, i64, bool)>) -> Result<(), String> {
    pictures.append(&mut rows.pictures);
    let tables = [
        ("auction", site::AUCTION, std::mem::take(&mut rows.auctions)),
        ("item", site::ITEM, std::mem::take(&mut rows.items)),
        ("bid", site::BID, std::mem::take(&mut rows.bids)),
        ("attendance", site::ATTENDANCE, std::mem::take(&mut rows.attendances)),
        ("purchase", site::PURCHASE, std::mem::take(&mut rows.purchases)),
    ];
    for (table, columns, rows) in tables {
        if !rows.is_empty() {
            database.bulk(table, columns, rows).await.map_err(|why| format!("table {table}: {why}"))?;
        }
    }
    Ok(())
}

async fn accounts(
    database: &dyn Database,
    order: &Order,
    state: &PastState,
    progress: &mut Progress<'_>,
) -> Result<(), String> {
    let mut hashes = Vec::new();
    for _ in 0..HASHES {
        hashes.push(password::hash(&order.password, order.cost)?);
    }
    let all = order.plan.accounts();
    let mut from = 1;
    while from <= all {
        let until = (from + ACCOUNT_CHUNK).min(all + 1);
        let row = |id: i64| -> Vec<Value> {
            let at = usize::try_from(id).unwrap_or(0);
            order.plan.account(id, &hashes[at % HASHES], state.spent.get(at).copied().unwrap_or(0))
        };
        let rows = (from..until).map(row).collect();
        database.bulk("account", site::ACCOUNT, rows).await.map_err(|why| format!("table account: {why}"))?;
        progress.tell("accounts", until - 1, all);
        from = until;
    }
    Ok(())
}

/// Makes and stores all images; how many.
async fn store_images(
    database: &dyn Database,
    order: &Order,
    items: Vec<(Id, i64, bool)>,
    progress: &mut Progress<'_>,
) -> Result<i64, String> {
    if order.images == Place::Memory {
        return Ok(0);
    }
    let count = |(_, images, full): &(Id, i64, bool)| images * if *full { 3 } else { 2 };
    let all: i64 = items.iter().map(count).sum();
    let (ready, mut made) = mpsc::channel::<Result<(i64, Sizes), String>>(WAITING);
    let folder = match &order.images {
        Place::Files(folder) => Some(folder.clone()),
        _ => None,
    };
    let (seed, threads) = (order.plan.seed, order.threads);
    let making = tokio::task::spawn_blocking(move || make(&items, seed, threads, folder.as_ref(), &ready));
    let mut done = 0;
    let mut result = Ok(());
    while let Some(next) = made.recv().await {
        let stored = match next {
            Ok((count, sizes)) => {
                done += count;
                progress.tell("images", done, all);
                put_images(database, sizes).await
            }
            Err(why) => Err(why),
        };
        if stored.is_err() {
            result = stored;
            break;
        }
    }
    // The makers end when nobody takes what they make.
    drop(made);
    making.await.map_err(|why| why.to_string())?;
    result.map(|()| done)
}

async fn put_images(database: &dyn Database, sizes: Sizes) -> Result<(), String> {
    if sizes.is_empty() {
        return Ok(());
    }
    let row = |(item, number, size, jpeg): (Id, i64, &str, Vec<u8>)| {
        vec![item.into(), number.into(), size.into(), Value::Bytes(jpeg)]
    };
    let rows = sizes.into_iter().map(row).collect();
    database
        .bulk("image", &["item_id", "number", "size", "jpeg"], rows)
        .await
        .map_err(|why| format!("table image: {why}"))
}

/// Several threads, each taking the next item until there is none.
fn make(
    items: &[(Id, i64, bool)],
    seed: u64,
    threads: usize,
    folder: Option<&PathBuf>,
    ready: &mpsc::Sender<Result<(i64, Sizes), String>>,
) {
    let pictures = Pictures::new(seed);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&(item, images, full)) = items.get(next.fetch_add(1, Relaxed)) {
                    let drawn = draw(&pictures, (item, images, full), folder);
                    let stop = drawn.is_err();
                    if ready.blocking_send(drawn).is_err() || stop {
                        return;
                    }
                }
            });
        }
    });
}

/// The images of one item: into files, or handed on to be stored.
fn draw(
    pictures: &Pictures,
    (item, images, full): (Id, i64, bool),
    folder: Option<&PathBuf>,
) -> Result<(i64, Sizes), String> {
    let mut handed = Vec::new();
    let mut count = 0;
    for number in 0..images {
        for size in Size::ALL.into_iter().filter(|&size| full || size != Size::Full) {
            let jpeg = pictures.jpeg(item, number, size);
            count += 1;
            match folder {
                Some(folder) => images::write(folder, item, number, size, &jpeg)
                    .map_err(|why| format!("an image in {}: {why}", folder.display()))?,
                None => handed.push((item, number, size.name(), jpeg)),
            }
        }
    }
    Ok((count, handed))
}
