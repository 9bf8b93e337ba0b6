"""What varies (yaml), the typed shape of it, and the way from a name in it to a class."""
