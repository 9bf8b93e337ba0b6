"""From files to batches: sources, views, the batch stream, the one LightningDataModule."""
