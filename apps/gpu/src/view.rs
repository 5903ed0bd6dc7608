//! The camera, and the check of frames: rays through a grid of pixels are cast in plain Rust and lit as the shader does, and colours compared.

use crate::scene::{Corner, Scene, Vector, cross, dot, minus, plus, unit};
use std::f32::consts::TAU;

/// Half of the view's height at distance 1.
const HALF_HEIGHT: f32 = 0.45;
/// How far two values of a colour (of 255) may differ that are the same but for rounding.
const TOLERANCE: i32 = 4;
/// Rays through a row and a column of a checked frame.
const RAYS: usize = 16;
/// The share of checked pixels that must agree; at edges the pixel's middle may fall on either side.
pub const LEAST_AGREEMENT: f64 = 0.95;
/// The share of rays that must meet the scene: an empty frame would agree with anything.
const LEAST_MET: f64 = 0.2;

/// Width and height of a frame in pixels.
pub type Size = (u32, u32);

/// The camera of one frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    eye: Vector,
    right: Vector,
    up: Vector,
    ahead: Vector,
    wide: f32,
    near: f32,
    far: f32,
}

impl View {
    /// The camera of frame `frame` of `frames`, which goes around the scene once.
    #[must_use]
    pub fn of(scene: &Scene, (width, height): Size, frame: u32, frames: u32) -> Self {
        let (sine, cosine) = (TAU * frame as f32 / frames as f32 + 0.3).sin_cos();
        let away = 0.8 * scene.radius + 1.0;
        let eye = [away * cosine, 0.8 * away, away * sine];
        let ahead = unit(minus([0.0; 3], eye));
        let right = unit(cross(ahead, [0.0, 1.0, 0.0]));
        let wide = HALF_HEIGHT * width as f32 / height as f32;
        View { eye, right, up: cross(right, ahead), ahead, wide, near: 0.1 * away, far: 4.0 * away }
    }

    /// The matrix that takes a place to Vulkan's clip space, by columns, and the eye, as the shader reads them.
    #[must_use]
    pub fn numbers(&self) -> [f32; 20] {
        let rows = [
            row(plus([0.0; 3], 1.0 / self.wide, self.right), self.eye, 0.0),
            row(plus([0.0; 3], -1.0 / HALF_HEIGHT, self.up), self.eye, 0.0),
            row(
                plus([0.0; 3], self.far / (self.far - self.near), self.ahead),
                self.eye,
                -self.near * self.far / (self.far - self.near),
            ),
            row(self.ahead, self.eye, 0.0),
        ];
        let mut numbers = [0.0; 20];
        for (i, row) in rows.iter().enumerate() {
            for (j, value) in row.iter().enumerate() {
                numbers[4 * j + i] = *value;
            }
        }
        numbers[16..19].copy_from_slice(&self.eye);
        numbers[19] = 1.0;
        numbers
    }

    fn ray(&self, (width, height): Size, x: u32, y: u32) -> Vector {
        let across = 2.0 * (x as f32 + 0.5) / width as f32 - 1.0;
        let down = 2.0 * (y as f32 + 0.5) / height as f32 - 1.0;
        plus(plus(self.ahead, across * self.wide, self.right), -down * HALF_HEIGHT, self.up)
    }

    /// The colour of a pixel; `None` where nothing is met.
    fn colour(&self, scene: &Scene, direction: Vector) -> Option<[u8; 3]> {
        let mut nearest: Option<(f32, Corner)> = None;
        for triangle in scene.triangles.chunks_exact(3) {
            let corners = [0, 1, 2].map(|index| scene.corners[triangle[index] as usize]);
            let Some((distance, weights)) = met(self.eye, direction, corners.map(|corner| corner.place)) else {
                continue;
            };
            if distance > 0.0 && nearest.is_none_or(|(other, _)| distance < other) {
                nearest = Some((distance, mixed(corners, weights)));
            }
        }
        nearest.map(|(_, corner)| lit(corner, self.eye))
    }
}

fn row(direction: Vector, eye: Vector, more: f32) -> [f32; 4] {
    [direction[0], direction[1], direction[2], more - dot(direction, eye)]
}

/// Where a ray meets a triangle: how far along it, and how much of each corner is there.
fn met(from: Vector, direction: Vector, places: [Vector; 3]) -> Option<(f32, Vector)> {
    let (one, other) = (minus(places[1], places[0]), minus(places[2], places[0]));
    let across = cross(direction, other);
    let size = dot(one, across);
    if size == 0.0 {
        return None;
    }
    let start = minus(from, places[0]);
    let second = dot(start, across) / size;
    let along = cross(start, one);
    let third = dot(direction, along) / size;
    let inside = second >= 0.0 && third >= 0.0 && second + third <= 1.0;
    inside.then(|| (dot(other, along) / size, [1.0 - second - third, second, third]))
}

fn mixed(corners: [Corner; 3], weights: Vector) -> Corner {
    let sum = |of: fn(&Corner) -> Vector| {
        corners.iter().zip(weights).fold([0.0; 3], |sum, (corner, weight)| plus(sum, weight, of(corner)))
    };
    Corner {
        place: sum(|corner| corner.place),
        normal: sum(|corner| corner.normal),
        colour: sum(|corner| corner.colour),
    }
}

/// The light of `render.wgsl`.
fn lit(at: Corner, eye: Vector) -> [u8; 3] {
    const LIGHTS: [(Vector, f32); 3] = [([0.48, 0.64, 0.6], 0.55), ([-0.8, 0.36, 0.48], 0.3), ([0.0, -0.6, 0.8], 0.15)];
    let to_eye = unit(minus(eye, at.place));
    let normal = unit(at.normal);
    let normal = if dot(normal, to_eye) < 0.0 { plus([0.0; 3], -1.0, normal) } else { normal };
    let (mut diffuse, mut mirrored) = (0.15 + 0.1 * normal[1], 0.0);
    for (light, strength) in LIGHTS {
        let half_way = unit(plus(light, 1.0, to_eye));
        diffuse += strength * dot(normal, light).max(0.0);
        mirrored += strength * dot(normal, half_way).max(0.0).powi(32);
    }
    at.colour.map(|value| ((value * diffuse + 0.3 * mirrored).clamp(0.0, 1.0) * 255.0).round() as u8)
}

/// The share of a grid of pixels whose colours are those of rays. `pixels` are red, green, blue and a fourth byte each, by rows; where
/// nothing is met the pixel must have the colour `behind`.
///
/// # Errors
/// Where too few agree, or the scene is hardly seen.
pub fn checked(scene: &Scene, view: &View, size: Size, pixels: &[u8], behind: [u8; 3]) -> Result<f64, String> {
    let (mut agree, mut seen, mut first) = (0_usize, 0_usize, None);
    for i in 0..RAYS as u32 {
        for j in 0..RAYS as u32 {
            let (x, y) = ((2 * i + 1) * size.0 / (2 * RAYS as u32), (2 * j + 1) * size.1 / (2 * RAYS as u32));
            let at = 4 * (y * size.0 + x) as usize;
            let colour = view.colour(scene, view.ray(size, x, y));
            seen += usize::from(colour.is_some());
            let right = colour.unwrap_or(behind);
            let off = |(drawn, right): (&u8, &u8)| (i32::from(*drawn) - i32::from(*right)).abs();
            if pixels[at..at + 3].iter().zip(&right).all(|pair| off(pair) <= TOLERANCE) {
                agree += 1;
            } else if first.is_none() {
                first = Some(format!("pixel {x}, {y} is {:?} and should be {right:?}", &pixels[at..at + 3]));
            }
        }
    }
    let all = (RAYS * RAYS) as f64;
    let (agree, seen) = (agree as f64 / all, seen as f64 / all);
    if agree < LEAST_AGREEMENT || seen < LEAST_MET {
        let first = first.unwrap_or_else(|| "the scene is hardly seen".to_owned());
        return Err(format!("a frame is wrong: {:.0} % of the checked pixels agree; {first}", 100.0 * agree));
    }
    Ok(agree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::built;

    /// What the matrix says of where a place is seen, and where a ray through that pixel goes, are the same.
    #[test]
    fn rays_and_the_matrix_see_the_same() {
        let (scene, size) = (built(1), (640, 480));
        let view = View::of(&scene, size, 3, 10);
        let numbers = view.numbers();
        let ray = view.ray(size, 400, 100);
        let place = plus(view.eye, 3.5, ray);
        let clip: Vec<f32> =
            (0..4).map(|i| (0..3).map(|j| numbers[4 * j + i] * place[j]).sum::<f32>() + numbers[12 + i]).collect();
        let (x, y) = ((clip[0] / clip[3] + 1.0) * 320.0 - 0.5, (clip[1] / clip[3] + 1.0) * 240.0 - 0.5);
        assert!((x - 400.0).abs() < 0.01 && (y - 100.0).abs() < 0.01, "{x}, {y}");
        assert!((0.0..1.0).contains(&(clip[2] / clip[3])), "depth {}", clip[2] / clip[3]);
    }

    /// A frame that is all of one colour, and one of another view, are found.
    #[test]
    fn wrong_frames_are_refused() {
        let (scene, size) = (built(1), (64, 48));
        let drawn = |view: &View| -> Vec<u8> {
            let pixels = (0..size.1).flat_map(|y| (0..size.0).map(move |x| (x, y)));
            let colours = pixels.map(|(x, y)| view.colour(&scene, view.ray(size, x, y)).unwrap_or([255; 3]));
            colours.flat_map(|[red, green, blue]| [red, green, blue, 255]).collect()
        };
        let (view, other) = (View::of(&scene, size, 0, 10), View::of(&scene, size, 1, 10));
        assert_eq!(checked(&scene, &view, size, &drawn(&view), [255; 3]), Ok(1.0));
        let blank = vec![255; 4 * 64 * 48];
        for wrong in [&blank, &drawn(&other)] {
            let why = checked(&scene, &view, size, wrong, [255; 3]).expect_err("a wrong frame");
            assert!(why.starts_with("a frame is wrong") && why.contains("should be"), "{why}");
        }
    }
}
