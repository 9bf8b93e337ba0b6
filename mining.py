"""The old name of some verbs of `juzhen`."""

from juzhen.cli.moved import answer

if __name__ == "__main__":
    answer("python -m mining", "juzhen")
