//! Four estimates with their 95 % intervals on the same blocks, of a number fixed beforehand.

use crate::simulated::{Noise, Source};
use baremark_stats::Estimate;
use baremark_stats::estimate::{mean, sd, sorted};
use baremark_stats::location::centre;
use baremark_stats::quads::trimmed_mean;
use baremark_stats::special::student_two_sided;

const BLOCKS: [usize; 4] = [6, 8, 10, 20];
const NOISES: [Noise; 5] = [Noise::Normal, Noise::LogNormal, Noise::Slow, Noise::SlowArm, Noise::LogNormalArm];

/// Ends of an interval, and its centre.
type Method = fn(&[f64]) -> Option<[f64; 3]>;

const METHODS: [(&str, Method); 4] = [
    ("mean, t", student),
    ("20 % trimmed mean, t", trimmed),
    ("signed rank, exact", signed_rank),
    ("this estimate", |x| {
        Estimate::of(x).map(|found| found.interval(0.95)).map(|found| [found.lo, found.centre, found.hi])
    }),
];

/// Prints, for each method, what it covers of its own estimand, and the median half-width over that of the t interval on normal
/// blocks.
pub fn table(studies: u64) {
    println!(
        "\nCoverage in % of each method's own estimand / median half-width over that of the t interval on normal blocks\n"
    );
    for blocks in BLOCKS {
        println!("{blocks} blocks, {studies} studies each\n");
        println!("| method | {} |", NOISES.map(Noise::name).join(" | "));
        println!("|---|{}", "---|".repeat(NOISES.len()));
        let unit = row(METHODS[0].1, Noise::Normal, blocks, studies).map_or(1.0, |(_, width)| width);
        for (name, method) in METHODS {
            let cell = |noise| match row(method, noise, blocks, studies) {
                Some((covered, width)) => format!("{:.1} / {:.2}", 100.0 * covered, width / unit),
                None => "none".to_owned(),
            };
            println!("| {name} | {} |", NOISES.map(cell).join(" | "));
        }
        println!();
    }
}

fn row(method: Method, noise: Noise, blocks: usize, studies: u64) -> Option<(f64, f64)> {
    let truth = truth(method, noise)?;
    let (mut covered, mut widths) = (0.0, Vec::new());
    for study in 0..studies {
        let [lo, _, hi] = method(&sample(noise, study, blocks))?;
        covered += f64::from(u8::from(lo <= truth && truth <= hi));
        widths.push(0.5 * (hi - lo));
    }
    Some((covered / studies as f64, sorted(&widths)[widths.len() / 2]))
}

/// What the method estimates: 0 by symmetry, or the mean of its centres of large samples.
fn truth(method: Method, noise: Noise) -> Option<f64> {
    let centre = |study: u64| method(&sample(noise, (1 << 41) + study, 500)).map(|[_, centre, _]| centre);
    if !Noise::SKEWED.contains(&noise) {
        return Some(0.0);
    }
    Some((0..200).map(centre).sum::<Option<f64>>()? / 200.0)
}

fn sample(noise: Noise, study: u64, blocks: usize) -> Vec<f64> {
    let mut source = Source::new(noise, study);
    (0..blocks).map(|_| source.block()).collect()
}

fn student(blocks: &[f64]) -> Option<[f64; 3]> {
    let n = blocks.len() as f64;
    let (centre, half) = (mean(blocks)?, student_two_sided(0.95, n - 1.0) * sd(blocks)? / n.sqrt());
    Some([centre - half, centre, centre + half])
}

/// Hodges and Lehmann's estimate with the interval that inverts Wilcoxon's exact test; `None` where 95 % is out of reach.
fn signed_rank(blocks: &[f64]) -> Option<[f64; 3]> {
    let n = blocks.len();
    let averages: Vec<f64> =
        (0..n).flat_map(|i| (i..n).map(move |j| (i, j))).map(|(i, j)| 0.5 * (blocks[i] + blocks[j])).collect();
    let mut chances = vec![0.0; averages.len() + 1];
    chances[0] = 1.0;
    if n > 60 {
        // for the truth alone, which takes the centre
        return centre(blocks).map(|centre| [centre; 3]);
    }
    for rank in 1..=n {
        for sum in (rank..chances.len()).rev() {
            chances[sum] = 0.5 * (chances[sum] + chances[sum - rank]);
        }
        chances[..rank].iter_mut().for_each(|chance| *chance *= 0.5);
    }
    let mut below = 0.0;
    let last = chances.iter().take_while(|chance| {
        below += **chance;
        below <= 0.025
    });
    let rank = last.count().checked_sub(1)?;
    let averages = sorted(&averages);
    Some([averages[rank], centre(blocks)?, averages[averages.len() - 1 - rank]])
}

/// Tukey & McLaughlin's (1963) t interval of the 20 % trimmed mean.
fn trimmed(blocks: &[f64]) -> Option<[f64; 3]> {
    let (n, cut) = (blocks.len() as f64, blocks.len() / 5);
    let ordered = sorted(blocks);
    let (least, most) = (ordered[cut], ordered[ordered.len() - 1 - cut]);
    let winsorized: Vec<f64> = blocks.iter().map(|block| block.clamp(least, most)).collect();
    let spread = sd(&winsorized)?;
    let kept = n - 2.0 * cut as f64;
    let half = student_two_sided(0.95, kept - 1.0) * spread * (n - 1.0).sqrt() / (kept * (kept - 1.0)).sqrt();
    let centre = trimmed_mean(blocks)?;
    Some([centre - half, centre, centre + half])
}
