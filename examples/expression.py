"""
Job 2: two groups of expression profiles
========================================

Two conditions, 60 samples each, 5,000 genes in an AnnData object. A dozen genes differ. Four samples were swapped in
the laboratory and two are broken. **The data of this page are simulated**; :ref:`sphx_glr_gallery_tutorial.py` does
the same on real ones.
"""

# %%
# Simulated data: an .h5ad file
# -----------------------------
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import anndata
import numpy as np
import pandas as pd

import sparsemean as sm

pd.set_option("display.float_format", "{:.3g}".format)
rng = np.random.default_rng(1)
samples, genes, differing = 120, 5000, 12
treated = np.repeat([False, True], samples // 2)
level = rng.normal(7.0, 2.0, genes) + 0.5 * rng.standard_t(4, (samples, genes))  # log2 expression
shift = np.zeros(genes)
shift[:differing] = np.linspace(2.5, 1.2, differing) * np.resize([1, -1], differing)
level[treated] += shift
broken, swapped = [3, 77], [10, 30, 70, 110]
level[broken] = rng.uniform(0, 14, (len(broken), genes))
label = np.where(treated ^ np.isin(np.arange(samples), swapped), "treated", "control")

profiles = anndata.AnnData(
    level,
    obs=pd.DataFrame({"condition": pd.Categorical(label)}, index=[f"s{i:03d}" for i in range(samples)]),
    var=pd.DataFrame(index=[f"gene{i:04d}" for i in range(genes)]),
)

# %%
# Compare
# -------
# Six samples of 120 are wrong, which is 5 %. The estimator takes the object as it is.
est = sm.SparseMeanDifference(contamination=0.05).fit(profiles, profiles.obs["condition"])
table = est.result_.table()
table["truth"] = shift[profiles.var_names.get_indexer(table["feature"])]
print(f"{len(table)} genes selected, {sum(table['truth'] == 0)} of them wrongly; {differing} differ")
table[["feature", "estimate", "truth", "ci_low", "ci_high", "p_adjusted", "max_contamination"]]

# %%
est.result_.plot_volcano()

# %%
# Swapped samples
# ---------------
# A swapped sample is a good measurement with the wrong name: nothing but the genes that differ gives it away. A broken
# one may look like either group there; the genes found do not depend on whether it is noticed.
# Suspects are samples that look like the other group on the genes that tell the groups apart, worst first.
print("suspect:", ", ".join(profiles.obs_names[est.suspects_]))
print("swapped:", ", ".join(profiles.obs_names[swapped]))
print("broken: ", ", ".join(profiles.obs_names[broken]))
est.result_.plot_rows()

# %%
# Results back into the file
# --------------------------
# ``sparsemean fit profiles.h5ad --group condition --out annotated.h5ad`` writes a copy with new columns.
folder = Path(tempfile.mkdtemp())
profiles.write_h5ad(folder / "profiles.h5ad")
command = Path(sysconfig.get_path("scripts")) / "sparsemean"
options = ["--group", "condition", "--quiet", "--out", folder / "annotated.h5ad"]
subprocess.run([command, "fit", folder / "profiles.h5ad", *options], check=True)
annotated = anndata.read_h5ad(folder / "annotated.h5ad")
annotated.var.loc[annotated.var["sparsemean_selected"], ["sparsemean_estimate", "sparsemean_p_adjusted"]]
