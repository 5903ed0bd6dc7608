//! What the application asks of its database, in its own words; all SQL is here, once for all dialects.

pub(crate) mod accounts;
pub(crate) mod browse;
pub(crate) mod leases;
pub(crate) mod pictures;
pub(crate) mod sales;
pub(crate) mod schema;
