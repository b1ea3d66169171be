"""
Job 3: gradients from untrusted clients
=======================================

400 clients train one linear model of 500 weights together; eight weights are not zero. In each round every client
sends the gradient of its own few data, with heavy tails, and the server takes a step along the average. One client in
ten sends whatever it likes. What should the server use as the average?

**Clients, data and attackers of this page are simulated**; the attacks are those of `sparsemean.simulate.attacks`.
"""

# %%
# Simulated clients
# -----------------
# With standardised inputs the expected gradient is the present weights less the true ones: few entries that are not
# zero, as long as the present weights have few.
import matplotlib.pyplot as plt
import numpy as np

from sparsemean import SparseMean, baselines
from sparsemean.simulate import attacks

CLIENTS, EACH, WEIGHTS, ROUNDS, BAD, STEP = 400, 5, 500, 10, 0.1, 0.7
truth = np.zeros(WEIGHTS)
truth[:8] = [3.0, -3.0, 2.5, -2.5, 2.0, -2.0, 1.5, -1.5]


def gradients(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return what honest clients send: a row each, from ``EACH`` fresh observations with heavy-tailed errors."""
    inputs = rng.standard_normal((CLIENTS, EACH, WEIGHTS))
    errors = inputs @ (weights - truth) + rng.standard_t(2.0, (CLIENTS, EACH))
    return np.einsum("ce,cew->cw", errors, inputs) / EACH


def attacked(sent: np.ndarray, weights: np.ndarray, rng: np.random.Generator, attack: str) -> np.ndarray:
    """Replace the rows of the attackers, who see every other row and the true gradient."""
    bad = np.arange(CLIENTS - int(BAD * CLIENTS), CLIENTS)
    sent = sent.copy()
    sent[bad] = attacks.get(attack)(sent, weights - truth, rng, bad)
    return sent


# %%
# Four ways to average
# --------------------
def sparse(sent: np.ndarray) -> np.ndarray:
    return SparseMean(contamination=BAD, random_state=0).fit(sent).mean_


averages = {
    "mean": lambda sent: sent.mean(axis=0),
    "median": lambda sent: baselines.median(sent, contamination=BAD),
    "geometric median": lambda sent: baselines.geometric_median(sent, contamination=BAD),
    "SparseMean": sparse,
}


def train(average: str, attack: str) -> list[float]:
    """Return the distance to the true weights after every round."""
    rng, weights = np.random.default_rng(0), np.zeros(WEIGHTS)
    distances = [float(np.linalg.norm(weights - truth))]
    for _ in range(ROUNDS):
        sent = attacked(gradients(weights, rng), weights, rng, attack)
        weights = weights - STEP * averages[average](sent)
        distances.append(float(np.linalg.norm(weights - truth)))
    return distances


# %%
# Three attacks
# -------------
# ``far_rows`` sends one far point, ``constant_bias`` shifts every coordinate a little, ``mimic`` sends honest noise
# without the signal.
chosen = ("far_rows", "constant_bias", "mimic")
figure, axes = plt.subplots(1, len(chosen), figsize=(9.5, 3.8), sharey=True, layout="constrained")
last = {}
for ax, attack in zip(axes, chosen, strict=True):
    for average, style in zip(averages, ("k:", "C1--", "C2-.", "C0-"), strict=True):
        distances = train(average, attack)
        last[average, attack] = distances[-1]
        ax.semilogy(distances, style, label=average, linewidth=2.0)
    ax.set(title=attack, xlabel="round", xticks=range(0, ROUNDS + 1, 2))
axes[0].set_ylabel("distance to the true weights (simulated data)")
axes[-1].legend()

# %%
# After the last round
# --------------------
print(f"{'':18}" + "".join(f"{attack:>15}" for attack in chosen))
for average in averages:
    print(f"{average:18}" + "".join(f"{last[average, attack]:15.2f}" for attack in chosen))

# %%
# The plain mean follows the attackers wherever they go. The coordinatewise median errs by a little in each of 500
# weights, which adds up and makes the next round's gradients noisier still. `SparseMean` moves only weights whose
# gradient cannot be the work of 40 attackers, and leaves the others alone.
#
# That is also where it ends: once no gradient is too large to be theirs, it stops. More clients, or gradients
# added up over several rounds, move that floor down; ``sparsemean plan`` says by how much. Against ``mimic``, which
# sends nothing false but only withholds the signal, the two medians come closer to the truth: where bad rows do little
# harm, protection against the worst costs more than it brings.
