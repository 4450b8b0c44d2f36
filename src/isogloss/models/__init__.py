"""Models: loading them, embedding text with them, and the students that are trained."""
