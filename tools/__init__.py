"""What makes the project's files: generators of the built-in data, tables of the documentation."""
