"""The pipeline: plan, data, counts, inference, screening, refinement, Estimate; and what is kept of it."""
