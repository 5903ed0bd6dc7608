//! Tables. Numbers of entities are those of [`super::inventory`]; moments are ms of 1970.

use crate::loading::{Schema, Table};

const SAMPLE: [&str; 4] = [
    "create table samples_5min (at bigint not null, entity integer not null, counter integer not null, samples integer not null, \
     total bigint not null, low integer not null, high integer not null, made integer not null, \
     primary key (at, entity, counter)) {rows}",
    "create table samples_30min (at bigint not null, entity integer not null, counter integer not null, samples integer not null, \
     total bigint not null, low integer not null, high integer not null, made integer not null, \
     primary key (at, entity, counter)) {rows}",
    "create table samples_2h (at bigint not null, entity integer not null, counter integer not null, samples integer not null, \
     total bigint not null, low integer not null, high integer not null, made integer not null, \
     primary key (at, entity, counter)) {rows}",
    "create table samples_1d (at bigint not null, entity integer not null, counter integer not null, samples integer not null, \
     total bigint not null, low integer not null, high integer not null, made integer not null, \
     primary key (at, entity, counter)) {rows}",
];

/// All tables.
pub const TABLES: [Table; 14] = [
    Table {
        name: "entities",
        columns: 4,
        create: "create table entities (entity integer not null, parent integer not null, kind integer not null, \
                 name varchar(40) not null, primary key (entity)) {rows}",
    },
    Table {
        name: "permissions",
        columns: 4,
        create: "create table permissions (permission integer not null, entity integer not null, principal integer not null, \
                 role integer not null, primary key (permission)) {rows}",
    },
    Table {
        name: "hosts",
        columns: 4,
        create: "create table hosts (entity integer not null, cpus integer not null, memory_mb bigint not null, \
                 state integer not null, primary key (entity)) {rows}",
    },
    Table {
        name: "machines",
        columns: 6,
        create: "create table machines (entity integer not null, host integer not null, datastore integer not null, \
                 network integer not null, cpus integer not null, memory_mb bigint not null, primary key (entity)) {rows}",
    },
    Table {
        name: "datastores",
        columns: 3,
        create: "create table datastores (entity integer not null, capacity_mb bigint not null, free_mb bigint not null, \
                 primary key (entity)) {rows}",
    },
    Table {
        name: "networks",
        columns: 2,
        create: "create table networks (entity integer not null, vlan integer not null, primary key (entity)) {rows}",
    },
    Table {
        name: "alarms",
        columns: 4,
        create: "create table alarms (entity integer not null, counter integer not null, threshold integer not null, \
                 state integer not null, primary key (entity, counter)) {rows}",
    },
    Table {
        name: "events",
        columns: 5,
        create: "create table events (batch integer not null, number integer not null, entity integer not null, \
                 kind integer not null, message varchar(200) not null, primary key (batch, number)) {rows}",
    },
    Table {
        name: "tasks",
        columns: 4,
        create: "create table tasks (batch integer not null, number integer not null, entity integer not null, \
                 state integer not null, primary key (batch, number)) {rows}",
    },
    Table {
        name: "samples_20s",
        columns: 5,
        create: "create table samples_20s (source integer not null, turn integer not null, entity integer not null, \
                 counter integer not null, value integer not null, primary key (source, turn, entity, counter)) {rows}",
    },
    Table { name: "samples_5min", columns: 8, create: SAMPLE[0] },
    Table { name: "samples_30min", columns: 8, create: SAMPLE[1] },
    Table { name: "samples_2h", columns: 8, create: SAMPLE[2] },
    Table { name: "samples_1d", columns: 8, create: SAMPLE[3] },
];

/// Indexes in addition to the primary keys.
const INDEXES: [&str; 2] = [
    "create index entities_by_parent on entities (parent)",
    "create index permissions_by_entity on permissions (entity)",
];

/// Tables and indexes.
pub const SCHEMA: Schema = Schema { tables: &TABLES, indexes: &INDEXES };
