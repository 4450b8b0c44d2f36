"""Where pairs come from and what makes them fit to train on."""
