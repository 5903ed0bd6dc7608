//! Keeps the leases: renews this server's, takes over what is free up to its fair share, gives back what is beyond it, and knows
//! which server owns what.

use super::App;
use super::auctioneer::{Auctioneer, BidCommand};
use crate::database::Fault;
use crate::duration::millis;
use crate::nouns::Id;
use crate::store::leases::{self, Live, Server};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// What this server owns and where the rest is.
#[derive(Default)]
pub(crate) struct Keeper {
    owned: RwLock<HashMap<Id, Auctioneer>>,
    /// The addresses of other servers' auctions.
    elsewhere: RwLock<HashMap<Id, String>>,
    /// Look now instead of at the next beat.
    pub look: Notify,
}

/// Where bids on an auction go.
pub(crate) enum Owner {
    Here(mpsc::Sender<BidCommand>),
    There(String),
    Nobody,
}

impl Keeper {
    pub(crate) fn owner(&self, auction: Id) -> Owner {
        if let Some(own) = self.owned.read().unwrap_or_else(PoisonError::into_inner).get(&auction) {
            return Owner::Here(own.bids.clone());
        }
        let elsewhere = self.elsewhere.read().unwrap_or_else(PoisonError::into_inner);
        elsewhere.get(&auction).map_or(Owner::Nobody, |address| Owner::There(address.clone()))
    }

    pub(crate) fn count(&self) -> usize {
        self.owned.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The auctioneer found that it does not own its auction any more.
    pub(crate) fn lost(&self, auction: Id, fence: i64) {
        let mut owned = self.owned.write().unwrap_or_else(PoisonError::into_inner);
        if owned.get(&auction).is_some_and(|own| own.fence == fence) {
            owned.remove(&auction);
        }
        self.look.notify_one();
    }

    fn fences(&self) -> HashMap<Id, i64> {
        self.owned.read().unwrap_or_else(PoisonError::into_inner).iter().map(|(&id, own)| (id, own.fence)).collect()
    }

    fn take_out(&self, auction: Id) -> Option<Auctioneer> {
        self.owned.write().unwrap_or_else(PoisonError::into_inner).remove(&auction)
    }
}

/// Beats until the server has ended; then forgets it.
pub(crate) async fn keep(app: Arc<App>) {
    let mut before = HashMap::new();
    loop {
        match beat(&app, &before).await {
            Ok(orders) => before = orders,
            Err(why) => super::log::line(&format!("leases: {why}")),
        }
        let pause = if app.is_draining() { Duration::from_millis(100) } else { app.pace.lease / 4 };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = app.keeper.look.notified() => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// One beat; returns how far each live auction is in the database.
pub(crate) async fn beat(app: &Arc<App>, before: &HashMap<Id, i64>) -> Result<HashMap<Id, i64>, Fault> {
    let database = &*app.database;
    let me = Server { id: app.id.clone(), address: app.address.clone(), draining: app.is_draining() };
    leases::beat(database, &me, millis(app.pace.lease)).await?;
    let servers = leases::servers(database).await?;
    let mut live = leases::live(database).await?;
    drop_lost(app, &live);
    free_orphans(app, &mut live).await?;
    let willing = servers.values().filter(|server| !server.draining).count().max(1);
    let share = if me.draining { 0 } else { live.len().div_ceil(willing) };
    let others = servers.values().any(|server| server.id != me.id && !server.draining);
    let beyond = if me.draining || others { app.keeper.count().saturating_sub(share) } else { 0 };
    give_back(app, beyond).await?;
    take_over(app, &live, share).await?;
    let mut elsewhere = HashMap::new();
    for it in live.iter().filter(|it| !it.free) {
        if let Some(server) = it.owner.as_ref().and_then(|owner| servers.get(owner))
            && server.id != me.id
        {
            elsewhere.insert(it.auction_id, server.address.clone());
        }
    }
    *app.keeper.elsewhere.write().unwrap_or_else(PoisonError::into_inner) = elsewhere;
    // What was in the database a beat ago had the time of a beat to come over the bus.
    app.hub.compare(&app.database, before);
    Ok(live.iter().map(|it| (it.auction_id, it.last_order)).collect())
}

fn drop_lost(app: &App, live: &[Live]) {
    let fences: HashMap<Id, (Option<&str>, i64)> =
        live.iter().map(|it| (it.auction_id, (it.owner.as_deref(), it.fence))).collect();
    for (auction, fence) in app.keeper.fences() {
        if fences.get(&auction) != Some(&(Some(app.id.as_str()), fence)) {
            app.keeper.take_out(auction);
        }
    }
}

/// Auctions that the database says are this server's, and that nobody conducts here: one whose claim or release was not confirmed, or whose auctioneer met
/// a change of its own that was stored after it had been given up. Each beat renews their leases, so that no server could ever take them over.
async fn free_orphans(app: &App, live: &mut [Live]) -> Result<(), Fault> {
    let conducted = app.keeper.fences();
    let is_orphan = |it: &&mut Live| it.owner.as_ref() == Some(&app.id) && !conducted.contains_key(&it.auction_id);
    for it in live.iter_mut().filter(is_orphan) {
        leases::release(&*app.database, &app.id, it.auction_id, it.fence).await?;
        (it.owner, it.free) = (None, true);
    }
    Ok(())
}

async fn give_back(app: &Arc<App>, count: usize) -> Result<(), Fault> {
    let mut auctions: Vec<Id> = app.keeper.fences().into_keys().collect();
    auctions.sort_unstable();
    for auction in auctions.into_iter().rev().take(count) {
        let Some(Auctioneer { fence, bids, ended }) = app.keeper.take_out(auction) else { continue };
        // The auctioneer ends what it has begun; only then may another begin.
        drop(bids);
        let _ = tokio::time::timeout(Duration::from_secs(5), ended).await;
        leases::release(&*app.database, &app.id, auction, fence).await?;
    }
    if count > 0 {
        app.bus.leases_changed();
    }
    Ok(())
}

async fn take_over(app: &Arc<App>, live: &[Live], share: usize) -> Result<(), Fault> {
    let room = share.saturating_sub(app.keeper.count());
    let free: Vec<Live> = live.iter().filter(|it| it.free).take(room).cloned().collect();
    if free.is_empty() {
        return Ok(());
    }
    let taken = leases::claim(&*app.database, &app.id, millis(app.pace.lease), &free).await?;
    let mut owned = app.keeper.owned.write().unwrap_or_else(PoisonError::into_inner);
    for (auction, fence) in taken {
        owned.insert(auction, Auctioneer::start(app, auction, fence));
    }
    drop(owned);
    app.bus.leases_changed();
    Ok(())
}
