"""Engines: how a training step is run, eagerly or as recorded CUDA graphs."""
