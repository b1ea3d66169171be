"""
Job 1: many metrics, a few very large users, gaps
=================================================

Every user has seen the old and the new version of a product for a week each, in random order. Each of 150 metrics is
*new minus old*, one number a user. Which metrics did the new version change?

Three things spoil the usual t test: a few users are dozens of times as active as the rest, some bots report
nonsense, and many values are missing. The random order of the two weeks helps: where a version changes nothing, *new
minus old* is as likely to be +5 as −5. That, and users who do not depend on each other, is all that
`SparseMean` assumes.

**The data of this page are simulated**, so that the truth is known.
"""

# %%
# Simulated data: a CSV file
# --------------------------
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

from sparsemean import SparseMean

pd.set_option("display.float_format", "{:.3g}".format)
rng = np.random.default_rng(0)
users = 3000
metrics = [f"{kind}_{i:02d}" for kind in ("revenue", "clicks", "minutes", "errors", "shares") for i in range(30)]
effects = {"revenue_03": 0.5, "clicks_07": -0.4, "minutes_11": 0.35, "errors_02": -0.3, "shares_20": 0.3}

size = rng.lognormal(0.0, 1.2, users)  # how active a user is
simulated = pd.DataFrame(size[:, np.newaxis] * rng.standard_t(2.5, (users, len(metrics))), columns=metrics)
for metric, effect in effects.items():
    simulated[metric] += effect
bots = rng.choice(users, 60, replace=False)
simulated.loc[bots, [f"clicks_{i:02d}" for i in range(10, 20)]] = 300.0  # two users in a hundred are bots
gaps = rng.random(simulated.shape) < 0.05
gaps[np.ix_(rng.random(users) < 0.3, simulated.columns.str.startswith("minutes"))] = True  # no player installed
simulated = simulated.mask(gaps)
simulated.insert(0, "user", [f"u{i:04d}" for i in range(users)])

folder = Path(tempfile.mkdtemp())
file = folder / "experiment.csv"
simulated.to_csv(file, index=False)
print(f"largest user: {size.max() / np.median(size):.0f} times the median; {gaps.mean():.0%} of the values are missing")

# %%
# What the t test says
# --------------------
# Bonferroni over 150 metrics, so one false alarm in twenty experiments would be fine.
frame = pd.read_csv(file, index_col="user")
p = stats.ttest_1samp(frame, 0.0, nan_policy="omit").pvalue
found = frame.columns[p * len(metrics) <= 0.05]
print("right: ", ", ".join(found[found.isin(effects)]) or "none")
print("wrong: ", ", ".join(found[~found.isin(effects)]) or "none")
print("missed:", ", ".join(name for name in effects if name not in found) or "none")

# %%
# The bots make ten metrics significant that did not change, and the largest users hide some that did.
#
# What SparseMean says
# --------------------
# As many users may be anything as look bad; nobody has to know their share. ``missing="omit"`` uses what is there.
est = SparseMean(missing="omit").fit(frame)
table = est.result_.table()
table["truth"] = table["feature"].map(effects).fillna(0.0)
print("wrong: ", ", ".join(table["feature"][table["truth"] == 0]) or "none")
print("missed:", ", ".join(name for name in effects if name not in set(table["feature"])) or "none")
table[["feature", "estimate", "truth", "ci_low", "ci_high", "p_adjusted", "max_contamination"]]

# %%
_, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
est.result_.plot_forest(ax=axes[0])
est.result_.plot_robustness(ax=axes[1])

# %%
# On the right: without any allowance for bad users a metric of the bots would be on the list. That is what the
# allowance is for.
#
# Who is suspect
# --------------
# Rows that contradict the rest are left out of the values, never out of the p-values. The bots are wrong in 10 metrics
# of 150 only, but all in the same way; the largest users are large in all metrics, each alone, and are no suspects.
caught = np.isin(est.suspects_, bots).sum()
print(f"{est.suspects_.size} of {users} users are suspect, {caught} of the {bots.size} bots among them")
# sphinx_gallery_thumbnail_number = 2
est.result_.plot_rows(order="scores", names=frame.index)

# %%
# The same without Python
# -----------------------
# ``sparsemean fit experiment.csv --id user --missing omit --out changed.csv``
command = Path(sysconfig.get_path("scripts")) / "sparsemean"
options = ["--id", "user", "--missing", "omit", "--out"]
done = subprocess.run(
    [command, "fit", file, *options, folder / "changed.csv"], capture_output=True, text=True, check=True
)
print(done.stdout.replace(f"{folder}/", ""))
assert set(pd.read_csv(folder / "changed.csv")["feature"]) == set(table["feature"])

# %%
# If each user saw one version only
# ---------------------------------
# Then compare two groups of users: ``--group version``, or `SparseMeanDifference` in Python, as in
# :ref:`sphx_glr_gallery_scorecard.py`. If users appear in several rows, pass ``groups=`` to ``fit``: rows of one user
# are not independent.
