"""Writes every built-in data set: `python -m tools.synthetic`."""

from tools.synthetic.build import FOLDER, generate, write

if __name__ == "__main__":
    for path, num_rows in write(generate(), FOLDER):
        print(f"{path}: {num_rows} rows, {path.stat().st_size / 1000:.0f} kB")
