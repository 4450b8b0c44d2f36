"""Mine parallel sentences from two monolingual files: neighbours, margin, matching, thresholds."""
