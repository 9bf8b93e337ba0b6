"""Foundation of all packages: kinds of rows, examples, results, errors, files. It imports no other package of juzhen.

Only `juzhen.core.batch` needs torch.
"""
