//! Special functions: what intervals and tests are made of.
//!
//! Written out here instead of taken from a crate, so that a quantile is the same number in every build; checked
//! against tables made with scipy (`tests/oracle`). Relative errors are below 1e-10 in the range the crate uses.

use std::cell::Cell;
use std::f64::consts::PI;

/// ln Γ(x) for x > 0. Lanczos' series with g = 7 and nine terms (Lanczos 1964; coefficients of Godfrey 2001).
pub fn ln_gamma(x: f64) -> f64 {
    if x < 0.5 {
        return (PI / (PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum = LANCZOS[1..].iter().zip(1..).fold(LANCZOS[0], |sum, (c, i)| sum + c / (x + f64::from(i)));
    let t = x + 7.5;
    0.5 * (2.0 * PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Regularised incomplete beta function I_x(a, b), a and b > 0, 0 <= x <= 1.
/// Continued fraction by Lentz' method (Abramowitz & Stegun 26.5.8).
pub fn beta_inc(a: f64, b: f64, x: f64) -> f64 {
    beta_inc_split(a, b, x, 1.0 - x)
}

/// [`beta_inc`] for a caller that knows 1 - x more exactly than a subtraction would give it.
fn beta_inc_split(a: f64, b: f64, x: f64, complement: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if complement <= 0.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * complement.ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, complement) / b
    }
}

/// The continued fraction of the incomplete beta function.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for m in 1..FRACTION_STEPS {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        h *= d * c;
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    h
}

/// Upper tail 1 - Φ(z) of the standard normal distribution, exact in the far tail too.
/// Series for |z| < 2.5, continued fraction beyond (Abramowitz & Stegun 26.2.10 and 26.2.14).
pub fn normal_sf(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - normal_sf(-z);
    }
    let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
    if z < 2.5 {
        let (mut term, mut sum, mut k) = (z, z, 1.0);
        while term.abs() > 1e-18 {
            k += 2.0;
            term *= z * z / k;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    let tail = (1..=160).rev().fold(z, |below, k| z + f64::from(k) / below);
    density / tail
}

/// Quantile of the standard normal distribution, 0 < p < 1 (±∞ at the ends).
/// Start from Abramowitz & Stegun 26.2.23, then Newton steps on the nearer tail.
pub fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    let t = (-2.0 * p.ln()).sqrt();
    let mut z =
        t - (2.515_517 + t * (0.802_853 + t * 0.010_328)) / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)));
    for _ in 0..4 {
        let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
        z += (normal_sf(z) - p) / density;
    }
    -z
}

/// Upper tail of Student's t with `df` > 0 degrees of freedom (need not be whole).
pub fn student_sf(t: f64, df: f64) -> f64 {
    if t < 0.0 {
        return 1.0 - student_sf(-t, df);
    }
    let square = t * t;
    0.5 * beta_inc_split(0.5 * df, 0.5, df / (df + square), square / (df + square))
}

/// Quantile of Student's t, 0 < p < 1, by Newton steps kept inside a bracket, from the expansion of
/// Abramowitz & Stegun 26.7.5.
pub fn student_quantile(p: f64, df: f64) -> f64 {
    if p < 0.5 {
        return -student_upper(p, df);
    }
    student_upper(1.0 - p, df)
}

/// The factor t with P(|T| > t) = 1 - confidence: what a two-sided t interval multiplies its standard error by.
pub fn student_two_sided(confidence: f64, df: f64) -> f64 {
    student_upper(0.5 * (1.0 - confidence), df)
}

/// t >= 0 with upper tail `tail` <= 1/2.
fn student_upper(tail: f64, df: f64) -> f64 {
    if tail >= 0.5 {
        return 0.0;
    }
    if tail <= 0.0 {
        return f64::INFINITY;
    }
    let asked = [tail.to_bits(), df.to_bits()];
    let place = (asked[0] ^ asked[1].rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    SOLVED.with(|solved| {
        let place = &solved[place as usize];
        match place.get() {
            (of, t) if of == asked => t,
            _ => {
                let t = solve_upper(tail, df);
                place.set((asked, t));
                t
            }
        }
    })
}

thread_local! {
    /// Quantiles that were found last, with the bits of their tail and degrees of freedom: the ratios of a study ask for the same ones again and
    /// again, and each takes microseconds. At first all are of the tail 0, which is not looked up.
    static SOLVED: [Cell<([u64; 2], f64)>; 64] = const { [const { Cell::new(([0; 2], 0.0)) }; 64] };
}

/// [`student_upper`] of a tail between 0 and 1/2.
fn solve_upper(tail: f64, df: f64) -> f64 {
    let z = -normal_quantile(tail);
    let (mut lo, mut hi) = (0.0, f64::MAX.sqrt());
    let ln_scale = ln_gamma(0.5 * (df + 1.0)) - ln_gamma(0.5 * df) - 0.5 * (df * PI).ln();
    let mut t = z + (z.powi(3) + z) / (4.0 * df) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * df * df);
    for _ in 0..200 {
        let excess = student_sf(t, df) - tail;
        if excess > 0.0 {
            lo = t;
        } else {
            hi = t;
        }
        let density = (ln_scale - 0.5 * (df + 1.0) * (t * t / df).ln_1p()).exp();
        let newton = t + excess / density;
        let next = if newton > lo && newton < hi.min(2.0 * t) { newton } else { (2.0 * t).min(0.5 * (lo + hi)) };
        if (next - t).abs() <= 1e-13 * t {
            return next;
        }
        t = next;
    }
    t
}

/// P(X <= k) of a binomial variable of `n` draws with chance `p`; 0 for k < 0.
pub fn binomial_cdf(k: i64, n: u64, p: f64) -> f64 {
    if k < 0 {
        return 0.0;
    }
    if k as u64 >= n {
        return 1.0;
    }
    beta_inc_split(n as f64 - k as f64, k as f64 + 1.0, 1.0 - p, p)
}

const TINY: f64 = 1e-300;
const FRACTION_STEPS: u32 = 20_000;
const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];
