"""What is published with a model."""
