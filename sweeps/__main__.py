"""The old home of verbs that `juzhen` has now."""

from juzhen.cli.moved import answer

if __name__ == "__main__":
    answer("python -m sweeps", "juzhen")
