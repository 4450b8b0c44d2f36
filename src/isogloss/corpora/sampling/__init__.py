"""Which pairs an epoch has, and in which order."""
