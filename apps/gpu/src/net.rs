//! A small convolutional network in plain Rust: two convolutions of 5 x 5 with a stride of 2, and a layer of ten outputs over all of the second.
//!
//! The last layer is a convolution too, whose kernel covers its whole input, so that one kind of layer does for all. Arrays are channels-last:
//! image, row, column, channel; weights are kernel row, kernel column, input channel, output channel, then one bias an output channel. The batch
//! is divided into parts of fixed size whose gradients are added up in order: a result is the same with any number of threads.

use crate::digits::{KINDS, Random, SIDE};

/// Images of a step.
pub const BATCH: usize = 64;
/// The step's length along the gradient.
pub const RATE: f32 = 0.1;
/// Images whose gradients one thread adds up before they are added to others'.
const PART: usize = 8;

/// The shape of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Rows and columns of its input.
    pub in_side: usize,
    /// Channels of its input.
    pub in_channels: usize,
    /// Rows and columns of its output.
    pub out_side: usize,
    /// Channels of its output.
    pub out_channels: usize,
    /// Rows and columns of its kernel.
    pub kernel: usize,
    /// Rows or columns of the input from one of the output to the next.
    pub stride: usize,
    /// Rows and columns of zeros before the input.
    pub pad: usize,
    /// Whether negative outputs become 0.
    pub relu: bool,
}

/// The network's layers.
pub const LAYERS: [Layer; 3] = [
    Layer { in_side: SIDE, in_channels: 1, out_side: 14, out_channels: 8, kernel: 5, stride: 2, pad: 2, relu: true },
    Layer { in_side: 14, in_channels: 8, out_side: 7, out_channels: 16, kernel: 5, stride: 2, pad: 2, relu: true },
    Layer { in_side: 7, in_channels: 16, out_side: 1, out_channels: KINDS, kernel: 7, stride: 1, pad: 0, relu: false },
];

impl Layer {
    /// Numbers of one image's input.
    #[must_use]
    pub const fn inputs(&self) -> usize {
        self.in_side * self.in_side * self.in_channels
    }

    /// Numbers of one image's output.
    #[must_use]
    pub const fn outputs(&self) -> usize {
        self.out_side * self.out_side * self.out_channels
    }

    /// Weights and biases.
    #[must_use]
    pub const fn weights(&self) -> usize {
        (self.kernel * self.kernel * self.in_channels + 1) * self.out_channels
    }

    /// Calls `each` with the output's place, the input's and the weight's, for every pair of output and input pixels that meet.
    fn meetings(&self, mut each: impl FnMut(usize, usize, usize)) {
        let inside = |out: usize, of_kernel: usize| {
            (out * self.stride + of_kernel).checked_sub(self.pad).filter(|at| *at < self.in_side)
        };
        for row in 0..self.out_side {
            for column in 0..self.out_side {
                let output = (row * self.out_side + column) * self.out_channels;
                for i in 0..self.kernel {
                    let Some(y) = inside(row, i) else { continue };
                    for j in 0..self.kernel {
                        let Some(x) = inside(column, j) else { continue };
                        let input = (y * self.in_side + x) * self.in_channels;
                        each(output, input, (i * self.kernel + j) * self.in_channels * self.out_channels);
                    }
                }
            }
        }
    }

    /// The output of one image.
    fn forward(&self, weights: &[f32], input: &[f32], output: &mut [f32]) {
        let (kernel, biases) = weights.split_at(self.weights() - self.out_channels);
        output.chunks_exact_mut(self.out_channels).for_each(|pixel| pixel.copy_from_slice(biases));
        self.meetings(|out, from, at| {
            let pixel = &mut output[out..out + self.out_channels];
            let rows = kernel[at..].chunks_exact(self.out_channels);
            for (value, row) in input[from..from + self.in_channels].iter().zip(rows) {
                pixel.iter_mut().zip(row).for_each(|(sum, weight)| *sum += value * weight);
            }
        });
        if self.relu {
            output.iter_mut().for_each(|value| *value = value.max(0.0));
        }
    }

    /// Adds the weights' gradient of one image, and gives that of its input. `gradient` is that of the output.
    fn backward(&self, weights: &[f32], input: &[f32], gradient: &[f32], sums: &mut [f32], of_input: &mut [f32]) {
        let all = self.weights() - self.out_channels;
        let (kernel_sums, bias_sums) = sums.split_at_mut(all);
        for pixel in gradient.chunks_exact(self.out_channels) {
            bias_sums.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += value);
        }
        of_input.fill(0.0);
        self.meetings(|out, from, at| {
            let pixel = &gradient[out..out + self.out_channels];
            for channel in 0..self.in_channels {
                let row = at + channel * self.out_channels..at + (channel + 1) * self.out_channels;
                let value = input[from + channel];
                let products = pixel.iter().zip(&weights[row.clone()]).map(|(gradient, weight)| gradient * weight);
                of_input[from + channel] += products.sum::<f32>();
                kernel_sums[row].iter_mut().zip(pixel).for_each(|(sum, gradient)| *sum += value * gradient);
            }
        });
    }
}

/// Weights of every layer at random, as wide as keeps the outputs' size (He).
#[must_use]
pub fn weights(seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random::new(seed);
    let of = |layer: &Layer| {
        let width = (6.0 / (layer.kernel * layer.kernel * layer.in_channels) as f32).sqrt();
        let mut weights: Vec<f32> = (0..layer.weights()).map(|_| width * random.even()).collect();
        weights[layer.weights() - layer.out_channels..].fill(0.0);
        weights
    };
    LAYERS.iter().map(of).collect()
}

/// The outputs of every layer for one image; the last are the scores of the ten digits.
#[must_use]
pub fn outputs(weights: &[Vec<f32>], image: &[f32]) -> Vec<Vec<f32>> {
    let mut outputs: Vec<Vec<f32>> = Vec::new();
    for (layer, weights) in LAYERS.iter().zip(weights) {
        let mut output = vec![0.0; layer.outputs()];
        layer.forward(weights, outputs.last().map_or(image, Vec::as_slice), &mut output);
        outputs.push(output);
    }
    outputs
}

/// The cross-entropy of `scores` under softmax.
#[must_use]
pub fn loss(scores: &[f32], label: u32) -> f32 {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|score| (score - largest).exp()).sum();
    sum.ln() + largest - scores[label as usize]
}

/// The gradient of the mean loss of a batch in every weight.
///
/// # Panics
/// Where a thread panicked.
#[must_use]
pub fn gradient(weights: &[Vec<f32>], pixels: &[f32], labels: &[u32], threads: usize) -> Vec<Vec<f32>> {
    let parts: Vec<(&[f32], &[u32])> = pixels.chunks(PART * LAYERS[0].inputs()).zip(labels.chunks(PART)).collect();
    let share = parts.len().div_ceil(threads.max(1)).max(1);
    let count = labels.len();
    let of_parts: Vec<Vec<Vec<f32>>> = std::thread::scope(|scope| {
        let work = |parts: &[(&[f32], &[u32])]| -> Vec<Vec<Vec<f32>>> {
            parts.iter().map(|(pixels, labels)| of_part(weights, pixels, labels, count)).collect()
        };
        let running: Vec<_> = parts.chunks(share).map(|share| scope.spawn(move || work(share))).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("a thread panicked")).collect()
    });
    let mut sums = empty();
    for part in of_parts {
        for (sums, part) in sums.iter_mut().zip(part) {
            sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
    }
    sums
}

/// A gradient of zeros.
fn empty() -> Vec<Vec<f32>> {
    LAYERS.iter().map(|layer| vec![0.0; layer.weights()]).collect()
}

/// The gradient of a few images of a batch of `count`.
fn of_part(weights: &[Vec<f32>], pixels: &[f32], labels: &[u32], count: usize) -> Vec<Vec<f32>> {
    let mut sums = empty();
    for (image, label) in pixels.chunks(LAYERS[0].inputs()).zip(labels) {
        let outputs = outputs(weights, image);
        let mut gradient = softmax_gradient(&outputs[LAYERS.len() - 1], *label, count);
        for (index, layer) in LAYERS.iter().enumerate().rev() {
            if layer.relu {
                let silent = outputs[index].iter().map(|output| *output <= 0.0);
                gradient.iter_mut().zip(silent).filter(|(_, silent)| *silent).for_each(|(value, _)| *value = 0.0);
            }
            let input = if index == 0 { image } else { &outputs[index - 1] };
            let mut of_input = vec![0.0; layer.inputs()];
            layer.backward(&weights[index], input, &gradient, &mut sums[index], &mut of_input);
            gradient = of_input;
        }
    }
    sums
}

fn softmax_gradient(scores: &[f32], label: u32, count: usize) -> Vec<f32> {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|score| (score - largest).exp()).sum();
    let right = |kind: usize| if kind == label as usize { 1.0 } else { 0.0 };
    let of = |(kind, score): (usize, &f32)| ((score - largest).exp() / sum - right(kind)) / count as f32;
    scores.iter().enumerate().map(of).collect()
}

/// One step along the gradient of a batch.
pub fn step(weights: &mut [Vec<f32>], pixels: &[f32], labels: &[u32], threads: usize) {
    let gradient = gradient(weights, pixels, labels, threads);
    for (weights, gradient) in weights.iter_mut().zip(gradient) {
        weights.iter_mut().zip(gradient).for_each(|(weight, slope)| *weight -= RATE * slope);
    }
}

/// The digit of the highest score.
#[must_use]
pub fn recognised(scores: &[f32]) -> u32 {
    let best = scores.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1));
    best.map_or(0, |(kind, _)| kind as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits::drawn;

    fn mean_loss(weights: &[Vec<f32>], pixels: &[f32], labels: &[u32]) -> f64 {
        let of = |(image, label): (&[f32], &u32)| f64::from(loss(&outputs(weights, image)[2], *label));
        pixels.chunks(LAYERS[0].inputs()).zip(labels).map(of).sum::<f64>() / labels.len() as f64
    }

    /// Every layer's gradient is that of the loss: some weights and every kind of bias are moved a little both ways.
    #[test]
    fn gradients_are_differences_of_the_loss() {
        let digits = drawn(16, 3);
        let weights = weights(5);
        let gradient = gradient(&weights, &digits.pixels, &digits.labels, 2);
        for (index, layer) in LAYERS.iter().enumerate() {
            let largest = gradient[index].iter().fold(0.0_f32, |most, slope| most.max(slope.abs()));
            for at in (0..layer.weights()).step_by(layer.weights() / 23).chain([layer.weights() - 1]) {
                let moved = |by: f32| {
                    let mut moved = weights.clone();
                    moved[index][at] += by;
                    mean_loss(&moved, &digits.pixels, &digits.labels)
                };
                let slope = ((moved(2e-3) - moved(-2e-3)) / 4e-3) as f32;
                let off = (slope - gradient[index][at]).abs();
                assert!(off < 0.03 * largest, "layer {index}, weight {at}: {slope} and {}", gradient[index][at]);
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let digits = drawn(BATCH, 3);
        let weights = weights(5);
        let one = gradient(&weights, &digits.pixels, &digits.labels, 1);
        for threads in [2, 3, 8, 64] {
            assert_eq!(one, gradient(&weights, &digits.pixels, &digits.labels, threads), "{threads} threads");
        }
    }
}
