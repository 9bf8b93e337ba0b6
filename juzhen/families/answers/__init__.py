"""Language models that score a query and a document by their answer."""
