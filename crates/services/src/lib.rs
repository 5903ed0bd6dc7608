//! The programs that an application is made of: what they need, how they are configured, started, watched and ended.
//!
//! An adapter is a pure function from typed settings to a [`recipe::Recipe`]: files, commands, how to detect that it is
//! ready. [`service::Instance`] carries recipes out and leaves nothing behind, also after a kill; at a site of its own a process
//! of this program does, see [`remote_instance`]. What a service is for is its caller's business.

pub mod apache;
pub mod auction;
pub mod balance;
pub mod card;
pub mod error;
mod exchange;
mod folder;
pub mod haproxy;
pub mod mariadb;
pub mod nginx;
pub mod order;
pub mod place;
pub mod postgres;
pub mod recipe;
pub mod redis;
pub mod remote_instance;
pub mod remote_site;
pub mod service;
pub mod settings;
pub mod statistics;
pub mod users;

pub use folder::Folder;

/// Every service that serves a tier of applications.
#[must_use]
pub fn all() -> &'static [&'static dyn service::Service] {
    static ALL: [&dyn service::Service; 7] = [
        &haproxy::Haproxy,
        &nginx::Nginx,
        &apache::Apache,
        &auction::Auction,
        &postgres::Postgres,
        &mariadb::Mariadb,
        &redis::REDIS,
    ];
    &ALL
}

/// The service of that name.
#[must_use]
pub fn find(kind: &str) -> Option<&'static dyn service::Service> {
    all().iter().copied().find(|service| service.kind() == kind)
}
