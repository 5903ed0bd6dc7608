"""Makes special.json and statistics.json: what scipy says, for the tests to compare with.

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
    "erf": rows(special.erf, [-2, -0.3, 0, 0.1, 0.5, 1, 2, 3]),
})


def samples():
    rng = np.random.default_rng(20240501)
    for n in (10, 11, 20, 35, 60):
        yield rng.normal(0.004, 0.01, n)
        yield rng.standard_t(3, n) * 0.01
        yield rng.exponential(0.02, n) - 0.015


def wilcoxon_rank(n, confidence):
    """Rank of the Walsh average that ends the interval, from the exact distribution of the signed-rank sum."""
    counts = np.array([1.0])
    for rank in range(1, n + 1):
        longer = np.zeros(len(counts) + rank)
        longer[: len(counts)] += counts
        longer[rank:] += counts
        counts = longer
    below = np.cumsum(counts) / counts.sum()
    return int(np.searchsorted(below, (1 - confidence) / 2, side="right"))


def one(x):
    x = np.round(x, 9)
    n, confidence = len(x), 0.95
    t = stats.t.interval(confidence, n - 1, x.mean(), stats.sem(x))
    k = int(stats.binom.ppf((1 - confidence) / 2, n, 0.5))  # first k with cdf >= tail: ranks k .. n+1-k
    order = np.sort(x)
    walsh = np.sort([(x[i] + x[j]) / 2 for i in range(n) for j in range(i, n)])
    rank = wilcoxon_rank(n, confidence)
    return {
        "x": x.tolist(),
        "mean": x.mean(), "sd": x.std(ddof=1), "t": list(map(float, t)), "t_p": float(stats.ttest_1samp(x, 0).pvalue),
        "median": float(np.median(x)), "median_interval": [order[k - 1], order[n - k]],
        "median_coverage": float(1 - 2 * stats.binom.cdf(k - 1, n, 0.5)),
        "sign_p": float(stats.binomtest(int((x > 0).sum()), n).pvalue),
        "skewness": float(stats.skew(x)), "skewness_p": float(stats.skewtest(x).pvalue),
        "hl": [float(np.median(walsh)), walsh[rank - 1], walsh[len(walsh) - rank]],
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


def quantile(seed, n, p):
    x = np.round(np.random.default_rng(seed).exponential(1.0, n), 9)
    found = stats.quantile_test(x, p=p).confidence_interval(0.95)
    return {"x": x.tolist(), "p": p, "lo": float(found.low), "hi": float(found.high)}


write("statistics.json", {
    "samples": [one(x) for x in samples()],
    "welch": [welch(1, [(3, 0, 1), (3, 1, 1)]), welch(2, [(5, 0, 0.1), (4, 0, 2)]), welch(3, [(9, 2, 1), (3, 0, 0.5)])],
    "discoveries": [discoveries(s, m, k) for s, m, k in [(1, 1, 1), (2, 10, 0), (3, 20, 4), (4, 50, 30), (5, 7, 7)]],
    "quantile": [quantile(1, 72, 0.95), quantile(2, 368, 0.99), quantile(3, 200, 0.5), quantile(4, 100, 0.05)],
})
