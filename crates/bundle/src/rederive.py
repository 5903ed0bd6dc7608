"""Derives every estimate, ratio and interval in result.json again, from the phases in trials.json: python3 rederive.py BUNDLE

It shares no code with baremark and needs Python 3 alone; docs/statistics.md has the method. It ends with 1 where a digit differs. Of what is in
the bundle it takes trials.json and, of the plan in run.json, which arms and pairs there are, the design and the number of extensions."""
import base64, collections, json, math, re, statistics, sys, tarfile
from functools import lru_cache
with tarfile.open(sys.argv[1]) as tar:
    trials, result, run = (json.load(tar.extractfile(name)) for name in ("trials.json", "result.json", "run.json"))
plan, mean, median = run["plan"], statistics.fmean, statistics.median
arms, pairs, cells = plan["arms"], plan["pairs"], plan["cells"]
# 1. Quads and trials: the 20 % trimmed mean of five or more values, else the median.
def summary(v):
    v, cut = sorted(v), len(v) // 5 if len(v) > 4 else (len(v) - 1) // 2
    return mean(v[cut:len(v) - cut])
def arms_of(trial):  # the plan's arms of a trial, the denominator first
    (kind, index), = cells[trial["cell"]].items()
    return [index] if kind == "single" else [pairs[index]["denominator"], pairs[index]["numerator"]]
def sample(samples, metric): return next((s["value"] for s in samples if s["metric"] == metric), None)
def present(values): return [x for x in values if x is not None]
def phases(series, place, metric): return present(sample(p["samples"], metric) for p in series if p["arm"] == place)
def percentile(metric):  # the distribution and the share that the metric's name has, or None
    parts = metric.split("_")
    for i, part in enumerate(parts):
        if (found := re.fullmatch(r"p(\d\d)(\d*)", part)) or part in ("median", "max"):
            more = found and not found[2] and i + 1 < len(parts) and parts[i + 1].isdigit()
            share = (float(f"{found[1]}.{parts[i + 1] if more else found[2]}0") if found else {"median": 50.0, "max": 100.0}[part])
            rest = parts[:i] + parts[i + (2 if more else 1):]
            if rest: return "_".join(rest), share
def complete(values, metric, of): return values if len(values) == of or not percentile(metric) else []  # a percentile is one of every phase
def counts(text):  # HdrHistogram's V2 format: latencies in ns, the longest of each slot, and how often each was seen
    b, i, slot, found = base64.b64decode(text), 40, 0, collections.Counter()
    half = {2: 7, 3: 10}[b[15]]
    while i < len(b):
        v = n = 0
        while n == 0 or (b[i - 1] > 127 and n < 9):
            v, i, n = v | (b[i] if n == 8 else b[i] & 127) << 7 * n, i + 1, n + 1
        v = v >> 1 ^ -(v & 1)
        if v < 0:
            slot -= v
            continue
        top, sub = slot >> half, slot & (1 << half) - 1
        found[sub if top == 0 else (sub + (1 << half) + 1 << top - 1) - 1] += v
        slot += 1
    return found
known_distributions = {}
def distribution(t, place, of):
    key = id(t), place, of
    if key not in known_distributions: known_distributions[key] = read_distribution(t, place, of)
    return known_distributions[key]
def read_distribution(t, place, of):  # all samples of one arm of one trial; None where a phase has percentiles without them
    found = collections.Counter()
    for p in (p for p in t["result"]["series"] if p["arm"] == place):
        own = [q["histogram"] for q in p.get("points", []) if of in q.get("distributions", []) and "histogram" in q]
        if p.get("members") or not own and any((percentile(s["metric"]) or [""])[0] == of for s in p["samples"]): return None
        for text in own: found.update(counts(text))
    return found
def value_at(found, share):  # in ns
    left = max(1, math.ceil(share * sum(found.values()) - 1e-9))
    for ns in sorted(found):
        left -= found[ns]
        if left <= 0: return ns
def unit_ns(of): return {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}.get(of.split("_")[-1])
def percentile_of(found, metric):  # None where the largest of so many samples does not bound it
    (of, share), n = percentile(metric), sum(found.values())
    share /= 100
    if n == 0 or 0 < share < 1 and max(share, 1 - share) ** n > 0.025: return None
    return value_at(found, share) / unit_ns(of)
def moments(found, of):  # mean and standard deviation, in the unit of the distribution's name
    n = sum(found.values())
    middle = sum(ns * count for ns, count in found.items()) / n
    squares = sum(count * (ns - middle) ** 2 for ns, count in found.items())
    return [middle / unit_ns(of), math.sqrt(squares / (n - 1)) / unit_ns(of) if n > 1 else None]
def counting(t, place):  # phases of an arm but for those of quads that do not count
    out = {d["quad"] for d in t["result"].get("discarded", [])}
    return [p for i, p in enumerate(t["result"]["series"]) if p["arm"] == place and i // 4 not in out]
def value(t, place, metric):  # of one arm of one trial; a percentile of all samples of the trial where they are known
    known = distribution(t, place, percentile(metric)[0]) if percentile(metric) else None
    if known is not None: return percentile_of(known, metric)
    of = counting(t, place)
    v = complete(present(sample(p["samples"], metric) for p in of), metric, len(of))
    if len(v) > 4 and min(v) > 0: return math.exp(summary([math.log(x) for x in v]))
    return summary(v) if v else None
def member(t, place, metric, which):  # of one member of an ensemble: the median over phases
    of = counting(t, place)
    v = complete(present(sample(p["members"][which]["samples"], metric) for p in of if which < len(p.get("members", []))), metric, len(of))
    return median(v) if v else None
counted = [t for t in trials if t["status"] == "ok" and t["result"]]
def places(arm): return [(t, place) for t in counted for place, of in enumerate(arms_of(t)) if of == arm]
# 2. The estimate over blocks and its interval, from the averages of all pairs of values.
class Estimate:
    def __init__(self, values):
        n, v = len(values), sorted(values)
        walsh = sorted((x + y) / 2 for i, x in enumerate(v) for y in v[i:])
        def at(position):
            position = min(max(position, 0), len(walsh) - 1)
            low, share = int(position), position - int(position)
            return walsh[low] + share * (walsh[min(low + 1, len(walsh) - 1)] - walsh[low])
        middle = len(walsh) / 2 - 0.5
        self.centre, self.n = at(middle), n
        if n < 4: return
        reach = Z80 * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        tie = 1e-9 * (v[-1] - v[0])
        scores = [sum((d := x + y - 2 * self.centre) > tie or 0.5 * (abs(d) <= tie) for y in v) / n - 0.5 for x in values]
        if n < 30:  # successive blocks are assumed to be independent
            variance, self.freedom = sum(s * s for s in scores) / n / (1 - 1 / n ** 2), (0.8 if n < 7 else 0.7) * (n - 1)
        else:  # the long-run variance by equal-weighted cosines
            self.freedom = int(0.4 * n ** (2 / 3) + 0.5)
            waves = (sum(s * math.cos(math.pi * j * (i + 0.5) / n) for i, s in enumerate(scores)) for j in range(1, self.freedom + 1))
            variance = sum(2 / n * w * w for w in waves) / self.freedom
        scale = 1.02 * {4: 0.755, 5: 0.762, 6: 0.825, 7: 0.827}.get(n, 1 - 1.1 / n) * math.sqrt(12 * variance) / Z80
        self.below, self.above = scale * (self.centre - at(middle - reach)), scale * (at(middle + reach) - self.centre)
    def interval(self, confidence):
        if self.n < 4: return None
        t = student(1 - confidence, self.freedom)
        return self.centre - t * self.below, self.centre + t * self.above
    def p_value(self):  # of the centre being 0
        error = self.below if self.centre > 0 else self.above
        return 1.0 if self.centre == 0 else beyond(abs(self.centre) / error, self.freedom) if error > 0 else 0.0
Z80 = statistics.NormalDist().inv_cdf(0.9)
def beyond(t, f):  # P(|T| > t) by the power series of the incomplete beta function (Abramowitz & Stegun 26.5.4) from the nearer end
    x, a, b = (f / (f + t * t), f / 2, 0.5) if t >= 1 else (t * t / (f + t * t), 0.5, f / 2)
    factor, total, k = 1.0, 0.0, 0
    while True:
        total, last = total + factor / (a + k), factor / (a + k)
        if abs(last) < 1e-17 * abs(total): break
        k += 1
        factor *= x * (k - b) / k
    share = total * math.exp(a * math.log(x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b))
    return share if t >= 1 else 1 - share
@lru_cache(None)
def student(tail, f):  # t with P(|T| > t) = tail, by bisection
    low, high = 0.0, 2.0
    while beyond(high, f) > tail: high *= 2
    for _ in range(80):
        half = (low + high) / 2
        low, high = (half, high) if beyond(half, f) > tail else (low, half)
    return high
# 3. Values: of what is positive on the log scale; percentiles that some trials lack by their quotient to the one below.
def amount(values):
    if all(x > 0 for x in values):
        e = Estimate([math.log(x) for x in values])
        own, limits = min(max(math.exp(e.centre), min(values)), max(values)), e.interval(0.95)
        limits = limits and tuple(map(math.exp, limits))
    else:
        e = Estimate(values)
        own, limits = e.centre, e.interval(0.95)
        if limits and min(values) >= 0: limits = max(limits[0], 0.0), limits[1]
    return own, limits and (min(limits[0], own), max(limits[1], own)), len(values)
def merged(m, samples):  # a percentile of all trials' samples together; its interval is, at each end, the wider of two
    everything, (of, share) = sum(samples, collections.Counter()), percentile(m)
    own = percentile_of(everything, m)
    if own is None: return None
    share, at, ends = share / 100, value_at(everything, share / 100), []
    in_unit = lambda share: value_at(everything, share) / unit_ns(of)
    # Of the share below it, which differs between trials (Woodruff 1952; Cochran 1977, section 9.7), on the logit scale.
    clusters = [(sum(n for ns, n in d.items() if ns <= at), sum(d.values())) for d in samples if d]
    if len(clusters) >= 4 and 0 < share < 1:
        total, number = sum(n for _, n in clusters), len(clusters)
        below = sum(b for b, _ in clusters) / total
        between = number / (number - 1) * sum(((b - below * n) / total) ** 2 for b, n in clusters)
        error = math.sqrt(max(between, share * (1 - share) / total))
        reach = student(0.05, number - 1) * error / (share * (1 - share))
        logit = math.log(share / (1 - share))
        ends.append(tuple(in_unit(1 / (1 + math.exp(-x))) for x in (logit - reach, logit + reach)))
    # Of the trials' own percentiles, longer where trials have unequal numbers of samples (Kish 1965, section 11.7).
    known = [(x, sum(d.values())) for d in samples if (x := percentile_of(d, m)) is not None]
    if known:
        centre, limits, _ = amount([x for x, _ in known])
        sizes = [n for _, n in known]
        longer = math.sqrt(len(sizes) * sum(n * n for n in sizes)) / sum(sizes)
        if limits and limits[0] > 0:
            low, high = own / math.exp(longer * math.log(centre / limits[0])), own * math.exp(longer * math.log(limits[1] / centre))
            ends.append((max(low, in_unit(0)), min(high, in_unit(1))))
    if not ends or not 0 < share < 1 or len(samples) < 4: return own, None, len(samples)  # the least and the largest of all move with their number
    return own, (min(own, *(low for low, _ in ends)), max(own, *(high for _, high in ends))), len(samples)
def of_all(metrics, here=()):  # {metric: one value or None for each trial}; here: those trials, with the arm's place in each
    found = {m: amount(present(v)) for m, v in metrics.items() if present(v)}
    families = {}
    for m in metrics:
        if percentile(m): families.setdefault(percentile(m)[0], []).append((percentile(m)[1], m))
    for of, family in families.items():
        samples = [distribution(t, place, of) for t, place in here]
        if samples and None not in samples and unit_ns(of):
            for _, m in family: found[m] = merged(m, samples)
    found = {m: of for m, of in found.items() if of}
    plain = {of: [pair for pair in family if pair[1] in found] for of, family in families.items()
             if not here or unit_ns(of) is None or None in [distribution(t, place, of) for t, place in here]}
    for family in map(sorted, filter(None, plain.values())):
        widest = max(found[m][2] for _, m in family)
        for (_, low), (_, high) in zip(family, family[1:]):
            if len(present(metrics[high])) == widest: continue
            both = [math.log(y / x) for x, y in zip(metrics[low], metrics[high]) if x is not None and y is not None]
            base = found.get(low)
            if not both or not base or base[0] <= 0:
                found.pop(high)
                continue
            quotient = Estimate(both)
            own, limits = base[0] * math.exp(quotient.centre), quotient.interval(0.95)
            if limits and base[1] and base[1][0] > 0:
                below = math.hypot(math.log(base[0] / base[1][0]), quotient.centre - limits[0])
                above = math.hypot(math.log(base[1][1] / base[0]), limits[1] - quotient.centre)
                found[high] = own, (own / math.exp(below), own * math.exp(above)), len(both)
            else: found[high] = own, None, len(both)
    return found
def whole(unit, found):  # a share ends at 100 %
    if not found: return None
    own, limits, n = found
    return (own, (limits[0], min(limits[1], 100.0)), n) if unit == "%" and limits and own <= 100 else found
# 4. What is printed, compared.
wrong = compared = 0
def check(what, ours, printed):
    global wrong, compared
    close = lambda a, b: a is None and b is None or None not in (a, b) and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    same = len(ours) == len(printed) and all(map(close, ours, printed))
    compared, wrong = compared + 1, wrong + (not same)
    figures = lambda v: " ".join("none" if x is None else f"{x:.6g}" for x in v)
    plain = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in what)  # names are others', and a terminal obeys what is in them
    print(f"{'ok  ' if same else 'DIFFERS'} {plain}: {figures(ours)}" + ("" if same else f", printed {figures(printed)}"))
def printed(row, key="estimate"): return [row[key], row["lo"], row["hi"], row["n"]]
def flat(found): return [found[0], *(found[1] or (None, None)), found[2]] if found else []
def name(treatment): return " ".join(treatment.values()) or "-"
for index, arm in enumerate(arms):
    here = places(index)
    rows = [r for r in result["estimates"] if r["treatment"] == arm["treatment"]]
    found = of_all({r["metric"]: [value(t, place, r["metric"]) for t, place in here] for r in rows}, here)
    for r in rows: check(f"{r['metric']} {name(arm['treatment'])}", flat(whole(r["unit"], found.get(r["metric"]))), printed(r))
    for r in (r for r in rows if r.get("mean") is not None):
        of = percentile(r["metric"])[0]
        everything = sum((distribution(t, place, of) for t, place in here), collections.Counter())
        check(f"mean and deviation of {of}, next to {r['metric']} {name(arm['treatment'])}", moments(everything, of), [r["mean"], r.get("sd")])
    rows = [r for r in result.get("members", []) if r["treatment"] == arm["treatment"]]
    for which in sorted({r["member"] for r in rows}):
        own = [r for r in rows if r["member"] == which]
        found = of_all({r["metric"]: [member(t, place, r["metric"], which) for t, place in here] for r in own})
        for r in own: check(f"{r['metric']} {name(arm['treatment'])}, member {which}", flat(whole(r["unit"], found.get(r["metric"]))), printed(r))
    for r in (r for r in result.get("fairness", []) if r["treatment"] == arm["treatment"]):  # Jain's index of each trial
        indexes = []
        for t, place in here:
            v = [member(t, place, r["metric"], which) for which in range(r["members"])]
            if None not in v and sum(x * x for x in v) > 0: indexes.append(sum(v) ** 2 / (len(v) * sum(x * x for x in v)))
        e = Estimate(indexes)
        limits = e.interval(0.95)
        check(f"fairness of {r['metric']} {name(arm['treatment'])}", flat((e.centre, limits and (max(limits[0], 0.0), min(limits[1], 1.0)), e.n)), printed(r))
# 5. Ratios: of the quads where both arms took turns in a trial, else one a block of the values. Judged together by Benjamini & Hochberg, with the
# intervals of Benjamini & Yekutieli; each extension of the run left a third of the error rate.
def quads(t, below, above, metric):  # ln(above / below) of each group of four phases A B B A; none where one of them lacks a positive value
    series, out, found = t["result"]["series"], {d["quad"] for d in t["result"].get("discarded", [])}, []
    for q in (q for q in range(len(series) // 4) if q not in out):
        a, b = (phases(series[4 * q:4 * q + 4], place, metric) for place in (below, above))
        if not len(a) == len(b) == 2 or min(a + b) <= 0: return []
        found.append(mean(map(math.log, b)) - mean(map(math.log, a)))
    return found
def logs(pair, metric):
    together = {"pair": pair} in cells and pairs[pair].get("interleaved", True)
    sides, found = [{}, {}], []
    for t in sorted(counted, key=lambda t: t["place"]):
        for side, arm in enumerate((pairs[pair]["denominator"], pairs[pair]["numerator"])):
            if together and cells[t["cell"]] == {"pair": pair}: sides[side].setdefault(t["block"], []).append((t, side))
            if not together and arm in arms_of(t): sides[side].setdefault(t["block"], []).append((t, arms_of(t).index(arm)))
    for block in sorted(sides[0].keys() & sides[1].keys()):
        (a, *more), (b, *others) = sides[0][block], sides[1][block]
        of_quads = quads(a[0], a[1], b[1], metric) if a[0] is b[0] and not more and not others else []
        low, high = ([math.log(v) for t, place in side[block] if (v := value(t, place, metric) or 0) > 0] for side in sides)
        if of_quads: found.append(summary(of_quads))
        elif low and high: found.append(mean(high) - mean(low))
    return found
rate, rows = 0.05 / 3 ** len(plan.get("extensions", [])), result["ratios"]
fewest = max(plan["design"]["least_blocks"], 4)
def family(members):  # [(pair, row)] that are judged together
    emulated = {pair: any(arms[pairs[pair][side]].get("emulated") for side in ("numerator", "denominator")) for pair, _ in members}
    made = [(row, Estimate(v) if (v := logs(pair, row["metric"])) else None, emulated[pair]) for pair, row in members]
    usable = lambda e: e and e.n >= fewest
    p = sorted(e.p_value() for _, e, alone in made if usable(e) and not alone)
    shown = max([k for k in range(1, len(p) + 1) if p[k - 1] <= rate * k / len(p)], default=0)
    for row, e, alone in made:
        confidence, limits = 1 - rate, None
        if not usable(e): confidence = 0.95
        else:
            limits = e.interval(1 - rate)
            if not limits[0] <= 0 <= limits[1]:
                confidence = 1 - rate if alone else 1 - rate * max(shown, 1) / len(p)
                limits = e.interval(confidence)
        ours = [e and math.exp(e.centre), *(map(math.exp, limits) if limits else (None, None)), confidence, e.n if e else 0]
        check(f"{row['metric']} {name(row['treatment'])} / {name(row['relative_to'])}", ours, [row[k] for k in ("ratio", "lo", "hi", "confidence", "blocks")])
asked = [p.get("asked", True) for p in pairs]
sides = [(arms[p["numerator"]]["treatment"], arms[p["denominator"]]["treatment"]) for p in pairs]
family([(i, r) for i, r in enumerate(rows[:len(pairs)]) if asked[i]])
family([(i, r) for i, r in enumerate(rows[:len(pairs)]) if not asked[i]])
family([(next(i for i, s in enumerate(sides) if asked[i] and s == (r["treatment"], r["relative_to"])), r) for r in rows[len(pairs):]])
# 6. Slopes: a line by least squares in each block.
for r in result.get("slopes", []):
    line = [i for i, a in enumerate(arms) if {k: v for k, v in a["treatment"].items() if k != plan["columns"]} == r["treatment"]]
    points = []
    for arm in line:
        blocks = {}
        for t, place in places(arm):
            y, x = value(t, place, r["metric"]), value(t, place, r["against"])
            if None not in (x, y): blocks.setdefault(t["block"], []).append((x, y))
        if blocks: points.append({block: tuple(map(mean, zip(*v))) for block, v in blocks.items()})
    slopes, zeros = [], []
    for block in sorted(set.intersection(*map(set, points))) if points else []:
        x, y = zip(*(of[block] for of in points))
        middle = mean(x), mean(y)
        if squares := sum((of - middle[0]) ** 2 for of in x):
            slopes.append(sum((a - middle[0]) * (b - middle[1]) for a, b in zip(x, y)) / squares)
            zeros.append(middle[1] - slopes[-1] * middle[0])
    e = Estimate(slopes)
    ours = [e.centre, *(e.interval(0.95) or (None, None)), Estimate(zeros).centre, e.n]
    check(f"slope of {r['metric']} by {r['against']} {name(r['treatment'])}", ours, [r[k] for k in ("slope", "lo", "hi", "at_zero", "blocks")])
missing = len(rows) < len(pairs) or any(places(i) and not any(r["treatment"] == a["treatment"] for r in result["estimates"]) for i, a in enumerate(arms))
if missing: print("DIFFERS rows of result.json: some are missing")
# Whose a row is, is derived too: a ratio's sides are those of its pair, and every other row is of an arm.
of_arms = [r for kind in ("estimates", "members", "fairness") for r in result.get(kind, [])]
known = [a["treatment"] for a in arms]
named = all((r["treatment"], r["relative_to"]) == s for r, s in zip(rows, sides)) and all(r["treatment"] in known for r in of_arms)
if not named: print("DIFFERS rows of result.json: some are not of the arms or the pairs of the plan")
print(f"{compared - wrong} of {compared} agree")
sys.exit(1 if wrong or missing or not named else 0)
