"""Reading pairs and other text from files in any layout."""
