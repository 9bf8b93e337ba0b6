"""The old name of `juzhen evaluate`."""

from juzhen.cli.moved import answer

if __name__ == "__main__":
    answer("python evaluate_runs.py", "juzhen evaluate")
