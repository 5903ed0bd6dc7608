//! The pairings: what is measured compared with what, with which goal.

use crate::author::{Author, PASSES, WORDS as WORDS_OF_STREAM};
use crate::ours::{cpus, independent_loads, measure, passes, star};
use crate::peers::{Asked, Peers};
use crate::reached;
use crate::verdict::{NO_GOAL, line};
use crate::{Bench, Outcome};
use std::time::Duration;

/// One line of the bench.
pub struct Pairing {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it compares.
    pub help: &'static str,
    /// Seconds that it takes on a quiet machine: whole, and quick.
    seconds: [u64; 2],
    /// Measures it and gives its line.
    pub run: fn(&Bench) -> Outcome<String>,
}

impl Pairing {
    /// How long it takes on a quiet machine.
    pub fn lasts(&self, quick: bool) -> Duration {
        Duration::from_secs(self.seconds[usize::from(quick)])
    }
}

/// All pairings.
pub const ALL: &[Pairing] = &[
    Pairing {
        name: "packaged-peer",
        help: "the peer as built here / the packaged hpcc, the same tests: whether the build is a fair peer",
        seconds: [90, 45],
        run: packaged,
    },
    Pairing {
        name: "stream-reference",
        help: "triad, regular stores, each rank in arrays of its own / StarSTREAM, all cores",
        seconds: [70, 25],
        run: |bench| stream(bench, &["regular"]),
    },
    Pairing {
        name: "stream-best",
        help: "triad, the better of regular and non-temporal stores, each rank in arrays of its own / StarSTREAM, all cores",
        seconds: [110, 30],
        run: |bench| stream(bench, &["regular", "non-temporal"]),
    },
    Pairing {
        name: "stream-author-copy",
        help: "copy, all threads on shared arrays / stream.c (STREAM_C=FILE, else Debian's), the same arrays, threads, pages, passes",
        seconds: [60, 15],
        run: |bench| author(bench, "copy"),
    },
    Pairing {
        name: "stream-author-scale",
        help: "the same of scale",
        seconds: [60, 15],
        run: |bench| author(bench, "scale"),
    },
    Pairing {
        name: "stream-author-add",
        help: "the same of add",
        seconds: [60, 15],
        run: |bench| author(bench, "add"),
    },
    Pairing {
        name: "stream-author-triad",
        help: "the same of triad",
        seconds: [60, 15],
        run: |bench| author(bench, "triad"),
    },
    Pairing {
        name: "random-access-reference",
        help: "reference variant / StarRandomAccess, all cores, 2 MiB pages",
        seconds: [80, 30],
        run: random_access,
    },
    Pairing {
        name: "random-access-optimized",
        help: "optimized variant / reference variant, all cores, 2 MiB pages",
        seconds: [30, 10],
        run: optimized,
    },
    Pairing {
        name: "random-access-limit",
        help: "optimized variant / as many independent random loads: the share of the machine's limit",
        seconds: [30, 10],
        run: share_of_limit,
    },
    Pairing { name: "dgemm", help: "one core / OpenBLAS on one core", seconds: [60, 25], run: dgemm },
    Pairing {
        name: "dgemm-of-peak",
        help: "one core / multiply-adds in registers: the share of the processor's peak; the goal is 0.97",
        seconds: [30, 12],
        run: dgemm_of_peak,
    },
    Pairing {
        name: "hpl",
        help: "all cores / HPL with OpenBLAS, its best NB of 128, 192 and 256; the goal is 1.2",
        seconds: [260, 50],
        run: hpl,
    },
    Pairing {
        name: "microvm-start",
        help: "from the request to the end of a microVM's first region, 2 MiB tables; the limit is 10 ms",
        seconds: [2, 1],
        run: reached::start,
    },
    Pairing {
        name: "microvm-random-access",
        help: "what precision random access 2m / 2m reaches within 60 s; the goal is +-2 %",
        seconds: [62, 62],
        run: reached::random_access,
    },
    Pairing {
        name: "microvm-fma",
        help: "what precision the control reaches within 20 s; the goal is +-0.5 %",
        seconds: [22, 22],
        run: reached::fma,
    },
    Pairing {
        name: "report",
        help: "analysis and HTML report of a run of 1,000,000 samples; the limits are 2 s and 500 MB",
        seconds: [60, 60],
        run: reached::report,
    },
];

fn peers(bench: &Bench) -> Outcome<&Peers> {
    Ok(bench
        .peers
        .as_ref()
        .ok_or("the peers are not built; `make bench` does it, or set BAREMARK_PEERS to their folder")?)
}

/// Both sides by turns, the order changing from round to round.
fn turns(
    rounds: u64,
    mut ours: impl FnMut(u64) -> Outcome<f64>,
    mut peers: impl FnMut(u64) -> Outcome<f64>,
) -> Outcome<Vec<(f64, f64)>> {
    let mut all = Vec::new();
    for round in 0..rounds {
        all.push(if round % 2 == 0 {
            let first = ours(round)?;
            (first, peers(round)?)
        } else {
            let first = peers(round)?;
            (ours(round)?, first)
        });
    }
    Ok(all)
}

/// So many rounds of both sides as a line, with `goal` as the least ratio.
fn paired(
    rounds: u64,
    (unit, goal): (&str, Option<f64>),
    ours: impl FnMut(u64) -> Outcome<f64>,
    theirs: impl FnMut(u64) -> Outcome<f64>,
) -> Outcome<String> {
    line(&turns(rounds, ours, theirs)?, unit, goal)
}

/// The size of the peers' HPL from which they derive all others.
fn size(bench: &Bench) -> u64 {
    if bench.quick { 6000 } else { 8000 }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of words")]
fn whole(value: f64) -> u64 {
    value as u64
}

/// Both sides are star tests: each rank has arrays of its own, its best pass counts, and the ranks' rates are added up. Rounds
/// are short, and what neighbours take of the memory's bandwidth comes and goes within seconds, so there are many.
fn stream(bench: &Bench, variants: &[&str]) -> Outcome<String> {
    let (peers, ranks) = (peers(bench)?, cpus()?.len());
    let asked = Asked { test: "StarStream", processes: ranks, n: size(bench), nb: 192 };
    let words = whole(peers.run(asked)?.value("STREAM_VectorSize")?);
    let ours = |round| {
        let triad = |variant: &&str| {
            let settings = [("array", format!("{} B", words / 8 * 64)), ("variant", (*variant).to_owned())];
            let settings = settings.into_iter().chain([("small", "true".to_owned())]).collect::<Vec<_>>();
            star("stream", &settings, ranks, "triad_mb_per_s", round)
        };
        let rates = variants.iter().map(triad).collect::<Outcome<Vec<f64>>>()?;
        Ok(rates.into_iter().fold(0.0, f64::max))
    };
    #[expect(clippy::cast_precision_loss, reason = "few ranks")]
    let theirs = |_| Ok(1e3 * ranks as f64 * peers.run(asked)?.value("StarSTREAM_Triad")?);
    let found = paired(2 * bench.rounds, ("MB/s", Some(1.0)), ours, theirs)?;
    Ok(format!("{found}  {words} words a rank, {ranks} ranks"))
}

/// Both sides run all four kernels in turn over arrays that all threads share, and the best pass of each counts.
fn author(bench: &Bench, kernel: &str) -> Outcome<String> {
    let (folder, ranks) = (peers(bench)?.folder(), cpus()?.len());
    let author = Author::build(folder)?;
    let metric = format!("{kernel}_mb_per_s");
    let settings = [("array", format!("{} B", WORDS_OF_STREAM * 8)), ("small", "true".to_owned())];
    let ours = |round| passes("stream", &settings, (ranks, PASSES - 1), &metric, round);
    let found = paired(2 * bench.rounds, ("MB/s", Some(1.0)), ours, |_| author.rate(kernel, ranks))?;
    Ok(format!(
        "{found}  {WORDS_OF_STREAM} words an array, {ranks} threads, best of {PASSES} passes; {}",
        author.source
    ))
}

fn gups(variant: &str, words: u64, ranks: usize, round: u64) -> Outcome<f64> {
    let settings = [("table", format!("{} B", words * 8 * ranks as u64)), ("variant", variant.to_owned())];
    measure("random-access", &settings, ranks, "gups", round)
}

fn random_access(bench: &Bench) -> Outcome<String> {
    let (peers, ranks) = (peers(bench)?, cpus()?.len());
    let asked = Asked { test: "StarRandomAccess", processes: ranks, n: size(bench), nb: 192 };
    let words = whole(peers.run(asked)?.value("RandomAccess_N")?);
    let ours = |round| gups("reference", words, ranks, round);
    let theirs = |_| peers.run(asked)?.value("StarRandomAccess_GUPs");
    let found = paired(bench.rounds, ("GUP/s", Some(1.0)), ours, theirs)?;
    Ok(format!("{found}  {words} words a rank, {ranks} ranks"))
}

/// Words of a rank's table where there is no peer to follow.
const WORDS: u64 = 1 << 24;

fn optimized(bench: &Bench) -> Outcome<String> {
    let ranks = cpus()?.len();
    let of = |variant| move |round| gups(variant, WORDS, ranks, round);
    let found = paired(bench.rounds, ("GUP/s", Some(1.25)), of("optimized"), of("reference"))?;
    Ok(format!("{found}  {WORDS} words a rank, {ranks} ranks"))
}

fn share_of_limit(bench: &Bench) -> Outcome<String> {
    let (ranks, words) = (cpus()?.len(), usize::try_from(WORDS)?);
    let ours = |round| gups("optimized", WORDS, ranks, round);
    let found = paired(bench.rounds, ("G/s", None), ours, |round| independent_loads(words, ranks, round))?;
    Ok(format!("{found}  {WORDS} words a rank, {ranks} ranks"))
}

fn dgemm(bench: &Bench) -> Outcome<String> {
    let peers = peers(bench)?;
    let asked = Asked { test: "StarDGEMM", processes: 1, n: size(bench) * 3 / 4, nb: 192 };
    let order = whole(peers.run(asked)?.value("DGEMM_N")?);
    let ours = |round| measure("dgemm", &[("n", order.to_string())], 1, "gflops", round);
    let theirs = |_| peers.run(asked)?.value("StarDGEMM_Gflops");
    let found = paired(bench.rounds, ("GFLOP/s", Some(1.0)), ours, theirs)?;
    Ok(format!("{found}  n = {order}, OpenBLAS for {}", peers.core()))
}

fn dgemm_of_peak(bench: &Bench) -> Outcome<String> {
    let order = if bench.quick { "2000" } else { "3000" };
    let ours = |round| measure("dgemm", &[("n", order.to_owned())], 1, "gflops", round);
    let peak = |round| measure("fma", &[], 1, "gflops", round);
    Ok(format!("{}  n = {order}", paired(bench.rounds, ("GFLOP/s", Some(0.97)), ours, peak)?))
}

fn hpl(bench: &Bench) -> Outcome<String> {
    let (peers, ranks) = (peers(bench)?, cpus()?.len());
    let n = if bench.quick { 3000 } else { 8000 };
    let theirs = |nb| Ok(1e3 * peers.run(Asked { test: "HPL", processes: ranks, n, nb })?.value("HPL_Tflops")?);
    let mut best = (0, 0.0);
    for nb in [128, 192, 256] {
        let rate: f64 = theirs(nb)?;
        if rate > best.1 {
            best = (nb, rate);
        }
    }
    let ours = |round| measure("hpl", &[("n", n.to_string())], ranks, "best_gflops", round);
    let found = paired(bench.rounds, ("GFLOP/s", Some(1.2)), ours, |_| theirs(best.0))?;
    Ok(format!("{found}  n = {n}, the peer's NB = {}, OpenBLAS for {}, {ranks} ranks", best.0, peers.core()))
}

/// Whether our build of the peer is one: its tests compared with those of the package, whose BLAS is whatever the system has.
fn packaged(bench: &Bench) -> Outcome<String> {
    let (peers, ranks) = (peers(bench)?, cpus()?.len());
    let asked = Asked { test: "all", processes: ranks, n: 2000, nb: 128 };
    let (built, packaged) = (peers.run_all(asked)?, peers.run_packaged(asked)?);
    let ratio = |name: &str| Ok(format!("{name} {:.3}", built.value(name)? / packaged.value(name)?));
    let names = ["StarSTREAM_Triad", "StarRandomAccess_GUPs", "StarDGEMM_Gflops", "HPL_Tflops"];
    let ratios = names.into_iter().map(ratio).collect::<Outcome<Vec<String>>>()?;
    Ok(format!("built / packaged, one run each: {}  {NO_GOAL}; OpenBLAS for {}", ratios.join(", "), peers.core()))
}
