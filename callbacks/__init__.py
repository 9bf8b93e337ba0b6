"""What watches over a training: checkpoints, resume, progress, loggers, results."""
