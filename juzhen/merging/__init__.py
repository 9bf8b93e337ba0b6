"""Merge encoders with a common start into one."""
