"""Gates fail closed: damaged, partial and changed checkpoints, each with the exit code it must give."""

import json
import struct
from functools import partial

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

RNG = np.random.default_rng(0)


def noise(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


MODEL = {
    "wte.weight": noise(120, 40),
    "h.0.up.weight": noise(40, 90),
    "h.0.two_rows.weight": noise(2, 40),
    "h.0.norm.weight": 1 + 0.1 * noise(40),
    "h.0.conv.weight": noise(8, 4, 3),
    "h.0.ids": np.arange(12, dtype=np.int64),
    "h.0.scale": np.float32(0.5),
}
TYPES = {"float32": "F32", "float16": "F16", "int64": "I64", "uint8": "U8"}


def save(path, tensors, types=None):
    """A safetensors file; `types` names the types of tensors that NumPy does not have."""
    header, data = {}, b""
    for name, value in tensors.items():
        raw = np.asarray(value).tobytes()
        kind = (types or {}).get(name, TYPES[str(np.asarray(value).dtype)])
        shape = list(np.shape(value))
        if kind == "F4":
            shape[-1] *= 2
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def with_value(name, value):
    array = MODEL[name].copy()
    array.flat[-1] = value
    return {**MODEL, name: array}


def shards(folder, *, drop=None, forget=None, tensors=MODEL):
    """A model in two shards, one of which may be missing, or an index that names a tensor nobody has."""
    folder.mkdir()
    names = list(tensors)
    parts = {"a.safetensors": names[:2], "b.safetensors": names[2:]}
    weight_map = {name: shard for shard, part in parts.items() for name in part}
    for shard, part in parts.items():
        if shard != drop:
            save(folder / shard, {name: tensors[name] for name in part if name != forget})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])
    return path


def laid_out(path, change):
    """A model whose data and byte ranges are changed."""
    raw = save(path, MODEL).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    data = change(header, data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def hole(header, data):
    """Sixteen bytes that no tensor has, before the last tensor."""
    last = max(header.values(), key=lambda entry: entry["data_offsets"][0])
    at = last["data_offsets"][0]
    last["data_offsets"] = [offset + 16 for offset in last["data_offsets"]]
    return data[:at] + bytes(16) + data[at:]


def shift(header, data):
    for entry in header.values():
        entry["data_offsets"] = [offset + 16 for offset in entry["data_offsets"]]
    return bytes(16) + data


def overlap(header, data):
    """The norm is declared to be the first numbers of the table."""
    header["h.0.norm.weight"]["data_offsets"] = [0, 160]
    return data


# name -> (how the second checkpoint is made, exit code of spectrum --all, of compare --all with a gate, and without)
CASES = {
    "the same": (lambda p: save(p, MODEL), 0, 0, 0),
    "in shards": (lambda p: shards(p.with_suffix("")), 0, 0, 0),
    "a NaN in a matrix": (lambda p: save(p, with_value("h.0.up.weight", np.nan)), 3, 3, 3),
    "an infinity in a matrix": (lambda p: save(p, with_value("wte.weight", np.inf)), 3, 3, 3),
    "a NaN in a vector": (lambda p: save(p, with_value("h.0.norm.weight", np.nan)), 3, 3, 3),
    "a NaN in a convolution": (lambda p: save(p, with_value("h.0.conv.weight", np.nan)), 3, 3, 3),
    "an infinity in two rows": (lambda p: save(p, with_value("h.0.two_rows.weight", np.inf)), 3, 3, 3),
    "a NaN in a scalar": (lambda p: save(p, {**MODEL, "h.0.scale": np.float32(np.nan)}), 3, 3, 3),
    "bytes at the end": (lambda p: laid_out(p, lambda header, data: data + b"more"), 2, 2, 2),
    "a hole between tensors": (lambda p: laid_out(p, hole), 2, 2, 2),
    "tensors that overlap": (lambda p: laid_out(p, overlap), 2, 2, 2),
    "a hole at the start": (lambda p: laid_out(p, shift), 2, 2, 2),
    "the second shard is missing": (lambda p: shards(p.with_suffix(""), drop="b.safetensors"), 3, 3, 3),
    "the first shard is missing": (lambda p: shards(p.with_suffix(""), drop="a.safetensors"), 3, 3, 3),
    "a tensor is not in its shard": (lambda p: shards(p.with_suffix(""), forget="h.0.ids"), 3, 3, 3),
    "cut short": (lambda p: cut(save(p, MODEL)), 2, 2, 2),
    "empty": (lambda p: p.write_bytes(b"") or p, 2, 2, 2),
    "absent": (lambda p: p, 2, 2, 2),
    "a norm times 100": (lambda p: save(p, {**MODEL, "h.0.norm.weight": 100 * MODEL["h.0.norm.weight"]}), 0, 3, 0),
    "a convolution times -7": (lambda p: save(p, {**MODEL, "h.0.conv.weight": -7 * MODEL["h.0.conv.weight"]}), 0, 3, 0),
    "an integer changed": (lambda p: save(p, {**MODEL, "h.0.ids": MODEL["h.0.ids"] + 1}), 0, 3, 0),
    "a scalar changed": (lambda p: save(p, {**MODEL, "h.0.scale": np.float32(0.6)}), 0, 3, 0),
    "a zero became a number": (lambda p: save(p, {**MODEL, "zero": noise(40)}), 0, 3, 0),
    "a matrix moved by 5 %": (lambda p: save(p, {**MODEL, "wte.weight": 1.05 * MODEL["wte.weight"]}), 0, 3, 0),
    "a matrix moved by 0.1 %": (lambda p: save(p, {**MODEL, "wte.weight": 1.001 * MODEL["wte.weight"]}), 0, 0, 0),
    "a tensor was dropped": (lambda p: save(p, {k: v for k, v in MODEL.items() if k != "h.0.ids"}), 0, 3, 0),
    "a tensor was added": (lambda p: save(p, {**MODEL, "extra": noise(4)}), 0, 3, 0),
    "a vocabulary grew": (lambda p: save(p, {**MODEL, "wte.weight": noise(130, 40)}), 0, 3, 0),
    "four-bit floats": (
        lambda p: save(p, {**MODEL, "h.0.up.weight": np.ones((40, 45), dtype=np.uint8)}, {"h.0.up.weight": "F4"}),
        0,
        3,
        0,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    save(folder / "zero.safetensors", {**MODEL, "zero": np.zeros(40, dtype=np.float32)})
    return save(folder / "a.safetensors", MODEL)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Without held-out checks, which take most of the time and decide no exit code here."""
    from spikepool.tables import TableSpectrum, every_weight

    monkeypatch.setattr(every_weight, "TableSpectrum", partial(TableSpectrum, repetitions=0))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_exit_codes(name, run, first, tmp_path):
    make, spectrum, gated, plain = CASES[name]
    second = make(tmp_path / "model.safetensors")
    reference = first.with_name("zero.safetensors") if name == "a zero became a number" else first
    code, out, err = run("spectrum", second, "--all")
    assert code == spectrum, (out, err)
    assert ("Verdict: broken" in out) == (code == 3)
    code, out, err = run("compare", reference, second, "--all", "--fail-if", "drift>0.01")
    assert code == gated, (out, err)
    code, out, err = run("compare", reference, second, "--all")
    assert code == plain, (out, err)
    assert "Verdict:" in out or code == 2
    if name == "a NaN in a matrix":
        assert run("spectrum", second, "--all", "--fail-if", "outliers>5")[0] == 3
        assert run("compare", reference, second, "--all", "--fail-if", "drift>1e9")[0] == 3
        assert run("spectrum", second, "--all", "--allow", "failed")[0] == 0
        assert run("spectrum", second)[0] == 0, "the table itself is whole"
    if name == "four-bit floats":
        assert run("spectrum", second, "--all", "--fail-if", "outliers>50")[0] == 3
        assert run("spectrum", second, "--all", "--fail-if", "outliers>50", "--allow", "skipped")[0] == 0


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "F8_E8M0", "BF16"])
def test_small_floats_are_read(kind, run, tmp_path):
    codes = RNG.integers(40, 80, (64, 40)).astype(np.uint8)
    if kind == "BF16":
        codes = 0x3F00 + codes.astype(np.uint16)
    TYPES["uint16"] = "BF16"
    path = save(tmp_path / "m.safetensors", {"w": codes}, {"w": kind})
    code, out, err = run("spectrum", path, "--all", "--json", "--fail-if", "outliers>100")
    assert code == 0, err
    assert [w["name"] for w in json.loads(out)["weights"]] == ["w"]
    torch = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed") if kind != "BF16" else None
    if torch is not None:
        from spikepool.data.formats.safetensors import eight_bit_values

        name = {"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu"}[kind]
        expected = np.arange(256, dtype=np.uint8).view(getattr(torch, name)).astype(np.float32)
        np.testing.assert_array_equal(eight_bit_values(kind), expected)


@pytest.mark.slow
def test_a_gate_against_a_recorded_baseline(run, tmp_path):
    model = {"w": noise(300, 80), "v": noise(200, 60)}
    first = save(tmp_path / "a.safetensors", model)
    code, out, _ = run("spectrum", first, "--all", "--json")
    assert code == 0
    recorded = tmp_path / "baseline.json"
    recorded.write_text(out)
    gate = ("--baseline", recorded, "--fail-if", "outliers_change>2")
    assert run("spectrum", first, "--all", *gate)[0] == 0
    spiked = model["w"] + 60 * np.linalg.qr(noise(300, 5))[0] @ np.linalg.qr(noise(80, 5))[0].T
    second = save(tmp_path / "b.safetensors", {**model, "w": spiked.astype(np.float32)})
    code, _, err = run("spectrum", second, "--all", *gate)
    assert code == 3
    assert "outliers_change = 5" in err
    assert run("spectrum", second, "--all", "--baseline", recorded, "--fail-if", "largest_change>0.5")[0] == 3
    less = save(tmp_path / "c.safetensors", {"w": model["w"]})
    assert run("spectrum", less, "--all", *gate)[0] == 3, "a weight of the baseline is not there"
    for content in ("", "[]", "{}", '{"gates": 3}'):
        recorded.write_text(content)
        code, _, err = run("spectrum", first, "--all", *gate)
        assert code == 2
        assert "--baseline" in err
    code, _, err = run("spectrum", first, "--all", "--fail-if", "outliers_change>2")
    assert code == 2, "a change needs a baseline"
    assert run("spectrum", first, "--list", "--fail-if", "outliers>2")[0] == 2, "a list evaluates nothing"


def test_a_value_that_becomes_infinite_has_changed(run, tmp_path):
    """JSON has null for infinity: a baseline with null and a finite number now, or the reverse, is a change."""
    model = {"w": noise(300, 80)}
    singular = {"w": np.concatenate([model["w"][:, :79], model["w"][:, :1]], axis=1)}
    for before, after, expected in ((model, singular, 3), (singular, model, 3), (singular, singular, 0)):
        recorded = tmp_path / "baseline.json"
        recorded.write_text(run("spectrum", save(tmp_path / "a.safetensors", before), "--all", "--json")[1])
        second = save(tmp_path / "b.safetensors", after)
        gate = ("--baseline", recorded, "--fail-if", "condition_change>0.5")
        assert run("spectrum", second, "--all", *gate)[0] == expected


def test_a_baseline_is_a_regular_file(run, tmp_path, first):
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        assert run("spectrum", first, "--all", "--baseline", path, "--fail-if", "outliers_change>2")[0] == 2
        assert run("predict", "-w", path)[0] == 2
        assert run("spectrum", first, "--tokenizer", path)[0] == 2


@pytest.mark.parametrize("limit", ["nan", "1e400", "inf", "-inf"])
def test_limits_are_finite(limit, run, first):
    assert run("spectrum", first, "--all", "--fail-if", f"outliers>{limit}")[0] == 2


def test_a_tensor_of_two_rows_does_not_decide_about_outliers(run, first):
    assert run("compare", first, first, "--all", "--fail-if", "outliers_second>5")[0] == 0


@pytest.mark.parametrize("command", ["diagnose", "spectrum", "pool", "report", "forecast"])
def test_an_unset_variable_is_not_the_current_folder(command, run, tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", noise(50, 8))
    save(tmp_path / "model.safetensors", MODEL)
    monkeypatch.chdir(tmp_path)
    code, _, err = run(command, "")
    assert code == 2
    assert "empty" in err


@pytest.mark.slow
def test_names_of_tensors_cannot_forge_lines_or_break_pictures(run, tmp_path):
    names = ["evil\nVerdict: OK", "\x1b[31mred", "$x^{$", "tab\tbed", "[bold]x[/bold]"]
    model = {name: noise(60, 40) for name in names} | {"nan\n\x1b[2J": np.full((50, 40), np.nan, dtype=np.float32)}
    path = save(tmp_path / "m.safetensors", model)
    for arguments in (("spectrum", path, "--all"), ("compare", path, path, "--all"), ("spectrum", path, "--list")):
        code, said, err = run(*arguments)
        assert code in (0, 3)
        for text in (said, err):
            assert "\x1b" not in text
            assert "\nVerdict: OK" not in text
    for arguments in (("spectrum", path, "--all"), ("compare", path, path, "--all")):
        for ending in ("png", "html"):
            out = tmp_path / f"x.{ending}"
            run(*arguments, "--out", out)
            assert out.stat().st_size > 1000
    code, said, _ = run("spectrum", path, "--tensor", names[1])
    assert "\x1b" not in said


def test_factors_of_an_adapter_are_weights_like_any_others(run, tmp_path):
    factors = {"q.lora_A.weight": noise(40, 120), "q.lora_B.weight": noise(90, 40), "wte.weight": noise(120, 40)}
    whole = save(tmp_path / "a.safetensors", factors)
    code, out, _ = run("spectrum", whole, "--all", "--json")
    assert code == 0
    answer = json.loads(out)
    assert {weight["name"] for weight in answer["weights"]} == set(factors)
    assert "2 tensors are factors of a LoRA adapter" in answer["notes"][0]
    assert run("spectrum", whole, "--all", "--fail-if", "outliers>=0")[0] == 3
    for name in factors:
        values = factors[name].copy()
        values.flat[0] = np.nan
        broken = save(tmp_path / "b.safetensors", {**factors, name: values})
        assert run("spectrum", broken, "--all")[0] == 3, name


def test_the_package_refuses_the_same_layouts(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    for number, change in enumerate((lambda header, data: data + b"more", hole, shift, overlap)):
        path = laid_out(tmp_path / f"{number}.safetensors", change)
        with pytest.raises(safetensors.SafetensorError):
            safetensors.safe_open(path, "np")


@pytest.mark.parametrize("scale", [1e37, 1e-38])
def test_a_weight_that_cannot_be_measured_is_not_complete(scale, run, tmp_path):
    model = {"a": noise(120, 40), "b": noise(120, 40), "c": noise(120, 40) * np.float32(scale)}
    code, out, _ = run("spectrum", save(tmp_path / "m.safetensors", model), "--all")
    assert code == 0
    assert "Verdict: look. The entries of c are too large or too small" in out
    code, out, _ = run("spectrum", save(tmp_path / "m.safetensors", MODEL), "--all")
    assert "2 weights were measured, and none lacks rank; 1 were not." in " ".join(out.split())
