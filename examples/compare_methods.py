"""
Every method on the same data
=============================

Heavy-tailed rows, a tenth of which leave the signal out. **The data are simulated.**
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from sparsemean import SparseMean, baselines, simulate

RUNS = 5


def main() -> None:
    errors: dict[str, list[float]] = {}
    for seed in range(RUNS):
        data = simulate.make_contaminated(
            600, 50, [10, -5, -4, 2], distribution="t", shape=2.0, attack="mimic", random_state=seed
        )
        means = {"SparseMean": SparseMean(contamination=0.1, random_state=seed).fit(data.X).mean_}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", baselines.BaselineWarning)  # those that give up say so
            for name in sorted({*baselines.names()} - {"sparse_sos"}):  # which takes 24 features at most
                means[name] = baselines.get(name)(data.X, contamination=0.1, k=4, random_state=seed)
        for name, mean in means.items():
            errors.setdefault(name, []).append(float(np.linalg.norm(mean - data.mean)))
    print(f"l2 error, mean of {RUNS} runs; all but SparseMean are given the number of nonzero means, four")
    averages = {name: float(np.mean(values)) for name, values in errors.items()}
    best = sorted(averages, key=averages.__getitem__)
    for name in best:
        print(f"{averages[name]:8.3f}  {name}")
    _, ax = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
    ax.barh(best, [averages[name] for name in best], color=["C3" if name == "SparseMean" else "C0" for name in best])
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel=f"l2 error, mean of {RUNS} runs on simulated data", title="shorter is better")


if __name__ == "__main__":
    main()
