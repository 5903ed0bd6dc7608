//! The other end of a job that talks to another site, as a study names it: `peer = "site:qemu"`.
//!
//! The lab starts an agent there, has it run [`SERVER`], and puts the address by which the job reaches it in the place of the
//! name before the job is told anything.

use crate::arm::ResolvedArm;
use crate::environments;
use crate::knob::InvalidValue;
use crate::problem::nearest;
use crate::value::Value;
use std::net::SocketAddr;

/// The parameter.
pub const KEY: &str = "peer";
/// How the name of a site begins.
const SITE: &str = "site:";
/// What this program is told at a site to be the other end; the address follows.
pub const SERVER: [&str; 2] = ["echo", "--listen"];
/// What it says when it listens, before its address.
pub const LISTENING: &str = "listening on ";

/// The environment that a value of the parameter names.
#[must_use]
pub fn environment(text: &str) -> Option<&str> {
    text.strip_prefix(SITE)
}

/// The environment in which the other end of an arm is to be.
#[must_use]
pub fn of_arm(arm: &ResolvedArm) -> Option<&str> {
    match arm.parameters.get(KEY) {
        Some(Value::Text(text)) => environment(text),
        _ => None,
    }
}

/// Puts an address in the place of the name.
pub fn settle(arm: &mut ResolvedArm, address: SocketAddr) {
    arm.parameters.insert(KEY.to_owned(), Value::Text(address.to_string()));
}

/// Refuses a name of no such environment.
///
/// # Errors
/// What would be right.
pub fn check(arm: &ResolvedArm) -> Result<(), InvalidValue> {
    let peers = environments::names(|can| can.network);
    match of_arm(arm).filter(|name| !peers.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let what = format!("peer = 'site:{name}' is not a site with a network");
            Err(InvalidValue::new(what, nearest(name, &peers)))
        }
    }
}
