"""No file of the product needs itself: neither through imports at its top, nor through some inside functions."""

from pathlib import Path

from sources import import_statements

OUTSIDE = ("tests", "benchmarks")


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def needed(path: Path, names: set[str]) -> set[str]:
    """Modules of `names` that a file imports, wherever in it: at the top, in functions, for type checkers alone."""
    found: set[str] = set()
    for module, *parts in import_statements(path):
        found |= {*parts} & names or {module} & names
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one circle in order, the first one also at the end; [] where there is none."""
    done: set[str] = set()

    def walk(module: str, above: list[str]) -> list[str]:
        if module in above:
            return [*above[above.index(module) :], module]
        if module in done:
            return []
        for other in sorted(graph[module]):
            if found := walk(other, [*above, module]):
                return found
        done.add(module)
        return []

    return next((found for module in sorted(graph) if (found := walk(module, []))), [])


def product_graph(root: Path) -> dict[str, set[str]]:
    """Module → the modules of the product that it imports; a package stands for its __init__.py."""
    folders = {path.parent for path in root.glob("*/__init__.py")} - {root / name for name in OUTSIDE}
    paths = [*root.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    modules = {module_name(path, root): path for path in paths}
    return {name: needed(path, set(modules)) for name, path in modules.items()}


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_file_needs_itself(project_root):
    graph = product_graph(project_root)
    assert "juzhen.encoders.sentence_encoder" in graph
    assert "juzhen.encoders.pooled_encoder" in graph["juzhen.encoders.sentence_encoder"]
    assert circle(graph) == []
