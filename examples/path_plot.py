"""
The picture of the start page
=============================

Signals rise one after the other, the rest stays down. **The data are simulated** by `sparsemean.simulate`.

Usage: python path_plot.py [FILE.png]
"""

import sys

from sparsemean import simulate, sparse_mean

data = simulate.make_contaminated(600, 100, [10, -5, -4, 2], random_state=0)
ax = sparse_mean(data.X, contamination=0.1, random_state=0).plot_path()
ax.figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "path.png", dpi=100)
