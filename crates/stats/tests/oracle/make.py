"""Makes special.json, statistics.json and comparison.json: what scipy and numpy say, for the tests to compare with.

Run: python3 -m pip install scipy==1.17.1 && python3 make.py   (in this directory)
The tables are checked in, so the tests need neither Python nor scipy.
"""

import json

import numpy as np
from scipy import special, stats


def rows(function, *axes):
    grid = np.array(np.meshgrid(*axes, indexing="ij")).reshape(len(axes), -1).T
    return [[*map(float, point), float(function(*point))] for point in grid]


def write(name, tables):
    with open(name, "w") as out:
        out.write("{\n")
        parts = []
        for key, value in tables.items():
            body = ",\n".join("  " + json.dumps(row) for row in value)
            parts.append(f'"{key}": [\n{body}\n]')
        out.write(",\n".join(parts) + "\n}\n")


tails = [1e-6, 1e-4, 0.0005, 0.005, 0.025, 0.05, 0.1, 0.25, 0.4, 0.5, 0.6, 0.9, 0.975, 0.995, 0.9999]
freedoms = [1, 2, 2.5, 3, 4, 7.3, 9, 14, 29, 33, 99, 400, 10000]
write("special.json", {
    "ln_gamma": rows(special.gammaln, [0.1, 0.5, 1, 1.5, 2, 3.7, 10, 33.5, 171, 1e4, 1e6]),
    "beta_inc": rows(special.betainc, [0.5, 1, 2.5, 10, 200], [0.5, 3, 40, 1000], [1e-4, 0.01, 0.3, 0.5, 0.77, 0.999]),
    "normal_sf": rows(stats.norm.sf, [-8, -3, -1, -0.1, 0, 0.5, 1, 1.96, 2.4999, 2.5, 3, 5, 8, 20]),
    "normal_quantile": rows(stats.norm.ppf, tails),
    "student_sf": rows(stats.t.sf, [-3, -0.2, 0, 0.01, 0.7, 1, 2, 4.5, 12, 80], freedoms),
    "student_quantile": rows(stats.t.ppf, tails, freedoms),
    "binomial_cdf": [[k, n, p, float(stats.binom.cdf(k, n, p))]
                     for n in (1, 10, 34, 72, 368, 3688) for p in (0.05, 0.5, 0.95, 0.999)
                     for k in sorted({0, 1, n // 3, n // 2, int(n * p), n - 1, n})],
})


def samples():
    rng = np.random.default_rng(20240501)
    for n in (10, 11, 20, 35, 60):
        yield rng.normal(0.004, 0.01, n)
        yield rng.standard_t(3, n) * 0.01
        yield rng.exponential(0.02, n) - 0.015


def one(x):
    x = np.round(x, 9)
    n = len(x)
    walsh = [(x[i] + x[j]) / 2 for i in range(n) for j in range(i, n)]
    return {
        "x": x.tolist(), "mean": x.mean(), "sd": x.std(ddof=1), "median": float(np.median(x)),
        "hodges_lehmann": float(np.median(walsh)),
    }


def welch(seed, sizes):
    rng = np.random.default_rng(seed)
    a, b = (np.round(rng.normal(m, s, n), 9) for (n, m, s) in sizes)
    found = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    freedom = stats.ttest_ind(a, b, equal_var=False).df
    return {"a": a.tolist(), "b": b.tolist(), "lo": float(found.low), "hi": float(found.high), "freedom": float(freedom)}


def discoveries(seed, m, strong):
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.uniform(0, 1, m - strong), rng.uniform(0, 0.01, strong)])
    return {"p": p.tolist(), "found": int((stats.false_discovery_control(p) <= 0.05).sum())}


write("statistics.json", {
    "samples": [one(x) for x in samples()],
    "welch": [welch(1, [(3, 0, 1), (3, 1, 1)]), welch(2, [(5, 0, 0.1), (4, 0, 2)]), welch(3, [(9, 2, 1), (3, 0, 0.5)])],
    "discoveries": [discoveries(s, m, k) for s, m, k in [(1, 1, 1), (2, 10, 0), (3, 20, 4), (4, 50, 30), (5, 7, 7)]],
})


# The estimate of src/location.rs written a second time, from its documentation and by brute force.
def long_run(x):
    n, t = len(x), np.arange(1, len(x) + 1)
    nu = round(0.4 * n ** (2 / 3))
    waves = [np.sqrt(2 / n) * np.sum(x * np.cos(np.pi * j * (t - 0.5) / n)) for j in range(1, nu + 1)]
    return sum(w * w for w in waves) / nu, nu


def location(x):
    n = len(x)
    walsh = np.sort([(x[i] + x[j]) / 2 for i in range(n) for j in range(i, n)])
    at = lambda position: float(np.interp(position, np.arange(len(walsh)), walsh))
    middle, reach = len(walsh) / 2 - 0.5, stats.norm.ppf(0.9) * np.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    centre = float(np.median(walsh))
    pairs = x[:, None] + x[None, :]
    scores = np.mean(np.sign(np.where(np.abs(pairs - 2 * centre) <= 1e-9 * np.ptp(x), 0, pairs - 2 * centre)), axis=1) / 2
    if n >= 30:
        variance, freedom = long_run(scores)
    else:
        variance, freedom = np.mean(scores**2) / (1 - 1 / n**2), (0.8 if n <= 6 else 0.7) * (n - 1)
    fitted = {4: 0.755, 5: 0.762, 6: 0.825, 7: 0.827}.get(n, 1 - 1.1 / n)
    factor = 1.02 * fitted * np.sqrt(12 * variance) / stats.norm.ppf(0.9)
    below, above = factor * (centre - at(middle - reach)), factor * (at(middle + reach) - centre)
    t = stats.t.ppf(0.975, freedom)
    side = above if centre < 0 else below
    return {
        "x": x.tolist(), "centre": centre, "lo": float(centre - t * below), "hi": float(centre + t * above),
        "freedom": float(freedom), "p": float(2 * stats.t.sf(abs(centre) / side, freedom)),
    }


def blocks():
    rng = np.random.default_rng(7)
    for n in (4, 5, 6, 7, 8, 11, 20, 29, 30, 31, 60, 200):
        yield np.round(rng.normal(0.002, 0.01, n), 9)
        yield np.round(rng.exponential(0.02, n) - 0.015, 9)


def signed_rank(seed, n, shift):
    x = np.round(np.random.default_rng(seed).normal(shift, 1, n), 9)
    return {"x": x.tolist(), "p": float(stats.wilcoxon(x, alternative="greater", method="exact").pvalue)}


def split(seed, n, at, step):
    """The best split by energy distance, from all pairwise distances."""
    x = np.round(np.random.default_rng(seed).normal(0, 1, n) + step * (np.arange(n) >= at), 9)
    scores = {}
    for k in range(3, n - 2):
        a, b = x[:k], x[k:]
        cross = np.mean(np.abs(a[:, None] - b[None, :]))
        inside = [np.sum(np.abs(s[:, None] - s[None, :])) / (len(s) * (len(s) - 1)) for s in (a, b)]
        scores[k] = k * (n - k) / n * (2 * cross - sum(inside))
    return {"x": x.tolist(), "at": max(scores, key=scores.get)}


trials = [np.round(np.random.default_rng(s).standard_t(2, n), 9) for s, n in [(1, 5), (2, 9), (3, 10), (4, 20), (5, 51)]]
series = [np.round(np.cumsum(np.random.default_rng(s).normal(0, 1, n)) * 0.1, 9) for s, n in [(1, 30), (2, 77), (3, 200)]]
write("comparison.json", {
    "location": [location(x) for x in blocks()],
    "trimmed": [{"x": x.tolist(), "mean": float(stats.trim_mean(x, 0.2))} for x in trials],
    "long_run": [{"x": x.tolist(), "variance": float(long_run(x)[0]), "freedom": long_run(x)[1]} for x in series],
    "signed_rank": [signed_rank(s, n, d) for s, n, d in [(1, 4, 0), (2, 9, 0.5), (3, 20, 0.3), (4, 50, -0.1), (5, 200, 0.1)]],
    "split": [split(1, 8, 4, 4), split(2, 20, 13, 3), split(3, 60, 5, 4), split(4, 100, 80, 2)],
})
