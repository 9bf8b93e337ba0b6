"""Models as LightningModules: their base class, and the scoring of pairs by each."""
