"""One encoder made of several that started alike."""
