"""
Quickstart
==========

Four means among 100 features, heavy tails, one row in ten shifted. **The data are simulated** by `sparsemean.simulate`.
"""

from textwrap import fill

from sparsemean import SparseMean, simulate

data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], distribution="fisk", contamination=0.1, random_state=0)

est = SparseMean(contamination=0.1, random_state=0).fit(data.X)

print(est.result_.table().drop(columns=["p_value", "q_value", "beta"]).to_string(index=False))
print(fill(est.result_.summary(), 100))
print("l2 error:", round(float(((est.mean_ - data.mean) ** 2).sum() ** 0.5), 3))
