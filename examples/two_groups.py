"""
Two groups in ten lines
=======================

Which probes differ between men and women, whichever 5 % of the samples are wrong: the shipped data.
:ref:`sphx_glr_gallery_tutorial.py` takes its time over the same comparison.
"""

from sparsemean import SparseMeanDifference, datasets

data = datasets.load_all_sex()
est = SparseMeanDifference(contamination=0.05).fit(data.X, data.y)

table = est.result_.table()
table["feature"] = data.features[table["feature"]]
print(table[["feature", "estimate", "ci_low", "ci_high", "p_adjusted", "radius"]].to_string(index=False))
