"""From a command line to a checked job, its folder and its stages."""
