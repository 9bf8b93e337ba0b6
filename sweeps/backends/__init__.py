"""Where the cells of a sweep run: this machine, a Slurm cluster, a Ray cluster. `interface` says what they share."""
