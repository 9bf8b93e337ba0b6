"""What data and trained models are like: probes that train nothing."""
