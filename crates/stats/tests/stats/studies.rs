//! Runs simulated studies through the real path: blocks, looks, stopping rule, judgement.

use baremark_stats::{
    Decision, Estimator, Independence, Judged, Look, PairedRatio, Reason, StopReason, StoppingRule, Verdict, estimate,
    judge,
};

use crate::machine::{Arm, Bench, Machine};

/// What a study of one ratio ended with.
pub struct Outcome {
    pub ratio: PairedRatio,
    pub judged: Judged,
    pub reason: StopReason,
}

/// A kind of study, to be repeated.
#[derive(Clone, Copy)]
pub struct Plan {
    pub machine: Machine,
    pub arm: Arm,
    pub rule: StoppingRule,
    pub delta: f64,
}

impl Plan {
    /// The same study with its rule replaced.
    pub fn with(self, rule: StoppingRule) -> Self {
        Self { rule, ..self }
    }

    /// One study; `effect` is the true log ratio before noise.
    pub fn run(&self, effect: f64, seed: u64, study: u64) -> Outcome {
        let mut bench = Bench::new(self.machine, self.arm, seed, study);
        let (mut blocks, mut looks) = (Vec::new(), Vec::new());
        let reason = loop {
            let until = match self.rule.next(&looks) {
                Decision::Continue { until } | Decision::Confirm { until } => until,
                Decision::Stop { reason } => break reason,
            };
            blocks.extend((blocks.len()..until as usize).map(|_| bench.block(effect)));
            looks.push(look(&blocks));
        };
        let ratio = PairedRatio::new(&blocks).unwrap();
        let judged = judge(&[(&ratio, self.delta)], 0.05).judged[0];
        Outcome { ratio, judged, reason }
    }

    /// Mean and median of the log ratio of a block, the true values of the two estimands, from `blocks` blocks.
    pub fn truth(&self, blocks: usize, seed: u64) -> (f64, f64) {
        let mut bench = Bench::new(self.machine, self.arm, seed, u64::MAX);
        let sample: Vec<f64> = (0..blocks).map(|_| bench.block(0.0)).collect();
        (estimate::mean(&sample).unwrap(), estimate::median(&sample).unwrap())
    }
}

fn look(blocks: &[f64]) -> Look {
    let ratio = PairedRatio::new(blocks).unwrap();
    Look {
        blocks: blocks.len() as u32,
        half_width: ratio.stopping_half_width(0.95).unwrap_or(f64::INFINITY),
        independent: ratio.independence() != Independence::Rejected,
    }
}

/// Shares over many studies.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    pub studies: f64,
    pub intervals: f64,
    /// Interval holds the true value of the estimator's own estimand.
    pub covered: f64,
    /// A "differs" although the estimand is 0 (the truth is moved there, which moves the interval with it).
    pub false_differs: f64,
    pub not_independent: f64,
    pub unproven: f64,
    pub decided: f64,
    pub medians: f64,
    pub median_covered: f64,
    pub median_coverage: f64,
    pub blocks: f64,
    pub precise: f64,
}

impl Tally {
    /// Runs `studies` studies of true ratio 1 in the sense of each estimator's own estimand.
    pub fn of(plan: &Plan, studies: u64, seed: u64, truth: (f64, f64)) -> Self {
        let mut tally = Self::default();
        for study in 0..studies {
            // the same noise twice: once to learn the estimator, once moved so that its estimand is 0
            let seen = plan.run(0.0, seed, study);
            let own = if seen.ratio.estimator() == Estimator::Mean { truth.0 } else { truth.1 };
            let moved = if own == 0.0 { seen } else { plan.run(-own, seed, study) };
            tally.add(&moved);
        }
        tally
    }

    fn add(&mut self, outcome: &Outcome) {
        let one = |yes: bool| f64::from(u8::from(yes));
        let verdict = outcome.judged.verdict;
        self.studies += 1.0;
        self.blocks += outcome.ratio.blocks() as f64;
        self.precise += one(outcome.reason == StopReason::Precision);
        self.false_differs += one(matches!(verdict, Verdict::DiffersByMore | Verdict::DiffersByLess));
        self.decided += one(!matches!(verdict, Verdict::Undecided { .. }));
        self.not_independent += one(matches!(verdict, Verdict::Undecided { reason: Reason::NotIndependent, .. }));
        self.unproven += one(matches!(verdict, Verdict::Undecided { reason: Reason::IndependenceUnproven, .. }));
        if let Some(interval) = outcome.judged.interval {
            let covered = one(interval.contains(0.0));
            let median = one(interval.estimator == Estimator::Median);
            self.intervals += 1.0;
            self.covered += covered;
            self.medians += median;
            self.median_covered += median * covered;
            self.median_coverage += median * interval.coverage;
        }
    }

    pub fn coverage(&self) -> f64 {
        self.covered / self.intervals
    }

    /// Fails unless false "differs" are at most 5 % up to simulation error (three standard errors).
    pub fn assert_few_false(&self, name: &str) {
        let limit = 0.05 + 3.0 * (0.05 * 0.95 / self.studies).sqrt();
        assert!(self.false_differs / self.studies <= limit, "{name}: false 'differs' {}", self.false_differs);
    }

    /// Fails unless the intervals of the median cover the 95 % asked for, up to simulation error. What they say is
    /// more, and true for a number of blocks fixed beforehand; a skewed study stops a little early when its tail was
    /// not seen.
    pub fn assert_medians_cover(&self, name: &str) {
        let covered = self.median_covered / self.medians;
        let error = 3.0 * (0.95 * 0.05 / self.medians).sqrt();
        assert!(self.medians > 0.4 * self.intervals, "{name}: skewness is seen");
        assert!(covered >= 0.95 - error, "{name}: median covered {covered}");
    }

    pub fn line(&self, name: &str) -> String {
        let percent = |count: f64| 100.0 * count / self.studies;
        format!(
            "{name:34} covered {:5.2}  false differs {:5.2}  decided {:5.1}  not independent {:5.1}  unproven {:5.1}  \
             blocks {:5.1}  precise {:5.1}  median {:5.1} (covered {:5.2}, says {:5.2})",
            100.0 * self.coverage(),
            percent(self.false_differs),
            percent(self.decided),
            percent(self.not_independent),
            percent(self.unproven),
            self.blocks / self.studies,
            percent(self.precise),
            100.0 * self.medians / self.intervals,
            100.0 * self.median_covered / self.medians,
            100.0 * self.median_coverage / self.medians,
        )
    }
}
