//! The scene: a grid of gear boxes of plates, gears, bolts and pipes, as triangles of many parts, each a draw call, as CAD programs draw.

use std::f32::consts::TAU;
use std::ops::Range;

/// A point or a direction.
pub type Vector = [f32; 3];

/// What the shaders read of a corner of a triangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corner {
    /// Where it is.
    pub place: Vector,
    /// The surface's direction there, of length 1.
    pub normal: Vector,
    /// Red, green and blue from 0 to 1.
    pub colour: Vector,
}

impl Corner {
    /// Bytes as the shaders read them.
    pub const BYTES: usize = 36;
}

/// Triangles, as corners and their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// Corners of all parts.
    pub corners: Vec<Corner>,
    /// Three numbers of corners for each triangle.
    pub triangles: Vec<u32>,
    /// The range of `triangles` of each part.
    pub parts: Vec<Range<u32>>,
    /// How far it reaches from the middle.
    pub radius: f32,
}

/// Distance from the middle of one gear box to the next.
const PITCH: f32 = 4.0;

/// A scene of `side` x `side` gear boxes.
#[must_use]
pub fn built(side: u16) -> Scene {
    let mut scene = Scene { radius: PITCH * f32::from(side) * 0.8, ..Scene::default() };
    let middle = (f32::from(side) - 1.0) / 2.0;
    for row in 0..side {
        for column in 0..side {
            let at = [PITCH * (f32::from(column) - middle), 0.0, PITCH * (f32::from(row) - middle)];
            scene.gear_box(at, row * side + column);
        }
    }
    scene
}

impl Scene {
    fn gear_box(&mut self, [x, y, z]: Vector, number: u16) {
        let tint = f32::from(number % 5) / 10.0;
        let steel = [0.55 + tint / 2.0, 0.6, 0.65];
        let turn = f32::from(number) * 0.3;
        self.solid(
            [x, y - 0.2, z],
            &[(1.7, -0.15), (1.75, -0.1), (1.75, 0.1), (1.7, 0.15)],
            64,
            0.0,
            0,
            [0.3, 0.35 + tint, 0.4],
        );
        for (place, radius, teeth, turned) in
            [([x - 0.55, y + 0.15, z], 0.75, 24, turn), ([x + 0.62, y + 0.15, z], 0.42, 14, -turn * 24.0 / 14.0)]
        {
            self.solid(place, &[(radius, -0.1), (radius, 0.1)], teeth * 8, turned, teeth, [0.75, 0.6 - tint, 0.25]);
            self.solid(place, &[(0.12, 0.1), (0.12, 0.45), (0.1, 0.48)], 32, 0.0, 0, steel);
        }
        for bolt in 0..8_u8 {
            let (sine, cosine) = (TAU * f32::from(bolt) / 8.0).sin_cos();
            let place = [x + 1.5 * cosine, y, z + 1.5 * sine];
            self.solid(place, &[(0.12, -0.05), (0.12, 0.08), (0.1, 0.1)], 6, 0.0, 0, steel);
            self.solid(place, &[(0.06, 0.1), (0.06, 0.2), (0.04, 0.22)], 24, 0.0, 0, steel);
        }
        self.pipe([x, y + 0.7, z], 1.2, 0.1, [0.7, 0.25 + tint, 0.2]);
    }

    /// A solid of revolution around the y axis, closed at both ends: `profile` is of radius and height. Of a gear, teeth move the surface in and
    /// out; surfaces are flat, as facets of CAD programs are.
    fn solid(&mut self, at: Vector, profile: &[(f32, f32)], sides: u16, turned: f32, teeth: u16, colour: Vector) {
        let start = self.end();
        let point = |side: u16, (radius, height): (f32, f32)| {
            let (sine, cosine) = (turned + TAU * f32::from(side % sides) / f32::from(sides)).sin_cos();
            let out = if teeth > 0 && (side % sides) * teeth * 2 / sides % 2 == 1 { radius * 1.15 } else { radius };
            [at[0] + out * cosine, at[1] + height, at[2] + out * sine]
        };
        let ends = [profile[0], profile[profile.len() - 1]];
        for side in 0..sides {
            for rings in profile.windows(2) {
                let corners = [
                    point(side, rings[0]),
                    point(side, rings[1]),
                    point(side + 1, rings[1]),
                    point(side + 1, rings[0]),
                ];
                self.flat([corners[0], corners[1], corners[2]], colour);
                self.flat([corners[0], corners[2], corners[3]], colour);
            }
            for (radius, height) in ends {
                self.flat(
                    [[at[0], at[1] + height, at[2]], point(side, (radius, height)), point(side + 1, (radius, height))],
                    colour,
                );
            }
        }
        self.parts.push(start..self.end());
    }

    /// A bent pipe: most of a ring, with smooth surfaces.
    fn pipe(&mut self, at: Vector, bend: f32, radius: f32, colour: Vector) {
        const ALONG: u16 = 64;
        const AROUND: u16 = 24;
        let start = self.end();
        let first = self.corners.len() as u32;
        for i in 0..=ALONG {
            let (sine, cosine) = (0.75 * TAU * f32::from(i) / f32::from(ALONG)).sin_cos();
            for j in 0..=AROUND {
                let (up, out) = (TAU * f32::from(j) / f32::from(AROUND)).sin_cos();
                let normal = [out * cosine, up, out * sine];
                let reach = bend + radius * out;
                let place = [at[0] + reach * cosine, at[1] + radius * up, at[2] + reach * sine];
                self.corners.push(Corner { place, normal, colour });
            }
        }
        let ring = u32::from(AROUND) + 1;
        for i in 0..u32::from(ALONG) {
            for j in 0..u32::from(AROUND) {
                let at = first + i * ring + j;
                self.triangles.extend([at, at + ring, at + ring + 1, at, at + ring + 1, at + 1]);
            }
        }
        self.parts.push(start..self.end());
    }

    fn flat(&mut self, places: [Vector; 3], colour: Vector) {
        let normal = unit(cross(minus(places[1], places[0]), minus(places[2], places[0])));
        let first = self.corners.len() as u32;
        self.corners.extend(places.map(|place| Corner { place, normal, colour }));
        self.triangles.extend([first, first + 1, first + 2]);
    }

    fn end(&self) -> u32 {
        self.triangles.len() as u32
    }

    /// The corners as the shaders read them.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let numbers = self.corners.iter().flat_map(|corner| [corner.place, corner.normal, corner.colour]).flatten();
        numbers.flat_map(f32::to_le_bytes).collect()
    }
}

/// `one` - `other`.
#[must_use]
pub fn minus(one: Vector, other: Vector) -> Vector {
    [one[0] - other[0], one[1] - other[1], one[2] - other[2]]
}

/// `one` + `factor` x `other`.
#[must_use]
pub fn plus(one: Vector, factor: f32, other: Vector) -> Vector {
    [one[0] + factor * other[0], one[1] + factor * other[1], one[2] + factor * other[2]]
}

/// The product that is a number.
#[must_use]
pub fn dot(one: Vector, other: Vector) -> f32 {
    one[0] * other[0] + one[1] * other[1] + one[2] * other[2]
}

/// The product that is at right angles to both.
#[must_use]
pub fn cross(one: Vector, other: Vector) -> Vector {
    let of = |i: usize, j: usize| one[i] * other[j] - one[j] * other[i];
    [of(1, 2), of(2, 0), of(0, 1)]
}

/// The same direction with length 1.
#[must_use]
pub fn unit(of: Vector) -> Vector {
    plus([0.0; 3], dot(of, of).sqrt().recip(), of)
}
