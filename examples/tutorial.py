"""
Tutorial: two groups of patients
================================

The library comes with real data: gene expression of 125 leukaemia patients, measured by 12,625 probes, and the sex
that was recorded for each patient. Which probes differ, by how much, and whose label is wrong?

The right answer is known from biology: genes on the Y chromosome are active in men, XIST is active in women, and hardly
anything else depends on the sex. So there is a short true list among 12,625 candidates. The data have a catch as well:
a few patients carry the wrong label.

Usage: python tutorial.py [FOLDER FOR THE REPORT]
"""

# %%
# The data
# --------
# Rows are patients, columns are probes. A data frame carries the names of both along.
import sys
from pathlib import Path

import pandas as pd

from sparsemean import SparseMeanDifference, datasets

pd.set_option("display.float_format", "{:.3g}".format)
data = datasets.load_all_sex()
profiles = pd.DataFrame(data.X, index=data.samples, columns=data.features)
print(profiles.shape[0], "patients,", profiles.shape[1], "probes")
print(pd.Series(data.y).value_counts().to_dict())

# %%
# One call
# --------
# `SparseMeanDifference` looks for probes that differ between the two groups. How many rows may be wrong need not be
# said: as many are allowed for as look wrong. ``contamination=0.05`` would allow for any 5 % of each group.
est = SparseMeanDifference().fit(profiles, data.y)
print(est.result_)

# %%
# The table
# ---------
# The selected probes, strongest first. ``estimate`` is the shift from women to men in log2 units with its interval.
# ``p_adjusted`` holds whichever patients are wrong, as long as they are no more than the first lines say.
# ``max_contamination`` is the share of wrong rows of each group up to which the probe stays on the list.
columns = ["feature", "estimate", "ci_low", "ci_high", "p_adjusted", "radius", "max_contamination"]
est.result_.table()[columns]

# %%
# Every estimate is positive, higher in men, but for one: 38446_at is XIST, which is active in women.
#
# How large, how sure
# -------------------
est.result_.plot_forest()

# %%
# All probes at once: across, how far a probe leans to one group; up, how small its p-value is. The selected ones stand
# alone.
est.result_.plot_volcano()

# %%
# Who looks like the other sex
# ----------------------------
# A mislabelled patient looks normal everywhere but on the probes that were found, where all speak for the other sex.
# Every patient has a score for that; called suspect are those who lie too far from their own group and near the other.
# For each there are the probes that speak most against the label.
print("suspect:", ", ".join(data.samples[est.suspects_]))
for row, probes in zip(est.suspects_, est.result_.rows.reasons, strict=True):
    print(
        f"  {data.samples[row]}, labelled {data.y[row]}, looks otherwise on", ", ".join(data.features[list(probes[:3])])
    )
# sphinx_gallery_thumbnail_number = 3
est.result_.plot_rows()

# %%
# The description of the data names six patients whose label contradicts their expression; these four are among them.
# The other two, 19008 and 28024, lie between the groups.
#
# What if more labels are wrong?
# ------------------------------
# Nobody knows the true share of wrong rows. So look at how many probes are left as it grows. ``at`` decides again for
# a share of your own, without a second look at the data.
print(len(est.result_.table()), "probes; if any 8 % of each group are wrong:", len(est.result_.at(0.08).table()))
est.result_.plot_robustness()

# %%
# Look at it in a browser
# -----------------------
# One file with the words, a table to sort and filter, and linked plots. It needs no network, so it can be mailed.
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
est.result_.report(folder / "report.html", title="Expression by recorded sex", row_names=data.samples)
print(round((folder / "report.html").stat().st_size / 1e6, 1), "MB")

# %%
# .. raw:: html
#
#    <p><a class="sd-btn" href="../report.html">Open the report of this very fit</a></p>
#
# The same from the command line
# ------------------------------
# ``sparsemean demo`` runs this comparison. On a file of your own, with a column ``sex``:
#
# .. code-block:: console
#
#    $ sparsemean fit expression.csv --id patient --group sex --out probes.csv --report report.html
#
# What was learnt
# ---------------
# Among 12,625 probes those of the Y chromosome and of XIST came first, and the patients whose label they contradict
# are ones that were mislabelled: a list of genes, and a list of labels to look up again.
#
# To see how a file is read and what else can be written, go to :doc:`/data`; for what the numbers promise, to
# :doc:`/guarantees`.
