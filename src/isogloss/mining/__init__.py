"""Mine parallel sentences from two monolingual files: neighbors, margin, matching, thresholds."""
