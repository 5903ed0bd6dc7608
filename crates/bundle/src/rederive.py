"""Derives the ratios and estimates in result.json again from trials.json: python3 rederive.py BUNDLE"""
import json, math, statistics, sys, tarfile
with tarfile.open(sys.argv[1]) as tar:
    trials, result = (json.load(tar.extractfile(name)) for name in ("trials.json", "result.json"))
def summary(v):  # the 20 % trimmed mean of five or more values, else the median
    v, cut = sorted(v), len(v) // 5 if len(v) > 4 else (len(v) - 1) // 2
    return statistics.fmean(v[cut:len(v) - cut])
def centre(v):  # Hodges-Lehmann: the median of the means of all pairs
    return statistics.median((a + b) / 2 for i, a in enumerate(v) for b in v[i:])
def phases(series, arm, metric):
    return [s["value"] for p in series if p["arm"] == arm for s in p["samples"] if s["metric"] == metric]
def value(t, arm, metric):  # of one arm of one trial
    v = phases(t["result"]["series"], arm, metric)
    if not v: return None
    return math.exp(summary([math.log(x) for x in v])) if len(v) > 4 and min(v) > 0 else summary(v)
def paired(t, below, above, metric):  # ln(above / below): of quads ABBA where the arms took turns, else of the values
    r, log = t["result"], lambda v: statistics.fmean(map(math.log, v))
    out = {d["quad"] for d in r.get("discarded", [])}
    quads = [[phases(r["series"][q:q + 4], arm, metric) for arm in (below, above)] for q in range(0, len(r["series"]) - 3, 4) if q // 4 not in out]
    quads = [log(b) - log(a) for a, b in quads if len(a) == len(b) == 2]
    return summary(quads) if quads else math.log(value(t, above, metric) / value(t, below, metric))
arms = [(t, [a["treatment"] for a in row["arms"]]) for t, row in zip(trials, result["trials"]) if t["status"] == "ok"]
def check(what, ours, printed):
    print(f"{'ok  ' if math.isclose(ours, printed, rel_tol=1e-9) else 'DIFFERS'} {what} {ours:.6g} printed {printed:.6g}")
for e in result["estimates"]:
    v = [value(t, k, e["metric"]) for t, have in arms for k, treatment in enumerate(have) if treatment == e["treatment"]]
    check(f"{e['metric']} {e['treatment']}", centre([x for x in v if x is not None]), e["estimate"])
for r in (r for r in result["ratios"] if r["ratio"] is not None):
    below, above, m = r["relative_to"], r["treatment"], r["metric"]
    logs = [paired(t, have.index(below), have.index(above), m) for t, have in arms if below in have and above in have and below != above]
    if not logs:  # the arms ran in trials of their own: one observation for each block that has both
        of = lambda arm: {t["block"]: value(t, have.index(arm), m) for t, have in reversed(arms) if arm in have}
        base, other = of(below), of(above)
        logs = [math.log(other[b] / base[b]) for b in sorted(base.keys() & other.keys())]
    if logs and below != above: check(f"{m} {above} / {below}", math.exp(centre(logs)), r["ratio"])
