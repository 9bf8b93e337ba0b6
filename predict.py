"""The old name of `juzhen score`."""

from juzhen.cli.moved import answer

if __name__ == "__main__":
    answer("python predict.py", "juzhen score")
