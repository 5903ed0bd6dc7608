//! The one table.

use crate::loading::Schema;

pub(super) const TABLE: &str = "hammer";
const CREATE: &str = "create table hammer (id integer not null primary key, k integer not null, c char(120) not null, \
                      pad char(60) not null)";
/// What makes it.
pub(crate) const SCHEMA: Schema = Schema { tables: &[CREATE], indexes: &[] };
