//! The member `train`: epochs of the network over digits of its own, and how many of others it then recognises.

use crate::digits::{Digits, drawn};
use crate::member::{self, On, Report};
use crate::net::{self, BATCH, LAYERS};
use crate::net_vulkan::OnDevice;
use crate::vulkan::{Choice, Device};

/// Digits that it is tested with, and no seed of which it is trained with.
const TESTED: usize = 8 * BATCH;
const SEED: u64 = 1;
/// A network that recognises fewer digits has not learnt.
pub const LEAST_RECOGNISED: f64 = 0.6;

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// On what.
    pub on: On,
    /// Epochs.
    pub epochs: u32,
    /// Digits of an epoch; a multiple of the batch.
    pub digits: usize,
    /// Threads, where it is trained in plain Rust.
    pub threads: usize,
    /// Bytes of the device's memory that may be used.
    pub device_bytes: u64,
}

/// Trains and tests.
///
/// # Errors
/// Where there is no device, memory exceeds its limit, or the network has not learnt.
pub fn run(settings: Settings) -> Result<Report, String> {
    let digits = drawn(settings.digits, SEED);
    let weights = net::weights(SEED);
    let (moments, used, weights) = match settings.on {
        On::None => in_rust(settings, &digits, weights)?,
        on => on_device(settings, on, &digits, &weights)?,
    };
    let right = recognised(&weights, &drawn(TESTED, SEED + 1));
    if right < LEAST_RECOGNISED {
        return Err(format!(
            "the network recognises {:.0} % of other digits, which is less than {:.0} %; train it longer",
            100.0 * right,
            100.0 * LEAST_RECOGNISED
        ));
    }
    Ok(member::report(moments, u64::from(settings.epochs) * settings.digits as u64, used, right))
}

/// When the work began and was done, the device, and the weights.
type Trained = ((u64, u64), (String, bool, u64), Vec<Vec<f32>>);

fn in_rust(settings: Settings, digits: &Digits, mut weights: Vec<Vec<f32>>) -> Result<Trained, String> {
    let image = LAYERS[0].inputs();
    let (begun, done, ()) = member::timed(|| {
        for _ in 0..settings.epochs {
            for (pixels, labels) in digits.pixels.chunks(BATCH * image).zip(digits.labels.chunks(BATCH)) {
                net::step(&mut weights, pixels, labels, settings.threads);
            }
        }
        Ok(())
    })?;
    Ok(((begun, done), ("the processor, in plain Rust".to_owned(), false, 0), weights))
}

fn on_device(settings: Settings, on: On, digits: &Digits, weights: &[Vec<f32>]) -> Result<Trained, String> {
    let choice = if on == On::Vulkan { Choice::Any } else { Choice::Software };
    let device = Device::open(choice, settings.device_bytes).map_err(|why| why.to_string())?;
    let of_device = |why: crate::vulkan::Error| why.to_string();
    let net = OnDevice::new(&device, weights, digits).map_err(of_device)?;
    net.warm_up().map_err(of_device)?;
    let epoch = net.epoch().map_err(of_device)?;
    let (begun, done, ()) =
        member::timed(|| (0..settings.epochs).try_for_each(|_| device.run(epoch)).map_err(of_device))?;
    let used = (device.name().to_owned(), device.is_hardware(), device.used());
    Ok(((begun, done), used, net.weights().map_err(of_device)?))
}

/// The share of digits that a network recognises.
fn recognised(weights: &[Vec<f32>], digits: &Digits) -> f64 {
    let right = |(image, label): (&[f32], &u32)| {
        net::outputs(weights, image).last().is_some_and(|scores| net::recognised(scores) == *label)
    };
    let count = digits.pixels.chunks(LAYERS[0].inputs()).zip(&digits.labels).filter(|pair| right(*pair)).count();
    count as f64 / digits.labels.len() as f64
}
