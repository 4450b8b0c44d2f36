"""The tables of the papers: what they print, how each of their systems is made, and ours beside theirs."""
