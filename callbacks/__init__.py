"""Callbacks of a training: checkpoints, resume, progress, loggers, results."""

CHECKPOINTS = "checkpoints"
RESUME_FILE = "resume.ckpt"
IN_CHECKPOINTS = r"resume\.ckpt|best\.ckpt|snapshot\.json|\.juzhen"
"""What a run writes to that folder, or wrote to it before there was only the disk."""
