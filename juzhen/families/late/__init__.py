"""Late interaction: a vector for each token (ColBERT), and encoders apart for queries and documents."""
