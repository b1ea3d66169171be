"""Every method on the same made data: heavy-tailed rows, a tenth of which leave the signal out."""

import warnings

import numpy as np

from sparsemean import SparseMean, baselines, simulate

RUNS = 5


def main() -> None:
    errors: dict[str, list[float]] = {}
    for seed in range(RUNS):
        data = simulate.make_contaminated(
            600, 100, [10, -5, -4, 2], distribution="t", shape=2.0, attack="mimic", random_state=seed
        )
        means = {"SparseMean": SparseMean(contamination=0.1, random_state=seed).fit(data.X).mean_}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", baselines.BaselineWarning)  # those that give up say so
            for name in baselines.names():
                means[name] = baselines.get(name)(data.X, contamination=0.1, k=4, random_state=seed)
        for name, mean in means.items():
            errors.setdefault(name, []).append(float(np.linalg.norm(mean - data.mean)))
    print(f"l2 error, mean of {RUNS} runs; all but SparseMean are told that four means are not zero")
    for name, values in sorted(errors.items(), key=lambda item: np.mean(item[1])):
        print(f"{np.mean(values):8.3f}  {name}")


if __name__ == "__main__":
    main()
