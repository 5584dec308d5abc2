"""The layers of the package: imports go down, functions' imports included, and private names stay in their package."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "spikepool"

# A package may import itself and packages of lower layers.
LAYERS = {
    "errors": 0,
    "kit": 1,
    "drawing": 2,
    "laws": 3,
    "world": 3,
    "theory": 4,
    "simulation": 4,
    "model": 5,
    "data": 6,
    "ridge": 6,
    "pooling": 7,
    "trust": 7,
    "forecasting": 7,
    "tables": 7,
    "texts": 7.5,
    "sweeps": 8,
    "answers": 8,
    "reproduce": 9,
    "cli": 10,
    "explorer": 10,
    "__main__": 11,
}
# Packages that import another package of their own layer: the command that starts the explorer.
NEIGHBOURS = {("cli", "explorer")}
# `__init__` holds the version and the lazily loaded names; it imports nothing, so anyone may ask for the version.
TOP = {"spikepool"}


def modules():
    """Every module by its dotted name below spikepool."""
    paths = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        paths[name or "spikepool"] = path
    return paths


MODULES = modules()


def imports(source, known):
    """Modules below spikepool that a source imports anywhere, with the names taken from them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            if node.module == "spikepool" or (node.module or "").startswith("spikepool."):
                base = node.module[len("spikepool") :].lstrip(".")
                for alias in node.names:
                    inner = f"{base}.{alias.name}".lstrip(".")
                    yield (inner, None) if inner in known else (base or "spikepool", alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("spikepool."):
                    yield alias.name[len("spikepool.") :], None
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and str(first.value).startswith("spikepool."):
                yield str(first.value)[len("spikepool.") :], None


def package(module):
    return module.split(".")[0]


def faults(module, source, known):
    """What a module's imports break: the order of layers, or the privacy of a package."""
    broken = []
    for target, name in imports(source, known):
        if target in TOP:
            if name != "__version__":
                broken.append(f"{module} imports {name} from the package, not from its module")
            continue
        here, there = package(module), package(target)
        if here != there and LAYERS[there] >= LAYERS[here] and (here, there) not in NEIGHBOURS:
            broken.append(f"{module} (layer {LAYERS[here]}) imports {target} (layer {LAYERS[there]})")
        private = any(part.startswith("_") and part != "__main__" for part in (*target.split("."), name or ""))
        if private and here != there:
            broken.append(f"{module} imports the private {target}.{name or ''} of another package")
    return broken


def test_every_package_has_a_layer():
    packages = {package(name) for name in MODULES} - TOP
    assert packages <= set(LAYERS)
    assert len(list(PACKAGE.glob("*.py"))) <= 8


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted(set(MODULES) - TOP))
def test_imports_go_down(module):
    assert faults(module, MODULES[module].read_text(encoding="utf-8"), MODULES) == []


@pytest.mark.slow
def test_no_cycle():
    graph = {
        name: {target for target, _ in imports(path.read_text(encoding="utf-8"), MODULES)} - {name} - TOP
        for name, path in MODULES.items()
        if name not in TOP
    }
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done:
            return
        path.append(name)
        for target in sorted(graph.get(name, ())):
            visit(target)
        path.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)
    assert done >= set(graph)


def test_the_check_sees_an_import_that_goes_up():
    upward = "def f():\n    from spikepool.theory.spikes import bulk_edge\n"
    assert faults("kit.roots", upward, MODULES)
    assert faults("simulation.drawn", upward, MODULES), "theory and simulation do not import each other"
    hidden = 'def f():\n    import_module("spikepool.texts.encoders")\n'
    assert faults("pooling.saving", hidden, MODULES), "an import by name is an import"
    assert faults("theory.spikes", "from spikepool.laws._cubic import solve\n", MODULES), "private to laws"
    assert not faults("model", upward, MODULES)


@pytest.mark.slow
def test_no_computation_knows_matplotlib():
    allowed = {"drawing", "reproduce", "explorer"}
    users = [
        name
        for name, path in MODULES.items()
        if package(name) not in allowed
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("matplotlib"))
        or (isinstance(node, ast.Import) and any(alias.name.startswith("matplotlib") for alias in node.names))
    ]
    assert users == []
