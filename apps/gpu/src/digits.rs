//! Digits of 28 x 28 pixels, drawn by strokes that are turned, moved, scaled and blurred at random: data like handwriting that need not be fetched.

/// Pixels along a side.
pub const SIDE: usize = 28;
/// Kinds of digits.
pub const KINDS: usize = 10;

/// A small generator of random numbers (splitmix64), the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose numbers follow from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from -1 to 1, evenly.
    pub fn even(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Labelled images.
#[derive(Clone, Debug, Default)]
pub struct Digits {
    /// Brightness from 0 to 1 (noise apart): [`SIDE`] rows of [`SIDE`] pixels an image.
    pub pixels: Vec<f32>,
    /// The digit of each image.
    pub labels: Vec<u32>,
}

/// The strokes of each digit: polylines in a square from -1 to 1, y downwards.
const STROKES: [&[&[(f32, f32)]]; KINDS] = [
    &[&[
        (0.0, -0.8),
        (0.5, -0.5),
        (0.6, 0.0),
        (0.5, 0.5),
        (0.0, 0.8),
        (-0.5, 0.5),
        (-0.6, 0.0),
        (-0.5, -0.5),
        (0.0, -0.8),
    ]],
    &[&[(-0.3, -0.5), (0.1, -0.8), (0.1, 0.8)]],
    &[&[(-0.5, -0.5), (0.0, -0.8), (0.5, -0.5), (0.4, 0.0), (-0.5, 0.8), (0.5, 0.8)]],
    &[&[(-0.5, -0.7), (0.2, -0.8), (0.5, -0.4), (0.0, 0.0), (0.5, 0.4), (0.2, 0.8), (-0.5, 0.7)]],
    &[&[(0.3, 0.8), (0.3, -0.8), (-0.6, 0.3), (0.6, 0.3)]],
    &[&[(0.5, -0.8), (-0.4, -0.8), (-0.5, -0.1), (0.2, -0.2), (0.5, 0.3), (0.1, 0.8), (-0.5, 0.7)]],
    &[&[(0.4, -0.8), (-0.3, -0.3), (-0.5, 0.4), (0.0, 0.8), (0.5, 0.4), (0.0, 0.0), (-0.4, 0.2)]],
    &[&[(-0.5, -0.8), (0.5, -0.8), (-0.1, 0.8)], &[(-0.3, 0.0), (0.4, 0.0)]],
    &[
        &[(0.0, 0.0), (0.5, -0.4), (0.0, -0.8), (-0.5, -0.4), (0.0, 0.0)],
        &[(0.0, 0.0), (0.5, 0.4), (0.0, 0.8), (-0.5, 0.4), (0.0, 0.0)],
    ],
    &[&[(0.4, -0.2), (0.0, 0.0), (-0.5, -0.4), (0.0, -0.8), (0.5, -0.4), (0.3, 0.8)]],
];

/// `count` digits, ten kinds in turn, that follow from `seed`.
#[must_use]
pub fn drawn(count: usize, seed: u64) -> Digits {
    let mut random = Random::new(seed);
    let mut digits = Digits::default();
    for index in 0..count {
        let kind = index % KINDS;
        one(&mut random, STROKES[kind], &mut digits.pixels);
        digits.labels.push(kind as u32);
    }
    digits
}

/// Draws one digit and appends its pixels.
fn one(random: &mut Random, strokes: &[&[(f32, f32)]], pixels: &mut Vec<f32>) {
    let (sine, cosine) = (0.25 * random.even()).sin_cos();
    let (wide, high) = (9.0 + 1.5 * random.even(), 11.0 + 1.5 * random.even());
    let middle = (13.5 + 2.5 * random.even(), 13.5 + 2.0 * random.even());
    let thickness = 1.4 + 0.5 * random.even();
    let placed =
        |&(x, y): &(f32, f32)| (middle.0 + wide * (cosine * x - sine * y), middle.1 + high * (sine * x + cosine * y));
    let lines: Vec<Vec<(f32, f32)>> = strokes.iter().map(|stroke| stroke.iter().map(placed).collect()).collect();
    for row in 0..SIDE {
        for column in 0..SIDE {
            let here = (column as f32, row as f32);
            let pieces = lines.iter().flat_map(|line| line.windows(2));
            let nearest = pieces.map(|ends| distance(here, ends[0], ends[1])).fold(f32::INFINITY, f32::min);
            let ink = (thickness + 0.5 - nearest).clamp(0.0, 1.0);
            pixels.push(ink + 0.1 * random.even());
        }
    }
}

/// How far a point is from a line between two others.
fn distance(point: (f32, f32), from: (f32, f32), to: (f32, f32)) -> f32 {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let along = (((point.0 - from.0) * dx + (point.1 - from.1) * dy) / (dx * dx + dy * dy)).clamp(0.0, 1.0);
    (point.0 - from.0 - along * dx).hypot(point.1 - from.1 - along * dy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_another_seed_others() {
        let (one, again, other) = (drawn(20, 7), drawn(20, 7), drawn(20, 8));
        assert_eq!((&one.pixels, &one.labels), (&again.pixels, &again.labels));
        assert_ne!(one.pixels, other.pixels);
        assert_eq!(one.pixels.len(), 20 * SIDE * SIDE);
        assert_eq!(one.labels[..12], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
        // Each has ink, and most of each is paper.
        for image in one.pixels.chunks(SIDE * SIDE) {
            let ink = image.iter().filter(|brightness| **brightness > 0.5).count();
            assert!((30..400).contains(&ink), "{ink} pixels of ink");
        }
    }
}
