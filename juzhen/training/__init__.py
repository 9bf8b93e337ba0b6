"""Training in plain PyTorch: `juzhen.fit`, and the parts shared with the suite."""
