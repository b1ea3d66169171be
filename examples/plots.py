"""
Every plot
==========

All plots on two problems: the expression data that come with the package, and **simulated data** that say so in their
titles.

Usage: python plots.py [FOLDER]
"""

import sys
from pathlib import Path

import pandas as pd

import sparsemean as sm

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "plots")
folder.mkdir(exist_ok=True)

# shipped data: which probes differ by sex, and which samples look like the other sex
data = sm.datasets.load_all_sex()
probes = pd.DataFrame(data.X, columns=data.features)
by_sex = sm.SparseMeanDifference(contamination=0.05).fit(probes, data.y).result_

# simulated data: 200 metrics of 3,000 users, heavy tails, one user in twenty replaced by an adversary
names = [f"metric {i}" for i in range(200)]
effects = [0.9, -0.8, 0.7, 0.6, -0.5, 0.5, 0.4, 0.4, 0.3, 0.25]
simulated = sm.simulate.make_contaminated(3000, 200, effects, contamination=0.05, random_state=0)
experiment = sm.sparse_mean(simulated.X, feature_names=names, contamination=0.05, random_state=0)

# sphinx_gallery_thumbnail_number = 10
pictures = {
    "sex_volcano": by_sex.plot_volcano(),
    "sex_forest": by_sex.plot_forest(),
    "sex_rows": by_sex.plot_rows(names=data.samples),
    "sex_robustness": by_sex.plot_robustness(),
    "simulated_path": experiment.plot_path(),
    "simulated_volcano": experiment.plot_volcano(),
    "simulated_forest": experiment.plot_forest(uncertified=True),
    "simulated_rows": experiment.plot_rows(order="scores"),
    "simulated_robustness": experiment.plot_robustness(),
    "plan": sm.plots.plot_plan(sm.plan(3000, 200, contamination=0.05)),
}
titles = {"sex": "leukaemia samples, men less women\n", "simulated": "simulated data\n"}
for name, ax in pictures.items():
    ax.set_title(titles.get(name.partition("_")[0], "") + ax.get_title(), fontsize=10)
    ax.figure.savefig(folder / f"{name}.png", dpi=100)
print(f"{len(pictures)} pictures in {folder}")
