"""Students: smaller encoders that begin with what a larger one knows."""
