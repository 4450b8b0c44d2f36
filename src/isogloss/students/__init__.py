"""What is trained: a body, its vocabulary, and the bridge to the teacher's space."""
