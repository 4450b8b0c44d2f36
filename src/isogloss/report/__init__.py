"""Self-contained HTML pages with charts: no scripts, no fonts, nothing loaded."""
