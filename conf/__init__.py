"""What varies (yaml), the typed shape of it, and the way from a name in it to a class."""

from conf.resolvers import register_environment

register_environment()  # whoever reads a configuration has imported this
