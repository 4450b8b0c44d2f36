"""The leak scan: evaluation text that must not be trained on."""
