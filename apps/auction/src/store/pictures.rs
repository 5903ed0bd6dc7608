//! Images: how many an item has, and the bytes where the database keeps them.

use crate::database::{Database, Fault, Outcome, any, one};
use crate::nouns::Id;

/// Images of one item, at most.
pub(crate) const MOST: i64 = 16;

/// Why no number was given.
#[derive(Debug)]
pub(crate) enum NoNumber {
    NotYours,
    Full,
    Fault(Fault),
}

/// The number of the next image of `item`, which `seller` must have offered.
pub(crate) async fn next(database: &dyn Database, item: Id, seller: Id) -> Result<i64, NoNumber> {
    const COUNT: &str = "SELECT seller_id, images FROM item WHERE id = ? AND state = 'offered'";
    let rows = database.query(COUNT, vec![item.into()]).await.map_err(NoNumber::Fault)?;
    let Some(mut row) = rows.into_iter().next() else { return Err(NoNumber::NotYours) };
    let (owner, number) = row.int().and_then(|owner| Ok((owner, row.int()?))).map_err(NoNumber::Fault)?;
    if owner != seller {
        return Err(NoNumber::NotYours);
    }
    if number < MOST { Ok(number) } else { Err(NoNumber::Full) }
}

/// Reserves that number.
pub(crate) async fn reserve(database: &dyn Database, item: Id, seller: Id) -> Result<i64, NoNumber> {
    const NEXT: &str = "UPDATE item SET images = ?, image_item = id WHERE id = ? AND images = ?";
    loop {
        let number = next(database, item, seller).await?;
        let take = one(NEXT, vec![(number + 1).into(), item.into(), number.into()]);
        match database.run(vec![take]).await.map_err(NoNumber::Fault)? {
            Outcome::Stored(_) => return Ok(number),
            // Another upload took this number.
            Outcome::Refused(_) => {}
        }
    }
}

/// Stores the sizes of one image.
pub(crate) async fn put(database: &dyn Database, item: Id, number: i64, sizes: &[(&str, &[u8])]) -> Result<(), Fault> {
    const SQL: &str = "INSERT INTO image (item_id, number, size, jpeg) VALUES (?, ?, ?, ?)";
    let step = |&(size, jpeg): &(&str, &[u8])| any(SQL, vec![item.into(), number.into(), size.into(), jpeg.into()]);
    database.run(sizes.iter().map(step).collect()).await.map(drop)
}

/// One size of one image.
pub(crate) async fn image(
    database: &dyn Database,
    item: Id,
    number: i64,
    size: &str,
) -> Result<Option<Vec<u8>>, Fault> {
    const SQL: &str = "SELECT jpeg FROM image WHERE item_id = ? AND number = ? AND size = ?";
    let rows = database.query(SQL, vec![item.into(), number.into(), size.into()]).await?;
    rows.into_iter().next().map(|mut row| row.bytes()).transpose()
}
