//! A roofline of a run that measured bandwidth and floating-point kernels: which of the two bounds each kernel, in each environment.
//!
//! The slope is the bandwidth of STREAM's triad and the roof the rate of `fma`, both measured in the run. A kernel is at its arithmetic intensity
//! for traffic that cannot be avoided: each matrix is read or written once (Williams, Waterman, Patterson: Roofline, CACM 52 (4), 2009, section 3).

use crate::axis::{Axis, Figure, HEIGHT, LEFT, LINE, MARGIN, WIDTH, legend};
use crate::number::rounded;
use crate::per_workload::Part;
use crate::svg::{Anchor, Svg};
use crate::text::clean;
use crate::treatment::ENVIRONMENT;
use baremark_model::document::EstimateRow;
use std::collections::BTreeSet;

/// Environments that can be distinguished.
const MOST: usize = 4;
/// How far the roof goes on beyond the last kernel, as a factor.
const BEYOND: f64 = 4.0;
/// FLOP by byte of the triad, `a[i] = b[i] + s * c[i]`: two of 24 bytes.
const TRIAD: f64 = 2.0 / 24.0;

/// A kernel in an environment.
struct PlacedKernel {
    name: String,
    /// FLOP by byte.
    intensity: f64,
    /// GFLOP/s.
    rate: f64,
}

/// What bounds kernels in an environment, and the kernels.
struct Roof {
    environment: String,
    /// GB/s.
    bandwidth: f64,
    /// GFLOP/s.
    peak: f64,
    kernels: Vec<PlacedKernel>,
}

impl Roof {
    /// Where both bounds meet, in FLOP by byte.
    fn ridge(&self) -> f64 {
        self.peak / self.bandwidth
    }

    /// The bound at an intensity, in GFLOP/s.
    fn at(&self, intensity: f64) -> f64 {
        (intensity * self.bandwidth).min(self.peak)
    }
}

/// The roofline of these parts; `None` where bandwidth or the peak of arithmetic was not measured, or where more than the environment varies:
/// each level would have a roof of its own.
pub(crate) fn figure(parts: &[Part<'_>]) -> Option<Figure> {
    let part = |name: &str| parts.iter().find(|part| part.name == Some(name));
    let (stream, fma) = (rates(part("stream")?, "triad_mb_per_s")?, rates(part("fma")?, "gflops")?);
    let of = |all: &[(String, f64)], environment: &str| {
        all.iter().find(|(name, _)| name == environment).map(|(_, rate)| *rate)
    };
    // Doubles that are moved at least: the matrix of HPL once each way, three matrices of a product, of which one both ways.
    let kernels = [("hpl", 24.0), ("dgemm", 16.0)].into_iter().filter_map(|(name, doubles)| {
        let part = part(name)?;
        let order: f64 = part.document.run.parameters.get("n")?.parse().ok()?;
        Some((name, order / doubles, rates(part, "gflops")?))
    });
    let kernels: Vec<_> = kernels.collect();
    let roof = |(environment, megabytes): &(String, f64)| {
        let bandwidth = megabytes / 1e3;
        let mut own = vec![PlacedKernel { name: "triad".to_owned(), intensity: TRIAD, rate: TRIAD * bandwidth }];
        own.extend(kernels.iter().filter_map(|(name, intensity, rates)| {
            Some(PlacedKernel { name: (*name).to_owned(), intensity: *intensity, rate: of(rates, environment)? })
        }));
        Some(Roof { environment: environment.clone(), bandwidth, peak: of(&fma, environment)?, kernels: own })
    };
    let roofs: Vec<Roof> = stream.iter().filter_map(roof).take(MOST).collect();
    draw(&roofs)
}

/// A metric of each environment; `None` where one has several.
fn rates(part: &Part<'_>, metric: &str) -> Option<Vec<(String, f64)>> {
    let rows = part.document.estimates.iter().filter(|row| row.metric == metric && row.estimate > 0.0);
    let of = |row: &EstimateRow| Some((clean(row.treatment.get(ENVIRONMENT)?), row.estimate));
    let all: Vec<(String, f64)> = rows.filter_map(of).collect();
    let environments: BTreeSet<&String> = all.iter().map(|(name, _)| name).collect();
    (environments.len() == all.len()).then_some(all)
}

fn draw(roofs: &[Roof]) -> Option<Figure> {
    let kernels = || roofs.iter().flat_map(|roof| &roof.kernels);
    let intensities = || kernels().map(|kernel| kernel.intensity).chain(roofs.iter().map(Roof::ridge));
    let (least, most) = intensities().fold((f64::INFINITY, 0.0_f64), |(low, high), of| (low.min(of), high.max(of)));
    let (least, most) = (least / BEYOND, most * BEYOND);
    #[expect(clippy::cast_precision_loss, reason = "at most MOST")]
    let top = 14.0 + roofs.len() as f64 * LINE;
    let bottom = top + HEIGHT;
    let across = Axis::over([least, most].into_iter(), [LEFT, WIDTH - MARGIN], true)?;
    let rates = kernels().map(|kernel| kernel.rate).chain(roofs.iter().flat_map(|roof| [roof.at(least), roof.peak]));
    let up = Axis::over(rates, [bottom, top], true)?;
    let title = "Roofline: what bounds kernels";
    let mut svg = Svg::new("roofline", [WIDTH, bottom + 38.0], title, &in_words(roofs));
    up.draw_upright(&mut svg);
    svg.text("axis", [LEFT - 6.0, top - 6.0], Anchor::End, "GFLOP/s");
    for (value, text) in across.ticks(6.0) {
        svg.line("rule", [across.at(value), bottom], [across.at(value), bottom + 4.0]);
        svg.text("tick", [across.at(value), bottom + 17.0], Anchor::Middle, &text);
    }
    svg.text("axis", [f64::midpoint(LEFT, WIDTH), bottom + 34.0], Anchor::Middle, "FLOP/byte (least traffic)");
    for (number, roof) in roofs.iter().enumerate() {
        let class = format!("curve c{number}");
        let corners = [least, roof.ridge(), most].map(|at| [across.at(at), up.at(roof.at(at))]);
        svg.polyline(&class, &corners);
        for kernel in &roof.kernels {
            let says = format!("{}, {}: {}", roof.environment, kernel.name, in_numbers(kernel));
            svg.dot(&class, [across.at(kernel.intensity), up.at(kernel.rate)], 3.2, &says);
        }
        legend(&mut svg, number, &bounds(roof));
    }
    for kernel in roofs.first().into_iter().flat_map(|roof| &roof.kernels) {
        let place = [across.at(kernel.intensity), up.at(kernel.rate) + 18.0];
        svg.text("tick", place, Anchor::Middle, &kernel.name);
    }
    let caption = "Roofline: slopes are the measured bandwidth of the triad, roofs the measured rate of fma; kernels at their arithmetic intensity for the \
                   least traffic; with more they are further left. Higher is better.";
    Some(Figure { caption: caption.to_owned(), name: "roofline".to_owned(), svg })
}

/// "native: 28.2 GB/s, 114 GFLOP/s, ridge at 4.05 FLOP/byte"
fn bounds(roof: &Roof) -> String {
    let [bandwidth, peak, ridge] = [roof.bandwidth, roof.peak, roof.ridge()].map(rounded);
    format!("{}: {bandwidth} GB/s, {peak} GFLOP/s, ridge at {ridge} FLOP/byte", roof.environment)
}

fn in_numbers(kernel: &PlacedKernel) -> String {
    format!("{} GFLOP/s at {} FLOP/byte", rounded(kernel.rate), rounded(kernel.intensity))
}

/// The figure in words, for those who cannot see it.
fn in_words(roofs: &[Roof]) -> String {
    let of = |roof: &Roof| {
        let kernels: Vec<String> =
            roof.kernels.iter().map(|kernel| format!("{} {}", kernel.name, in_numbers(kernel))).collect();
        format!("{}; {}", bounds(roof), kernels.join(", "))
    };
    roofs.iter().map(of).collect::<Vec<_>>().join(". ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_below_the_roof_of_their_environment() {
        let kernel = |name: &str, intensity: f64, rate: f64| PlacedKernel { name: name.to_owned(), intensity, rate };
        let roof = Roof {
            environment: "native".to_owned(),
            bandwidth: 24.0,
            peak: 96.0,
            kernels: vec![kernel("triad", TRIAD, 2.0), kernel("hpl", 62.5, 69.0)],
        };
        assert!((roof.ridge() - 4.0).abs() < 1e-12 && (roof.at(TRIAD) - 2.0).abs() < 1e-12, "{}", roof.ridge());
        assert!((roof.at(62.5) - 96.0).abs() < 1e-12);
        let figure = draw(&[roof]).expect("a figure");
        let svg = figure.svg.inline();
        assert!(svg.contains("native: 24.0 GB/s, 96.0 GFLOP/s, ridge at 4.00 FLOP/byte"), "{svg}");
        assert!(svg.contains("native, hpl: 69.0 GFLOP/s at 62.5 FLOP/byte") && svg.contains(">triad</text>"), "{svg}");
        assert!(svg.matches("class=\"tick\"").count() > 6 && draw(&[]).is_none(), "{svg}");
    }
}
