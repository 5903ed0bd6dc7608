//! From one log ratio a block to an interval and a verdict: is B slower than A by more than 1 %?
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_stats::multiplicity::{Claim, judge_study};
use baremark_stats::outcome::Better;

fn main() {
    // Run time of B over that of A in eight blocks, in the order measured.
    let ratios: [f64; 8] = [1.021, 1.034, 1.026, 1.019, 1.041, 1.028, 1.023, 1.030];
    let logs = ratios.map(f64::ln);
    let claim = Claim::of(&logs, 4, 0.01, Better::Lower);
    for judged in judge_study(&[claim], 0.05) {
        if let Some(interval) = judged.interval {
            let ratio = interval.exp();
            println!(
                "B / A = {:.4}, {:.4} to {:.4} at {} confidence",
                ratio.centre, ratio.lo, ratio.hi, ratio.confidence
            );
        }
        println!("{:?}", judged.outcome);
    }
}
