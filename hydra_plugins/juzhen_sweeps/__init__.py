"""What `train.py -m` runs: Hydra finds these classes because they are here. Nothing here loads torch."""
