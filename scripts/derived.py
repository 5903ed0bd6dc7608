"""The estimate of a study, its interval and Student's t: those of the second implementation that every bundle has (crates/bundle/src/rederive.py)."""
import math
import os
import statistics
from functools import lru_cache

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _definitions():
    with open(os.path.join(ROOT, "crates/bundle/src/rederive.py"), encoding="utf-8") as file:
        source = file.read()
    names = {"math": math, "statistics": statistics, "lru_cache": lru_cache, "mean": statistics.fmean}
    for first, after in (("def summary(", "def arms_of("), ("# 2. The estimate over blocks", "# 3. Values")):
        exec(source[source.index(first) : source.index(after)], names)
    return names


_DEFINED = _definitions()
# The 20 % trimmed mean of five or more values, else the median.
summary = _DEFINED["summary"]
# Of values of blocks: `interval(confidence)`, and `freedom`, which depends on their number alone.
Estimate = _DEFINED["Estimate"]
# student(tail, freedom): t with P(|T| > t) = tail.
student = _DEFINED["student"]
