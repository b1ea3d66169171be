"""
Two groups in ten lines
=======================

Which probes differ between men and women, and whose label is wrong: the shipped data, nothing chosen.
:ref:`sphx_glr_gallery_tutorial.py` takes its time over the same comparison.
"""

import pandas as pd

from sparsemean import SparseMeanDifference, datasets

data = datasets.load_all_sex()
est = SparseMeanDifference().fit(pd.DataFrame(data.X, columns=data.features), data.y)

print(est.result_.table()[["feature", "estimate", "ci_low", "ci_high", "p_adjusted", "radius"]].to_string(index=False))
print("suspect:", ", ".join(data.samples[est.suspects_]))
est.result_.plot_volcano()
