"""
How it works, in three pictures
===============================

The pictures of :doc:`/how-it-works`: features rise one after the other, a feature's rate says when, and reading them
off at some time is a sign test. **The data of this page are simulated.**

Usage: python how_it_works.py [FOLDER FOR THE PICTURES]
"""

# %%
# A simulated problem: 600 rows, 100 features, the means of four are not zero, one row in twenty is bad.
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sparsemean import SparseMean, simulate

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
data = simulate.make_contaminated(600, 100, [3, -1.5, 1.1, 0.8], contamination=0.05, random_state=0)
result = SparseMean.paper(contamination=0.05, random_state=0).fit(data.X).result_
alpha, eta, last = result.plan.walk.alpha, result.plan.walk.eta, 400
signal, rest = data.support, np.setdiff1d(np.arange(100), data.support)


def keep(ax: plt.Axes, name: str) -> None:
    if folder is not None:
        ax.figure.savefig(folder / f"{name}.png", dpi=110)


def closed_form(t: np.ndarray, beta: np.ndarray | float) -> np.ndarray:
    return alpha**2 * ((1 + eta * beta) ** (2 * t) - (1 - eta * beta) ** (2 * t))


# %%
# One after the other
# -------------------
# Lines are the iteration, step by step on the bucket means; dashes are the closed form, which knows nothing but
# the counts of signs. They agree until a line comes near its first bucket mean.
t = np.arange(last + 1)
paths = np.abs(result.trajectory(range(100), n_iter=last))
_, ax = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
ax.semilogy(t, paths[:, rest], color="0.75", linewidth=0.7)
for feature in signal:
    (line,) = ax.semilogy(t, paths[:, feature], linewidth=2.2, label=f"mean {data.mean[feature]:g}")
    free = np.abs(closed_form(t, result.beta[feature]))
    ax.semilogy(t[free < 30], free[free < 30], "--", color=line.get_color(), linewidth=1.0)
ax.axhline(alpha, color="k", linewidth=0.8, linestyle=":")
ax.text(3, alpha * 1.5, "α: selected from here on", va="bottom")
ax.set(
    xlabel="step t",
    ylabel="size of the estimate",
    ylim=(alpha**2 * 0.1, 50),
    title="96 features without a mean in grey",
)
ax.legend(title="simulated data", loc="lower right")
keep(ax, "how-trajectories")

free = np.abs(closed_form(t[:, np.newaxis], result.beta))
before = free < result.counts.nearest  # no bucket mean has been passed yet
print(f"until then closed form and iteration differ by {np.abs(paths - free)[before].max():.0e} at most")

# %%
# The rate says when
# ------------------
# β is the share of bucket means above zero less the share below. The curve is the time at which the closed form reaches
# α; the dots are the features.
beta, entry = np.abs(result.beta), result.entry_time
grid = np.linspace(0.02, 1, 400)
steps = np.arange(1, 20_001)
when = np.array([steps[np.argmax(closed_form(steps[steps * rate < 1000], rate) >= alpha)] for rate in grid])
_, ax = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
ax.semilogy(grid, when, color="0.5", linewidth=1.2, label="closed form")
ax.semilogy(beta[rest], entry[rest], ".", color="0.6", label="features without a mean")
ax.semilogy(beta[signal], entry[signal], "o", color="C3", label="features with a mean")
ax.axhline(result.plan.walk.select_at, color="k", linewidth=0.8, linestyle=":")
ax.text(0.99, result.plan.walk.select_at * 1.06, f"T = {result.plan.walk.select_at}", ha="right", va="bottom")
ax.set(xlabel="rate |β|", ylabel="entry time (steps)", xlim=(0, 1.02), title="when a feature reaches α, by its rate")
ax.legend(title="simulated data")
keep(ax, "how-entry")

# %%
# Selection is a sign test
# ------------------------
# So a feature is selected after T steps exactly when its rate is at least β*, the one that takes T steps to α: a sign
# test with a threshold that depends on T alone. A longer run selects more, at last features without a mean too: it
# is the same path, read later.
times = np.unique(np.geomspace(120, 2000, 200).astype(int))
rates = np.linspace(0.005, 1, 4000)
threshold = np.array([rates[np.argmax(closed_form(time, rates) >= alpha)] for time in times])
# sphinx_gallery_thumbnail_number = 3
_, ax = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
ax.semilogx(times, threshold, color="C0", linewidth=2.2, label="β*(T)")
ax.axhspan(0, beta[rest].max(), color="0.9", label="all 96 features without a mean")
for feature in signal:
    ax.axhline(beta[feature], color="C3", linewidth=1.0, label="features with a mean" if feature == 0 else None)
    ax.text(2000, beta[feature], f" {data.mean[feature]:g}", va="center", color="C3")
ax.plot(result.plan.walk.select_at, threshold[np.searchsorted(times, result.plan.walk.select_at)], "o", color="C0")
ax.set(
    xlabel="steps T", ylabel="|β|", ylim=(0, 1.02), xlim=(120, 2000), title="selected after T steps: above the curve"
)
ax.set_xticks([150, 200, 300, 500, 1000, 2000], ["150", "200", "300", "500", "1000", "2000"])
ax.minorticks_off()
ax.legend(title="simulated data", loc="center right", bbox_to_anchor=(1.0, 0.42))
keep(ax, "how-threshold")
at_paper = rates[np.argmax(closed_form(result.plan.walk.select_at, rates) >= alpha)]
print(f"β* at the paper's T = {result.plan.walk.select_at}: {at_paper:.3f}")
