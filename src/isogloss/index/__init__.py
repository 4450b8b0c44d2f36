"""A vector database with the teacher's embeddings, searched with a student's."""
