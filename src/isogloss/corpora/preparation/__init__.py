"""The stages of `prepare`: score, select, count, write."""
