//! The network of [`crate::net`] on a Vulkan device: the same layers, data and steps, by the kernels of `shaders/train.wgsl`.

use crate::digits::Digits;
use crate::net::{BATCH, LAYERS, Layer, RATE};
use crate::vulkan::{Bound, Buffer, Commands, Device, Error, Kernels, Purpose, Recorded};

const SPIRV: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/train.spv"));
const FORWARD: usize = 0;
const BACKWARD_INPUTS: usize = 1;
const BACKWARD_WEIGHTS: usize = 2;
const SOFTMAX_GRADIENT: usize = 3;
const DESCEND: usize = 4;

/// A network and its data on a device.
#[derive(Debug)]
pub struct OnDevice<'d> {
    device: &'d Device,
    kernels: Kernels,
    initial: Vec<Buffer>,
    weights: Vec<Buffer>,
    gradients: Vec<Buffer>,
    bound: Vec<Bound>,
    input: Buffer,
    labels: Buffer,
    scores: Buffer,
    all_pixels: Buffer,
    all_labels: Buffer,
    batches: usize,
}

impl<'d> OnDevice<'d> {
    /// Puts a network and its data on a device. Images beyond the last whole batch are left out.
    ///
    /// # Errors
    /// Where the device has not enough memory, or refuses a kernel.
    pub fn new(device: &'d Device, weights: &[Vec<f32>], digits: &Digits) -> Result<Self, Error> {
        let names = [c"forward", c"backward_inputs", c"backward_weights", c"softmax_gradient", c"descend"];
        let kernels = device.kernels(SPIRV, &names, 8)?;
        let of = |count: usize| device.buffer(4 * count, Purpose::Storage);
        let uploaded = || weights.iter().map(|of| device.uploaded(&bytes(of), Purpose::Storage));
        let initial: Vec<Buffer> = uploaded().collect::<Result<_, _>>()?;
        let weights: Vec<Buffer> = uploaded().collect::<Result<_, _>>()?;
        let gradients: Vec<Buffer> = LAYERS.iter().map(|layer| of(layer.weights())).collect::<Result<_, _>>()?;
        let (input, labels) = (of(BATCH * LAYERS[0].inputs())?, of(BATCH)?);
        let outputs: Vec<Buffer> = LAYERS.iter().map(|layer| of(BATCH * layer.outputs())).collect::<Result<_, _>>()?;
        let slopes: Vec<Buffer> = LAYERS.iter().map(|layer| of(BATCH * layer.outputs())).collect::<Result<_, _>>()?;
        let of_input = of(BATCH * LAYERS[0].inputs())?;
        let mut bound = Vec::new();
        for (index, layer) in LAYERS.iter().enumerate() {
            let shape = device.uploaded(&shape(layer), Purpose::Storage)?;
            let (from, back) = match index {
                0 => (&input, &of_input),
                _ => (&outputs[index - 1], &slopes[index - 1]),
            };
            let buffers =
                [&shape, from, &weights[index], &outputs[index], &slopes[index], back, &gradients[index], &labels];
            bound.push(device.bound(&kernels, &buffers)?);
        }
        let words: Vec<u8> = digits.labels.iter().flat_map(|label| label.to_le_bytes()).collect();
        let all_pixels = device.uploaded(&bytes(&digits.pixels), Purpose::Storage)?;
        let all_labels = device.uploaded(&words, Purpose::Storage)?;
        let scores = outputs.into_iter().next_back().expect("a last layer");
        let batches = digits.labels.len() / BATCH;
        Ok(OnDevice {
            device,
            kernels,
            initial,
            weights,
            gradients,
            bound,
            input,
            labels,
            scores,
            all_pixels,
            all_labels,
            batches,
        })
    }

    /// Makes a step and takes it back, so that a driver that compiles kernels when they are first used has done so.
    ///
    /// # Errors
    /// Where the device refuses it.
    pub fn warm_up(&self) -> Result<(), Error> {
        self.device.run(self.device.recorded(|commands| {
            self.step(commands, 0);
            for ((layer, from), to) in LAYERS.iter().zip(&self.initial).zip(&self.weights) {
                commands.copy(from, 0, to, 0, 4 * layer.weights());
            }
        })?)
    }

    /// One step for each batch, in order.
    ///
    /// # Errors
    /// Where the device refuses it.
    pub fn epoch(&self) -> Result<Recorded, Error> {
        self.device.recorded(|commands| (0..self.batches).for_each(|batch| self.step(commands, batch)))
    }

    fn step(&self, commands: &Commands<'_>, batch: usize) {
        self.load(commands, batch);
        self.forward(commands);
        commands.dispatch(&self.kernels, SOFTMAX_GRADIENT, self.bound[LAYERS.len() - 1], BATCH);
        for (layer, bound) in LAYERS.iter().zip(&self.bound).rev() {
            commands.dispatch(&self.kernels, BACKWARD_WEIGHTS, *bound, layer.weights());
            if layer.in_channels > 1 {
                commands.dispatch(&self.kernels, BACKWARD_INPUTS, *bound, BATCH * layer.inputs());
            }
        }
        for (layer, bound) in LAYERS.iter().zip(&self.bound) {
            commands.dispatch(&self.kernels, DESCEND, *bound, layer.weights());
        }
    }

    fn load(&self, commands: &Commands<'_>, batch: usize) {
        let image = 4 * BATCH * LAYERS[0].inputs();
        commands.copy(&self.all_pixels, batch * image, &self.input, 0, image);
        commands.copy(&self.all_labels, batch * 4 * BATCH, &self.labels, 0, 4 * BATCH);
    }

    fn forward(&self, commands: &Commands<'_>) {
        for (layer, bound) in LAYERS.iter().zip(&self.bound) {
            commands.dispatch(&self.kernels, FORWARD, *bound, BATCH * layer.outputs());
        }
    }

    /// The gradients of one batch by layer, at the weights as they were before its step, which is made.
    ///
    /// # Errors
    /// Where the device refuses it.
    pub fn gradient(&self, batch: usize) -> Result<Vec<Vec<f32>>, Error> {
        self.device.run(self.device.recorded(|commands| self.step(commands, batch))?)?;
        self.gradients.iter().map(|buffer| Ok(floats(&self.device.downloaded(buffer)?))).collect()
    }

    /// The weights of every layer.
    ///
    /// # Errors
    /// Where they cannot be copied.
    pub fn weights(&self) -> Result<Vec<Vec<f32>>, Error> {
        self.weights.iter().map(|buffer| Ok(floats(&self.device.downloaded(buffer)?))).collect()
    }

    /// The scores of the images of one batch.
    ///
    /// # Errors
    /// Where the device refuses it.
    pub fn scores(&self, batch: usize) -> Result<Vec<f32>, Error> {
        self.device.run(self.device.recorded(|commands| {
            self.load(commands, batch);
            self.forward(commands);
        })?)?;
        Ok(floats(&self.device.downloaded(&self.scores)?))
    }
}

/// A layer as the kernels read it.
fn shape(layer: &Layer) -> Vec<u8> {
    let numbers = [
        BATCH,
        layer.in_side,
        layer.in_channels,
        layer.out_side,
        layer.out_channels,
        layer.kernel,
        layer.stride,
        layer.pad,
        usize::from(layer.relu),
    ];
    numbers.iter().flat_map(|number| (*number as u32).to_le_bytes()).chain(RATE.to_le_bytes()).collect()
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}
