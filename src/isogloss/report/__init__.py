"""Self-contained HTML pages with charts, and the model card: no scripts, no fonts, nothing loaded."""
