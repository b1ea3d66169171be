"""
An experiment: from a CSV file to a scorecard
=============================================

A shop shows half of its visitors a new page. For every visitor there is one row: converted or not, orders, revenue,
clicks and minutes. Most never buy, a few buy for thousands, and a script that clicks through the shop was let into one
arm only. What did the new page change, by how much, and can the answer be trusted?

**The data of this page are simulated**, so that the truth is known: the new page raises conversion from 10 % to 14 %,
and visitors click less often on its third button. Orders, revenue and refunds follow conversion; nothing else differs.
"""

# %%
# The file
# --------
# Zeros in most rows, whales in a few, 60 bots in the arm ``new``: the file looks as such files do.
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

from sparsemean import experiments

pd.set_option("display.float_format", "{:.3g}".format, "display.width", 110)
rng = np.random.default_rng(0)
visitors = 20_000
arm = rng.choice(["control", "new"], visitors)
seen_new = arm == "new"
appetite = rng.lognormal(0, 1, visitors)  # some do more of everything

converted = rng.random(visitors) < np.where(seen_new, 0.14, 0.10)
orders = converted * (1 + rng.poisson(0.3 * appetite))
revenue = orders * rng.lognormal(3.2, 0.9, visitors) * np.sqrt(appetite)
revenue[rng.choice(np.flatnonzero(converted), 12, replace=False)] *= 60  # whales
columns = {"converted": converted, "orders": orders, "revenue": revenue.round(2)}
columns["refunds"] = (revenue * (rng.random(visitors) < 0.06)).round(2)
for button in range(1, 13):
    fewer = np.where(seen_new, 0.86, 1.0) if button == 3 else 1.0
    columns[f"clicks_{button}"] = rng.poisson(rng.uniform(2, 6) * appetite * fewer)
for section in range(1, 7):
    columns[f"minutes_{section}"] = (rng.lognormal(1.5, 0.8, visitors) * appetite).round(1)

bots = rng.choice(np.flatnonzero(seen_new), 60, replace=False)
for button in range(5, 11):
    columns[f"clicks_{button}"][bots] = rng.poisson(400, bots.size)
for money in ("converted", "orders", "revenue", "refunds"):
    columns[money][bots] = 0

table = pd.DataFrame({"visitor": [f"v{i:05d}" for i in range(visitors)], "arm": arm, **columns})
folder = Path(tempfile.mkdtemp())
table.astype({"converted": int}).to_csv(folder / "experiment.csv", index=False)
table.head()

# %%
# What the t test says
# --------------------
# Bonferroni over the metrics. The bots make six buttons significant that no person pressed more often, and the whales
# hide revenue.
metrics = table.drop(columns=["visitor", "arm"]).astype(float)
p = stats.ttest_ind(metrics[seen_new], metrics[~seen_new], equal_var=False).pvalue * metrics.shape[1]
print("t test:", ", ".join(metrics.columns[p <= 0.05]))

# %%
# One command
# -----------
# ``sparsemean experiment experiment.csv --arm arm --user visitor --report scorecard.html``. Nothing is said about the
# control, about columns or about bots.
command = Path(sysconfig.get_path("scripts")) / "sparsemean"
options = ["--arm", "arm", "--user", "visitor", "--report", folder / "scorecard.html"]
done = subprocess.run(
    [command, "experiment", folder / "experiment.csv", *options], capture_output=True, text=True, check=True
)
print(done.stdout.replace(f"{folder}/", ""))

# %%
# The buttons of the bots have no verdict, what the new page did has. Revenue is certified by ranks, as more visitors
# buy, while its mean, which twelve whales decide, is unclear: both are true.
#
# The same in Python
# ------------------
card = experiments.analyze(table, arm="arm", user="visitor")
found = set(card.suspects["user"][card.suspects["kind"] == "clump"])
print(f"{len(found)} of {visitors:,} visitors are suspected, {len(found & set(table['visitor'][bots]))} of the 60 bots")
card.clumps.drop(columns="names")

# %%
_, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
card.plot(ax=axes[0])
people = ~table["visitor"].isin(found)
for name, rows in (("visitors", people), ("suspected bots", ~people)):
    axes[1].loglog(1 + table["clicks_5"][rows], 1 + table["clicks_10"][rows], ".", alpha=0.4, label=name)
axes[1].set(xlabel="clicks on button 5, plus 1", ylabel="clicks on button 10, plus 1")
axes[1].legend()

# %%
# What if they were people?
# -------------------------
# Resellers may look as scripts do. ``keep`` counts a clump among the people again; what had a verdict without them and
# loses it, or the other way round, is what hangs on that question.
kept = experiments.analyze(table, arm="arm", user="visitor", keep=[1])
words = {name: each.table.set_index("metric")["verdict"] for name, each in (("without", card), ("with", kept))}
both = pd.DataFrame(words)
both[(both["without"] != both["with"])]

# %%
# What was learnt
# ---------------
# The new page converts more visitors, and its third button is pressed less. Both hold though 60 visitors of one arm are
# not people, and nobody had to know their number beforehand. Revenue rises because more visitors buy; by how much is
# far less certain than the plain lift suggests.
