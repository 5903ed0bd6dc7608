//! How many repetitions make a phase long enough.

use crate::ensemble::{Ensemble, joint_run};
use baremark_model::seam::{Body, Fault, TickRate};

/// The longest that pacing doubles before it gives up on a body that takes no time.
const MOST_REPS: u64 = 1 << 40;

/// Repetitions after which one run of an arm's `bodies` lasts at least `target_ns`. Running them is also the warm-in.
pub fn reps_for(ensemble: &mut Ensemble, bodies: &[&dyn Body], target_ns: u64, rate: TickRate) -> Result<u64, Fault> {
    #[expect(clippy::cast_precision_loss, reason = "a target of 104 days is still exact")]
    let target = target_ns as f64 / 1e9;
    let mut reps = 1_u64;
    loop {
        let seconds = rate.span(&joint_run(&ensemble.run_each(bodies, reps)?).times).unwrap_or(0.0);
        if seconds >= target || reps >= MOST_REPS || !ensemble.facts().runs_body {
            return Ok(reps);
        }
        // From a run that lasted a twentieth of the target its rate can be trusted; before that, double.
        reps = if seconds > target / 20.0 { scaled(reps, 1.05 * target / seconds) } else { reps * 2 };
    }
}

/// `reps` times `factor`, at least one more.
fn scaled(reps: u64, factor: f64) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small and positive"
    )]
    let more = (reps as f64 * factor).ceil() as u64;
    more.max(reps + 1)
}
