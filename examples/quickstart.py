"""
Quickstart
==========

Four means among 100 features, heavy tails, one row in ten shifted. **The data are simulated** by `sparsemean.simulate`.
"""

from sparsemean import SparseMean, simulate

data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], distribution="fisk", contamination=0.1, random_state=0)

est = SparseMean().fit(data.X)

print(est.result_)
print("l2 error:", round(float(((est.mean_ - data.mean) ** 2).sum() ** 0.5), 3))
est.result_.plot_forest()
