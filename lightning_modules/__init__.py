"""Models as LightningModules: what they share, and how each of them scores a pair."""
