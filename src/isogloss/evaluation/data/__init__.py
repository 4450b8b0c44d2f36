"""Where test sets are found: local files, the hub, and the list of known sets."""
