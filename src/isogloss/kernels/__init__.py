"""Fast building blocks: packed sequences, short attention, fused projections, flat and row-wise AdamW."""
