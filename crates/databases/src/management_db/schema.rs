//! Tables. Numbers of entities are those of [`super::inventory`]; moments are ms of 1970.

use crate::loading::Schema;

/// What makes all tables.
pub const TABLES: [&str; 14] = [
    "create table entities (entity integer not null, parent integer not null, kind integer not null, \
     name varchar(40) not null, primary key (entity)) {rows}",
    "create table permissions (permission integer not null, entity integer not null, principal integer not null, \
     role integer not null, primary key (permission)) {rows}",
    "create table hosts (entity integer not null, cpus integer not null, memory_mb bigint not null, \
     state integer not null, primary key (entity)) {rows}",
    "create table machines (entity integer not null, host integer not null, datastore integer not null, \
     network integer not null, cpus integer not null, memory_mb bigint not null, primary key (entity)) {rows}",
    "create table datastores (entity integer not null, capacity_mb bigint not null, free_mb bigint not null, \
     primary key (entity)) {rows}",
    "create table networks (entity integer not null, vlan integer not null, primary key (entity)) {rows}",
    "create table alarms (entity integer not null, counter integer not null, threshold integer not null, \
     state integer not null, primary key (entity, counter)) {rows}",
    "create table events (batch integer not null, number integer not null, entity integer not null, \
     kind integer not null, message varchar(200) not null, primary key (batch, number)) {rows}",
    "create table tasks (batch integer not null, number integer not null, entity integer not null, \
     state integer not null, primary key (batch, number)) {rows}",
    "create table samples_20s (source integer not null, turn integer not null, entity integer not null, \
     counter integer not null, value integer not null, primary key (source, turn, entity, counter)) {rows}",
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

/// Indexes in addition to the primary keys.
const INDEXES: [&str; 2] = [
    "create index entities_by_parent on entities (parent)",
    "create index permissions_by_entity on permissions (entity)",
];

/// Tables and indexes.
pub const SCHEMA: Schema = Schema { tables: &TABLES, indexes: &INDEXES };
