"""Learning in plain PyTorch: what `juzhen.fit` does, and what the suite shares with it."""
