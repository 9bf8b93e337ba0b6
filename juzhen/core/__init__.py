"""The three nouns that travel (Example → Batch → Result), the configuration and the contract between them.

Every other package may import this one; it imports none of them. Only `juzhen.core.batch` and `juzhen.core.constants` need torch.
Nothing is re-exported here: a program imports `juzhen.cli.program` first, which is to be there at once.
"""
