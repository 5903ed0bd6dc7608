//! After a search: users are kept below what was found, until every limit of the user model is seen to be kept.
//!
//! At the maximum itself the limiting operation breaks its limit half of the time, by what a maximum is. What is reported as
//! carried is therefore the highest of a few levels below it at which a longer window kept everything: each operation's limit,
//! that on the propagation delay, failures, and the mix.

use crate::budget::Budget;
use crate::document::Attempt;
use crate::fixed_load;
use crate::phase_context::{Ground, Measured, RunError};
use crate::topology::Demand;
use crate::under_load::{Loaded, settling_s};
use baremark_model::maximum::{self, Ended};
use std::sync::atomic::Ordering;

/// Levels that are tried, as shares of the maximum.
const SHARES: [f64; 3] = [0.95, 0.85, 0.7];
/// A window shorter than this shows nothing.
const SHORTEST_S: f64 = 4.0;
/// After a window what began in it is waited for.
const BEYOND_S: f64 = 2.0;

/// How long users of a level are warmed, at most: most of them are there after a search.
fn warming_s(demand: &Demand) -> f64 {
    fixed_load::warming_s(&warmed(demand), settling_s(demand, 1.0)).1
}

/// The demand of a verification, as to its warm-up.
fn warmed(demand: &Demand) -> Demand {
    Demand { warm_s: 2.0 * demand.search.settle_s, ..demand.clone() }
}

/// What verifying takes before the end of a run: users settle and stay, twice, since the first try may break a limit.
pub(crate) fn takes_s(demand: &Demand) -> f64 {
    2.0 * (warming_s(demand) + demand.verify_s + BEYOND_S)
}

/// Keeps users of all applications together; `closing_s` is what comes after.
pub(crate) fn verify(
    all: &mut [Loaded<'_>],
    (budget, closing_s): (&Budget, f64),
    ground: &mut Ground<'_>,
    measured: &mut Measured,
) -> Result<(), RunError> {
    let Measured { rows, parts, remarks } = measured;
    let levels: Vec<f64> = rows.iter().map(|row| row.search.as_ref().map_or(0.0, level)).collect();
    for share in SHARES {
        let gone = all.iter_mut().any(|loaded| !loaded.cluster().fallen().is_empty());
        if gone || ground.interrupt.load(Ordering::Relaxed) || levels.iter().any(|level| *level * share < 1.0) {
            return Ok(());
        }
        let counts: Vec<u64> =
            all.iter().zip(&levels).map(|(one, level)| whole(level * share, one.highest())).collect();
        for (loaded, count) in all.iter_mut().zip(&counts).skip(1) {
            loaded.users(*count as f64).map_err(RunError::Load)?;
        }
        for (at, loaded) in all.iter_mut().enumerate() {
            let Some(demand) = fitting(loaded.demand(), budget, closing_s) else {
                remarks.push(format!("no time was left to verify {} users", counts[at]));
                return Ok(());
            };
            match fixed_load::window(loaded, &demand, counts[at], ground) {
                Ok((load, part)) => {
                    let broken = load.broken.clone();
                    let attempt = Attempt { users: load.users, elapsed_s: load.elapsed_s, kept: load.kept, broken };
                    rows[at].attempts.push(attempt);
                    parts[at] = Some(part).filter(|_| load.kept);
                    rows[at].load = Some(load);
                }
                Err(RunError::Load(why)) => {
                    remarks.push(format!("verification failed: {why}"));
                    return Ok(());
                }
                Err(why) => return Err(why),
            }
        }
        if rows.iter().all(|row| row.load.as_ref().is_some_and(|load| load.kept)) {
            return Ok(());
        }
    }
    Ok(())
}

/// The level to begin from: the maximum, or the highest that did not fail where there is none.
fn level(found: &maximum::Document) -> f64 {
    let passed = found.knee.iter().filter(|knee| knee.verdict != "fail").map(|knee| knee.level).fold(0.0, f64::max);
    match found.maximum {
        Some(maximum) => maximum.level,
        None if matches!(found.ended, Ended::FailsAll | Ended::Broken) => 0.0,
        None => passed,
    }
}

/// The demand of a verification, as far as the time goes.
fn fitting(demand: &Demand, budget: &Budget, closing_s: f64) -> Option<Demand> {
    let left = budget
        .before_end(closing_s + warming_s(demand) + BEYOND_S)
        .map_or(f64::INFINITY, |end| end.saturating_duration_since(std::time::Instant::now()).as_secs_f64());
    let duration_s = demand.verify_s.min(left);
    let enough = duration_s >= SHORTEST_S.min(demand.verify_s);
    let (users, profile) = (None, String::new());
    enough.then(|| Demand { users, profile, duration_s, ramp_down_s: 0.0, ..warmed(demand) })
}

fn whole(level: f64, highest: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    let users = level as u64;
    users.clamp(1, highest)
}
