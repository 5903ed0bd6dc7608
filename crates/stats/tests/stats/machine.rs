//! A simulated machine: noise runs on in trial time, the design's randomisation lies on top.
//!
//! A block is one trial of four phases in the order ABBA or BAAB, drawn at random; a phase is a few repetitions. The
//! machine's noise belongs to the phase in which it happens, whichever arm runs then. What belongs to arm B alone (a
//! wandering effect, an allocation that lands badly) is a second process.

use baremark_stats::{Rng, block_log_ratio};

const REPETITIONS: usize = 3;
/// Standard deviation of a phase: two phases an arm make the log ratio of a block vary by as much.
pub const NOISE: f64 = 0.01;

/// Noise of the machine, by phase. All but `Drift` have standard deviation [`NOISE`].
#[derive(Clone, Copy)]
pub enum Machine {
    /// A fifth of [`NOISE`], so that the arm's own process dominates.
    Quiet,
    Normal,
    LogNormal,
    StudentT3,
    OneSided,
    /// Normal noise over a linear and a decaying trend inside each block.
    Drift,
    /// First-order autoregression from phase to phase, on through the blocks.
    Ar(f64),
    /// A random walk from phase to phase.
    Walk,
}

/// What only arm B suffers, by block.
#[derive(Clone, Copy)]
pub enum Arm {
    Constant,
    /// Exponential delays, mean and standard deviation [`NOISE`].
    OneSided,
    /// Log-normal delays of large skewness.
    LogNormal,
    /// Slower by five times [`NOISE`] with this chance.
    Modes(f64),
    /// First-order autoregression from block to block, standard deviation [`NOISE`].
    Ar(f64),
}

/// The machine in the course of a study.
pub struct Bench {
    rng: Rng,
    machine: Machine,
    arm: Arm,
    machine_state: f64,
    arm_state: f64,
}

impl Bench {
    pub fn new(machine: Machine, arm: Arm, seed: u64, study: u64) -> Self {
        let mut rng = Rng::stream(seed, study);
        let (machine_state, arm_state) = (rng.normal(), rng.normal());
        Self { rng, machine, arm, machine_state, arm_state }
    }

    /// Measures a block whose arm B is slower by the log ratio `effect`.
    pub fn block(&mut self, effect: f64) -> f64 {
        let slower = effect + self.arm_noise();
        let order = if self.rng.coin() { [0, 1, 1, 0] } else { [1, 0, 0, 1] };
        let trend = self.rng.normal();
        let mut times = [[0.0; 2 * REPETITIONS]; 2];
        let mut filled = [0; 2];
        for (place, arm) in order.into_iter().enumerate() {
            let phase = self.phase_noise(place as f64, trend) + slower * arm as f64;
            for _ in 0..REPETITIONS {
                times[arm][filled[arm]] = (phase + 0.1 * NOISE * self.rng.normal()).exp();
                filled[arm] += 1;
            }
        }
        block_log_ratio(&times[1], &times[0]).unwrap()
    }

    fn phase_noise(&mut self, place: f64, trend: f64) -> f64 {
        let z = self.rng.normal();
        match self.machine {
            Machine::Quiet => 0.2 * NOISE * z,
            Machine::Normal => NOISE * z,
            Machine::LogNormal => NOISE * (z.exp() - 0.5f64.exp()) / 2.161_197,
            Machine::StudentT3 => NOISE * student_t3(&mut self.rng, z) / 3f64.sqrt(),
            Machine::OneSided => NOISE * self.rng.exponential(),
            Machine::Drift => NOISE * (z + trend * place + 2.0 * (-place).exp()),
            Machine::Ar(phi) => {
                self.machine_state = autoregress(phi, self.machine_state, z);
                NOISE * self.machine_state
            }
            Machine::Walk => {
                self.machine_state += z;
                NOISE * self.machine_state
            }
        }
    }

    fn arm_noise(&mut self) -> f64 {
        match self.arm {
            Arm::Constant => 0.0,
            Arm::OneSided => NOISE * self.rng.exponential(),
            Arm::LogNormal => NOISE * self.rng.normal().exp(),
            Arm::Modes(chance) => 5.0 * NOISE * f64::from(u8::from(self.rng.uniform() < chance)),
            Arm::Ar(phi) => {
                let z = self.rng.normal();
                self.arm_state = autoregress(phi, self.arm_state, z);
                NOISE * self.arm_state
            }
        }
    }
}

/// A step of a stationary autoregression with standard deviation 1.
fn autoregress(phi: f64, state: f64, z: f64) -> f64 {
    phi * state + (1.0 - phi * phi).sqrt() * z
}

fn student_t3(rng: &mut Rng, z: f64) -> f64 {
    let chi_square: f64 = (0..3).map(|_| rng.normal().powi(2)).sum();
    z / (chi_square / 3.0).sqrt()
}
