"""Hard negatives, paraphrases and clusters. The results are data sets like any other."""
