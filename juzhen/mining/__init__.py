"""Makes data sets with trained models; each is then a dataset like any other."""
