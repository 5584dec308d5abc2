"""Uploads: good files give the library's own analysis, bad ones a message."""

import numpy as np
import pytest
import upload_files as files

import spikepool as sp
from spikepool.explorer.upload_view import present
from spikepool.explorer.uploads import UploadError, check_upload, read_csv, upload_task

DEADLINE = 120


def send(application, kind, name, body, **more):
    query = {"kind": kind, "name": name, **more}
    return application.client.post("/upload", query_string=query, data=body)


def finish(application, answer):
    assert answer.status_code == 200, answer.data
    job = application.services.jobs.find(answer.get_json()["job"])
    assert job.finished.wait(DEADLINE)
    return job


def quietly(share, note):
    """A report nobody reads."""


@pytest.mark.parametrize("ending", [".npy", ".csv"])
def test_features_are_diagnosed(application, ending):
    C = files.pooled_features()
    body = files.npy(C) if ending == ".npy" else files.csv(C, header=",".join(f"c{i}" for i in range(C.shape[1])))
    job = finish(application, send(application, "features", f"mine{ending}", body, V="2000"))
    assert job.status == "done", job.error
    direct = sp.diagnose(C, V=2000)
    assert direct.verdict == "signal"
    found = job.result["outliers"]
    assert [o["eigenvalue"] for o in found] == pytest.approx([o.eigenvalue for o in direct.outliers], rel=1e-9)
    assert [o["alignment"] for o in found] == pytest.approx([o.alignment for o in direct.outliers], rel=1e-9)
    assert f"{direct.outliers[0].alignment:.2f}" in job.result["verdict"]
    assert job.result["edge"] == pytest.approx(direct.edge)


def test_noise_is_called_noise(application):
    C = files.pooled_features(strength=0.0)
    job = finish(application, send(application, "features", "noise.npy", files.npy(C)))
    assert "no component can be trusted" in job.result["verdict"]
    assert job.result["outliers"] == []
    view = present(job.result, "dark")
    assert view.rows == ()
    assert view.caption == "No outliers."


@pytest.mark.parametrize("name", ["t.npy", "t.npz", "t.safetensors", "t.csv"])
def test_tables_are_analysed(application, name):
    table = files.embedding_table()
    body = {
        "t.npy": lambda: files.npy(table),
        "t.npz": lambda: files.npz(embedding=table),
        "t.safetensors": lambda: files.safetensors("wte.weight", table),
        "t.csv": lambda: files.csv(table),
    }[name]()
    job = finish(application, send(application, "table", name, body))
    assert job.status == "done", job.error
    direct = sp.TableSpectrum(progress=False).fit(table)
    assert job.result["shape"] == list(table.shape)
    assert job.result["outlier_count"] == direct.n_outliers_ == 2
    # text carries all digits, float32 as float64
    assert [o["eigenvalue"] for o in job.result["outliers"]] == pytest.approx(
        [o.eigenvalue for o in direct.outliers_], rel=1e-6
    )
    if name != "t.csv":
        assert job.result["verdict"] == direct.verdict_


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_views_show_the_numbers(theme, tmp_path):
    C, table = files.pooled_features(), files.embedding_table()
    np.save(tmp_path / "c.npy", C)
    np.save(tmp_path / "t.npy", table)
    features = upload_task({"kind": "features", "path": str(tmp_path / "c.npy"), "V": None}, quietly)
    spectrum = upload_task({"kind": "table", "path": str(tmp_path / "t.npy"), "V": None}, quietly)
    view = present(features, theme)
    assert "300 sequences in 40 dimensions" in view.title
    assert view.rows[0][0] == f"{features['outliers'][0]['eigenvalue']:.4g}"
    assert len(view.rows[0]) == len(view.columns)
    assert f"{view.headline} {view.details}".strip() == features["verdict"]
    view = present(spectrum, theme)
    assert f"{view.headline} {view.details}" == spectrum["verdict"]
    assert "280 tokens in 60 dimensions" in view.title
    assert len(view.rows) == 2
    assert "white" in view.caption


def test_fitted_curve_and_histogram_have_the_same_mass(tmp_path):
    for kind, array in (("features", files.pooled_features()), ("table", files.embedding_table())):
        np.save(tmp_path / "a.npy", array)
        result = upload_task({"kind": kind, "path": str(tmp_path / "a.npy"), "V": None}, quietly)
        x, y = map(np.asarray, result["curve"])
        curve = np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2)
        edges, density = (np.asarray(result["histogram"][key]) for key in ("edges", "density"))
        total = np.sum(np.diff(edges) * density)
        assert total == pytest.approx(1.0)
        outliers = result["outlier_count"] / array.shape[1]
        assert curve == pytest.approx(total - outliers, abs=0.05)


@pytest.mark.parametrize(
    ("kind", "name", "body", "message"),
    [
        ("features", "a.npy", b"not a numpy file at all", "format"),
        ("features", "a.npy", files.npy(np.array([{"a": 1}], dtype=object)), "(?i)object|pickle|number"),
        ("features", "a.npy", files.npy(np.zeros((3, 3))), "at least 4"),
        ("features", "a.npy", files.npy(np.ones((20, 8))), "equal"),
        ("features", "a.npy", files.npy(np.full((20, 8), np.nan)), "NaN"),
        ("features", "a.npy", files.npy(np.ones(20)), "(?i)shape|dimension|table"),
        ("features", "a.csv", b"a,b\nc,d\n", "not a table of numbers"),
        ("features", "a.csv", b"1,2\n3\n", "not a table of numbers"),
        ("features", "a.csv", b"\xff\xfe\x00", "not a table of numbers"),
        ("features", "a.csv", b"nan,1\n2,3\n", "NaN"),
        ("table", "a.safetensors", b"\x00" * 40, "."),
        ("table", "a.safetensors", b"\x80\x04\x95rest of a pickle", "pickle"),
        ("table", "a.npy", b"\x80\x04\x95rest of a pickle", "pickle"),
        ("table", "a.gguf", b"GGUF" + b"\xff" * 60, "."),
        ("table", "a.parquet", b"PAR1" + b"\x00" * 60, "."),
    ],
)
def test_bad_files_give_a_message(application, kind, name, body, message):
    job = finish(application, send(application, kind, name, body))
    assert job.status == "failed"
    assert "unexpectedly" not in job.error
    import re

    assert re.search(message, job.error), job.error


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"kind": "features"},
        {"kind": "other", "name": "a.npy"},
        {"kind": "features", "name": "a.pkl"},
        {"kind": "features", "name": "a.safetensors"},
        {"kind": "table", "name": "model.bin"},
        {"kind": "table", "name": "../../etc/passwd"},
        {"kind": "features", "name": "a.npy", "V": "x"},
        {"kind": "features", "name": "a.npy", "V": "-2"},
        {"kind": "features", "name": "a.npy", "V": "9" * 50},
        {"kind": "features", "name": "a.npy", "V": "٣"},
    ],
)
def test_bad_requests_are_refused(application, query):
    with pytest.raises(UploadError):
        check_upload(query)
    assert application.client.post("/upload", query_string=query, data=b"x").status_code == 400


def test_an_empty_upload_is_refused(application):
    assert send(application, "features", "a.npy", b"").status_code == 411


def test_a_name_is_only_an_ending():
    assert check_upload({"kind": "table", "name": "../../../home/x/y.NPY"}) == {
        "kind": "table",
        "ending": ".npy",
        "V": None,
    }


def test_a_file_that_is_too_large_is_refused(application):
    answer = send(application, "features", "a.npy", b"x" * (application.settings.max_upload_bytes + 1))
    assert answer.status_code == 413
    assert not list(application.folder.iterdir())


def test_csv_with_and_without_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2\n3,4.5\n")
    np.testing.assert_array_equal(read_csv(path), [[1, 2], [3, 4.5]])
    path.write_text("first,second\n1,2\n3,4.5\n")
    np.testing.assert_array_equal(read_csv(path), [[1, 2], [3, 4.5]])


def test_uploads_leave_nothing_behind(application):
    finish(application, send(application, "features", "a.npy", files.npy(files.pooled_features())))
    assert not list(application.folder.iterdir())
