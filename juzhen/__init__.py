"""juzhen (句阵): sentence embeddings for Chinese and English."""
