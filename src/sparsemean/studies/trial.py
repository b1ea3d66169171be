"""One trial: a data set, every estimator on it, and what came out."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from sparsemean.baselines import BaselineWarning
from sparsemean.simulate import make_contaminated
from sparsemean.studies import methods
from sparsemean.studies.methods import find
from sparsemean.studies.settings import Setting


def run_trial(setting: Setting, study_seed: int, trial: int, estimators: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a record for each estimator: l2 error, |I ∩ S| / |I ∪ S| and seconds of the processor.

    Trials run beside each other and beside other work: a clock on the wall would time that too.
    """
    seed = setting.seed(study_seed, trial)
    data = make_contaminated(
        setting.n, setting.d, setting.mean, distribution=setting.distribution, shape=setting.shape,
        contamination=setting.contamination, attack=methods.find_attack(setting.attack), random_state=seed,
    )  # fmt: skip
    records = []
    for name in estimators:
        method = find(name)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BaselineWarning)  # a filter that removes every row is scored as it answers
            mean = method(data, setting, seed % 2**32)
        seconds = time.process_time() - began
        found, truth = mean != 0, data.mean != 0
        either = int(np.count_nonzero(found | truth))
        records.append(
            {
                "trial": trial,
                "estimator": name,
                "error": float(np.linalg.norm(mean - data.mean)),
                "overlap": float(np.count_nonzero(found & truth) / either) if either else 1.0,
                "seconds": seconds,
            }
        )
    return records
