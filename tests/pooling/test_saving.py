"""Saved models and ONNX files: the same predictions elsewhere, named errors for what is damaged."""

import json
import subprocess
import sys

import numpy as np
import pytest

import spikepool as sp
from spikepool.errors import InvalidInputError, ModelFormatError
from spikepool.pooling.catalogue import pooling_names
from spikepool.pooling.registry import register_rule, unregister

pytest.importorskip("safetensors", reason="the tables extra is not installed")


def sequences(n=160, T=7, d=9, seed=0, sink=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, T, d)) + 1
    y = np.array(['über, \n"quoted"', "b", "<script>"])[rng.integers(0, 3, n)]
    where = rng.integers(1, 3, n)
    X[np.arange(n), where, 0] += 5
    X[np.arange(n), where, 1] += 2 * (y == "b")
    X[:, 2, 3] += 2 * (y == "<script>")
    if sink:
        X[:, 0] = 900 * np.eye(d)[4] + 0.1 * rng.normal(size=(n, d))
    mask = np.arange(T) < rng.integers(3, T + 1, n)[:, None]
    return X, y, mask


def lengthened(X, mask, T):
    """The rows at another length: padded with something that must not be looked at, or cut."""
    n, given, d = X.shape
    out, seen = np.full((n, T, d), 77.0), np.zeros((n, T), dtype=bool)
    keep = min(T, given)
    out[:, :keep], seen[:, :keep] = X[:, :keep], mask[:, :keep]
    return out, seen


@pytest.fixture(scope="module", params=[*pooling_names(), "sink"])
def fitted(request):
    name = request.param
    X, y, mask = sequences(sink=name == "sink")
    model = sp.LearnedPoolingClassifier(pooling="auto" if name == "sink" else name, max_steps=5, n_heads=2)
    return model.fit(X, y, mask=mask), X, y, mask


def test_a_reloaded_model_predicts_the_same(fitted, tmp_path):
    model, X, _, mask = fitted
    again = sp.load(model.save(tmp_path / "model"))
    for T in (5, 7, 12):
        x, m = lengthened(X, mask, T)
        # the same numbers in another layout of memory: sums are rounded differently
        np.testing.assert_allclose(again.predict_proba(x, mask=m), model.predict_proba(x, mask=m), atol=1e-12)
        np.testing.assert_allclose(again.transform(x, mask=m), model.transform(x, mask=m), atol=1e-12)
    assert again.summary() == model.summary()
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.classes_, model.classes_)
    assert repr(again.class_scores_) == repr(model.class_scores_)
    np.testing.assert_allclose(again.token_weights(X[:3], mask[:3]), model.token_weights(X[:3], mask[:3]))
    assert again.plot(what="weights") is not None


def test_onnx_gives_the_same_probabilities(fitted, tmp_path):
    pytest.importorskip("onnx", reason="the onnx extra is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model, X, _, mask = fitted
    session = runtime.InferenceSession(str(model.to_onnx(tmp_path / "model.onnx")), providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == ["tokens", "mask"]
    assert [o.name for o in session.get_outputs()] == ["label", "probabilities"]
    for T in (5, 7, 12):
        x, m = lengthened(X, mask, T)
        label, probabilities = session.run(None, {"tokens": x.astype(np.float32), "mask": m})
        expected = model.predict_proba(x, mask=m)
        np.testing.assert_allclose(probabilities, expected, atol=1e-4)
        clear = np.sort(expected, axis=1)[:, -1] - np.sort(expected, axis=1)[:, -2] > 1e-3
        np.testing.assert_array_equal(model.classes_[label][clear], model.predict(x, mask=m)[clear])
    holes = np.random.default_rng(1).random(mask.shape) < 0.6
    holes[:, 2] = True
    _, probabilities = session.run(None, {"tokens": X.astype(np.float32), "mask": holes})
    np.testing.assert_allclose(probabilities, model.predict_proba(X, mask=holes), atol=1e-4)
    holes[[1, 4]] = False  # rows in which everything is masked, among others
    _, probabilities = session.run(None, {"tokens": X.astype(np.float32), "mask": holes})
    zeros = sp.load(model.save(tmp_path / "m")).set_params(empty="zero")
    np.testing.assert_allclose(probabilities, zeros.predict_proba(X, mask=holes), atol=1e-4)
    with pytest.raises(InvalidInputError, match=r"2 row\(s\) have no observed token: 1, 4"):
        model.predict_proba(X, mask=holes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["two classes", "regression", "table", "layers"])
def test_other_kinds_of_models_travel(kind, tmp_path):
    onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    assert onnx is not None
    X, y, mask = sequences()
    given = {"mask": mask}
    if kind == "regression":
        model = sp.LearnedPoolingRegressor(max_steps=5).fit(X, X[:, 1, 0] + X[:, :, 1].sum(axis=1), **given)
    elif kind == "table":
        rng = np.random.default_rng(0)
        table, X = rng.normal(size=(30, 6)), rng.integers(0, 30, (160, 7))
        model = sp.LearnedPoolingClassifier(table=table, padding=3, max_steps=5).fit(X, X[:, 0] % 2 == 0)
        mask, given = np.ones(X.shape, dtype=bool), {}
    elif kind == "layers":
        X = np.stack([0.2 * X, X, 3 * X + np.random.default_rng(1).normal(size=X.shape)], axis=1)
        model = sp.LearnedPoolingClassifier(max_steps=5).fit(X, y, **given)
        assert model.layer_ in (0, 1, 2)
    else:
        model = sp.LearnedPoolingClassifier(max_steps=5).fit(X, y == "b", **given)
    again = sp.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(X, **given), model.predict(X, **given))
    session = runtime.InferenceSession(str(again.to_onnx(tmp_path / "m.onnx")), providers=["CPUExecutionProvider"])
    tokens = X.astype(np.int64 if kind == "table" else np.float32)
    found = session.run(None, {"tokens": tokens, "mask": mask})
    if kind == "regression":
        np.testing.assert_allclose(found[0], model.predict(X, **given), atol=1e-4 * np.ptp(found[0]))
    else:
        np.testing.assert_allclose(found[1], model.predict_proba(X, **given), atol=1e-4)


@pytest.mark.slow
def test_another_process_reads_what_one_has_written(tmp_path):
    X, y, mask = sequences()
    model = sp.LearnedPoolingClassifier(pooling="concat").fit(X, y, mask=mask)
    model.save(tmp_path / "m")
    np.savez(tmp_path / "x.npz", X=X, mask=mask)
    program = (
        "import sys, numpy as np, spikepool as sp; d = np.load(sys.argv[1] + '/x.npz')\n"
        "np.save(sys.argv[1] + '/p.npy', sp.load(sys.argv[1] + '/m').predict_proba(d['X'], mask=d['mask']))"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "p.npy"), model.predict_proba(X, mask=mask), atol=1e-9)


def test_damaged_foreign_and_newer_models_are_refused(tmp_path):
    X, y, mask = sequences()
    model = sp.LearnedPoolingClassifier(pooling="mean").fit(X, y, mask=mask)

    def copy(name):
        return model.save(tmp_path / name)

    def edited(name, **changes):
        folder = copy(name)
        content = json.loads((folder / "model.json").read_text())
        (folder / "model.json").write_text(json.dumps({**content, **changes}))
        return folder

    arrays = copy("arrays") / "arrays.safetensors"
    data = bytearray(arrays.read_bytes())
    data[-3] ^= 1
    arrays.write_bytes(bytes(data))
    cut = copy("cut") / "model.json"
    cut.write_text(cut.read_text()[:-40])
    (tmp_path / "empty").mkdir()
    (copy("gone") / "arrays.safetensors").unlink()
    cases = {
        arrays.parent: "checksum",
        cut.parent: "cannot read",
        tmp_path / "empty": "cannot read",
        tmp_path / "nowhere": "no saved model",
        tmp_path / "gone": "cannot read",
        edited("newer", version=99): "version 99",
        edited("foreign", format="other"): "not a saved model",
        edited("class", **{"class": "Popen"}): "damaged",
        edited("attributes", fitted={"class": "Popen", "fields": {}}): "damaged",
        edited("list", fitted=[1, 2]): "damaged",
        edited("older", version=2): "Fit it again on its training data",
        edited("edited", spikepool="0.0"): r"model\.json of the model is damaged: its checksum differs",
        edited("unmarked", content_sha256=None): r"model\.json of the model is damaged: its checksum differs",
    }
    for folder, message in cases.items():
        with pytest.raises(ModelFormatError, match=message):
            sp.load(folder)
    with pytest.raises(InvalidInputError, match="exists"):
        model.save(tmp_path / "empty")
    with pytest.raises(InvalidInputError, match="exists"):
        model.save(tmp_path / "empty", overwrite=True)  # not a model
    with pytest.raises(InvalidInputError, match="exists"):
        model.save(cut.parent)
    np.testing.assert_array_equal(sp.load(model.save(cut.parent, overwrite=True)).coef_, model.coef_)
    assert sorted(p.name for p in cut.parent.iterdir()) == ["arrays.safetensors", "model.json"]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]  # nothing is left behind


@pytest.mark.slow
def test_a_rule_registered_in_one_place_is_known_everywhere(tmp_path):
    """The token in the middle: `auto` compares and chooses it, sentences describe it, models with it are saved."""

    def middle(x, observed):
        place = (observed.sum(axis=1) - 1) // 2
        return x[np.arange(len(x)), place]

    register_rule("middle", "the token in the middle", middle)
    try:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 25, 30))
        y = X[:, 12, :3].sum(axis=1) + 0.3 * rng.normal(size=300) > 0
        model = sp.LearnedPoolingClassifier().fit(X, y)
        assert "middle" in pooling_names()
        assert model.decision_ == "middle"
        np.testing.assert_allclose(model.transform(X), X[:, 12])
        assert "the token in the middle" in sp.report(X, y).choose.verdict
        alone = sp.LearnedPoolingClassifier(pooling="middle").fit(X, y)
        np.testing.assert_array_equal(sp.load(alone.save(tmp_path / "m")).predict(X), alone.predict(X))
        with pytest.raises(InvalidInputError, match="cannot be written as ONNX"):
            alone.to_onnx(tmp_path / "m.onnx")
        with pytest.raises(InvalidInputError, match="registered already"):
            register_rule("middle", "again", middle)
    finally:
        unregister("middle")
    with pytest.raises(ModelFormatError, match="not registered"):
        sp.load(tmp_path / "m")
    with pytest.raises(InvalidInputError, match="pooling"):
        sp.LearnedPoolingClassifier(pooling="middle").fit(X, y)


def test_a_replaced_model_is_the_old_or_the_new_one(tmp_path, monkeypatch):
    """A failure while writing, at any file, leaves the old model; a folder with other files is not replaced."""
    X, y, _ = sequences(60)
    old, new = (
        sp.LearnedPoolingClassifier(pooling="mean").fit(X, y),
        sp.LearnedPoolingClassifier(pooling="last").fit(X, y),
    )
    old.save(tmp_path / "m")
    for name in ("write_bytes", "write_text"):
        with monkeypatch.context() as patch:
            patch.setattr(f"pathlib.Path.{name}", interrupted)
            with pytest.raises(KeyboardInterrupt):
                new.save(tmp_path / "m", overwrite=True)
        assert sp.load(tmp_path / "m").decision_ == "mean"
        assert [p.name for p in tmp_path.iterdir()] == ["m"]
    (tmp_path / "m" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match=r"notes\.txt"):
        new.save(tmp_path / "m", overwrite=True)
    with pytest.raises(ModelFormatError, match=r"does not list.*notes\.txt"):
        sp.load(tmp_path / "m")
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"
    (tmp_path / "m" / "notes.txt").unlink()
    new.save(tmp_path / "m", overwrite=True)
    assert sp.load(tmp_path / "m").decision_ == "last"
    (tmp_path / "theirs").mkdir()
    with pytest.raises(InvalidInputError, match="exists and is not a saved model"):
        new.save(tmp_path / "theirs", overwrite=True)


def test_an_interrupted_export_keeps_the_old_file(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    X, y, _ = sequences(60)
    model = sp.LearnedPoolingClassifier(pooling="mean").fit(X, y)
    old = model.to_onnx(tmp_path / "m.onnx").read_bytes()
    monkeypatch.setattr(onnx, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.to_onnx(tmp_path / "m.onnx", overwrite=True)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("m.onnx", old)]


def interrupted(*arguments, **options):
    raise KeyboardInterrupt
