"""Size and structure of the source: `python benchmarks/code.py [ROOT]`, by default of this checkout.

Lines of code are lines without blanks, comments and docstrings. A circle is a group of modules that import each other,
imports within functions and for type checkers included.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import tokenize
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("agentgym_py", "envs/agentgym_envs", "trainers/agentgym_trainers")
SILENT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(source: str, tree: ast.AST) -> int:
    """Count the lines that hold code."""
    docs = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for token in tokens if token.type not in SILENT for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - docs)


def function_lengths(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of each function and method, decorators left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def import_graph(trees: dict[str, ast.AST]) -> dict[str, set[str]]:
    """Map each module to the modules of ours that it imports."""
    graph = {}
    for module, tree in trees.items():
        targets = set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                targets |= {name if name in trees else node.module for name in names}
            elif isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
        graph[module] = targets & (trees.keys() - {module})
    return graph


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the groups of two and more modules that reach each other."""
    reachable = {}
    for module in graph:
        open_modules, reached = [module], set[str]()
        while open_modules:
            new = graph[open_modules.pop()] - reached
            reached |= new
            open_modules += new
        reachable[module] = reached
    groups = {frozenset(b for b in reachable[a] if a in reachable[b]) for a in graph if a in reachable[a]}
    return [set(group) for group in groups]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    root = parser.parse_args().root
    trees, lengths = dict[str, ast.AST](), list[int]()
    for package in PACKAGES:
        folder, lines, code = root / package, 0, 0
        for path in sorted(folder.rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source)
            parts = path.relative_to(folder.parent).with_suffix("").parts
            trees[".".join(parts).removesuffix(".__init__")] = tree
            lines, code = lines + len(source.splitlines()), code + code_lines(source, tree)
            lengths += function_lengths(tree)
        print(f"{package}: {lines:,} lines, {code:,} of code")
    core = root / "agentgym_py"
    rooms = [path for path in core.iterdir() if (path / "__init__.py").is_file()]
    print(f"agentgym_py: {len(list(core.glob('*.py')))} modules at the top, {len(rooms)} rooms")
    print(f"import circles: {len(circles(import_graph(trees)))}")
    print(f"{len(lengths):,} functions: median {statistics.median(lengths):g} lines, longest {max(lengths)}")
    tests = [
        node for path in (root / "tests").rglob("test_*.py") for node in ast.walk(ast.parse(path.read_text("utf-8")))
    ]
    print(f"{sum(isinstance(n, ast.FunctionDef) and n.name.startswith('test_') for n in tests):,} test functions")


if __name__ == "__main__":
    main()
