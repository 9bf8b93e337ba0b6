"""The three nouns that travel (Example → Batch → Result), the configuration and the contract between them.

Every other package may import this one; it imports none of them. Only `schema.batch` and `schema.constants` need torch.
Nothing is re-exported here: a program imports `schema.program` first, which is to be there at once.
"""
