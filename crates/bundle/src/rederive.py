"""Derives the ratios and estimates in result.json again from trials.json: python3 rederive.py BUNDLE"""
import json, math, re, statistics, sys, tarfile
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
    few = re.search(r"(^|_)(p\d\d+|median|max)(_|$)", metric) and len(v) < sum(p["arm"] == arm for p in t["result"]["series"])
    if not v or few: return None  # a percentile of a trial is one of each of its phases
    return math.exp(summary([math.log(x) for x in v])) if len(v) > 4 and min(v) > 0 else summary(v)
def paired(t, below, above, metric):  # ln(above / below): of quads ABBA where the arms took turns, else of the values
    r, log = t["result"], lambda v: statistics.fmean(map(math.log, v))
    out = {d["quad"] for d in r.get("discarded", [])}
    quads = [[phases(r["series"][q:q + 4], arm, metric) for arm in (below, above)] for q in range(0, len(r["series"]) - 3, 4) if q // 4 not in out]
    quads = [log(b) - log(a) for a, b in quads if len(a) == len(b) == 2]
    under, over = value(t, below, metric), value(t, above, metric)
    return summary(quads) if quads else math.log(over / under) if under and over else None
arms = [(t, [a["treatment"] for a in row["arms"]]) for t, row in zip(trials, result["trials"]) if t["status"] == "ok"]
def check(what, ours, printed):
    print(f"{'ok  ' if math.isclose(ours, printed, rel_tol=1e-9) else 'DIFFERS'} {what} {ours:.6g} printed {printed:.6g}")
def average(v):  # of what is positive on the log scale
    return math.exp(centre([math.log(x) for x in v])) if min(v) > 0 else centre(v)
def values(e, metric):
    return [value(t, k, metric) for t, have in arms for k, treatment in enumerate(have) if treatment == e["treatment"]]
def estimate(e):
    if "over" not in e: return average([x for x in values(e, e["metric"]) if x is not None])
    base = next(b for b in result["estimates"] if b["metric"] == e["over"] and b["treatment"] == e["treatment"])
    both = zip(values(e, e["metric"]), values(e, e["over"]))  # a percentile that some trials lack: by its quotient to the one below
    return estimate(base) * average([x / y for x, y in both if x is not None and y is not None])
for e in result["estimates"]: check(f"{e['metric']} {e['treatment']}", estimate(e), e["estimate"])
for r in (r for r in result["ratios"] if r["ratio"] is not None):
    below, above, m = r["relative_to"], r["treatment"], r["metric"]
    logs = [paired(t, have.index(below), have.index(above), m) for t, have in arms if below in have and above in have and below != above]
    logs = [x for x in logs if x is not None]
    if not logs:  # the arms ran in trials of their own: one observation for each block that has both, of the mean logarithm of all trials of each
        def of(arm):
            found = {}
            for t, have in arms:
                if arm in have and (v := value(t, have.index(arm), m)): found.setdefault(t["block"], []).append(math.log(v))
            return {block: statistics.fmean(v) for block, v in found.items()}
        base, other = of(below), of(above)
        logs = [other[b] - base[b] for b in sorted(base.keys() & other.keys())]
    if logs and below != above: check(f"{m} {above} / {below}", math.exp(centre(logs)), r["ratio"])
