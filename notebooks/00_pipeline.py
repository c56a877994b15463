# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A pipeline test
# Inline math $\hat\theta(w)$ and
#
# $$ \hat\theta(w) = \arg\min_\theta F(\theta, w) $$ (eq-test)

# %% tags=["parameters", "remove-cell"]
scale = "quick"
seed = 1

# %% tags=["remove-cell"]
from acvlib import figures, ledger

ledger.begin("00_pipeline", scale, seed)

# %% tags=["remove-output"]
fig, ax = figures.subplots()
ax.plot([1, 2, 3])
figures.save(fig, "traffic_ladder")

# %% [markdown]
# ```{figure} figures/traffic_ladder.svg
# :name: fig-traffic-ladder
# :alt: A line that rises.
# A caption.
# ```

# %%
ledger.record("ghosh.prop3.chain", 1e-15)

# %%
ledger.record("ghosh.prop3.ring", 0.1)
