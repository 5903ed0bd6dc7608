//! Sales over PostgreSQL, and over MariaDB with Redis as the bus.

use crate::http::until;
use crate::market::{Crowd, all};
use crate::process::Site;
use crate::services;
use std::time::Instant;
use tempfile::TempDir;

#[test]
fn postgres_sells() {
    let Some(postgres) = services::postgres() else { return println!("skipped: no PostgreSQL (initdb and postgres)") };
    let folder = TempDir::new().unwrap();
    let mut site = Site::load_drawn(&postgres.url, folder.path(), 30, "database");
    all(&mut site);
    the_database_dies(&site.with(&["--patience", "2s"]), postgres);
}

#[test]
fn mariadb_sells_over_redis() {
    let Some(mariadb) = services::mariadb() else {
        return println!("skipped: no MariaDB (mariadbd and mariadb-install-db)");
    };
    let Some(redis) = services::redis() else { return println!("skipped: no Redis (redis-server)") };
    let folder = TempDir::new().unwrap();
    let files = format!("files:{}/images", folder.path().display());
    all(&mut Site::load_drawn(&mariadb.url, folder.path(), 30, &files).with(&["--bus", &redis.url]));
}

/// The database is killed and comes back while everybody bids.
fn the_database_dies(site: &Site, mut database: services::Service) {
    let (a, b) = (site.serve("700ms"), site.serve("700ms"));
    let crowd = Crowd::new(site, &[&a, &b], 6, 2);
    crowd.through(&[&a.address], |crowd| {
        crowd.more(30);
        database.kill();
        let user = &crowd.users[0];
        until("a clear refusal", || {
            let answer = user.get(&a.address, "/api/profile");
            (answer.status == 503 && answer.code() == "unavailable").then_some(())
        });
        assert_eq!(a.ready()["ready"], false);
        database.start();
        let begun = Instant::now();
        crowd.more(30);
        println!("bids again after {:?}", begun.elapsed());
    });
    site.holds(&[&a, &b]);
    assert_eq!((a.end(), b.end()), (0, 0));
}
