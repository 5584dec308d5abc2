"""Uploads: good files give the library's own analysis, bad ones a message."""

import numpy as np
import pytest
import upload_files as files

import spikepool as sp
from spikepool.data import open_blocks
from spikepool.explorer import Settings
from spikepool.explorer.upload_view import _spectrum, outlier_caption, present
from spikepool.explorer.uploads import Part, Upload, UploadError, check_upload, upload_task

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


@pytest.mark.parametrize("ending", [".npy", ".csv", ".parquet"])
def test_features_are_diagnosed(application, ending, tmp_path):
    C = files.pooled_features()
    if ending == ".parquet":
        pd = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        pd.DataFrame(C, columns=[f"c{i}" for i in range(C.shape[1])]).to_parquet(tmp_path / "c.parquet")
        body = (tmp_path / "c.parquet").read_bytes()
    else:
        body = files.npy(C) if ending == ".npy" else files.csv(C, header=",".join(f"c{i}" for i in range(C.shape[1])))
    job = finish(application, send(application, "features", f"mine{ending}", body))
    assert job.status == "done", job.error
    direct = sp.report(C, random_state=0)
    assert job.result["record"]["trust"] == direct.to_dict()["trust"]
    choose, trust, plan = job.result["answers"]
    assert trust["verdict"] == direct.trust.verdict
    assert trust["advice"] == direct.trust.advice
    assert [part["answered"] for part in (choose, trust, plan)] == [False, True, False]
    assert "no labels" in plan["verdict"]


def test_three_files_give_three_answers(application):
    X, y = files.labelled_tokens()
    mask = np.ones(X.shape[:2], dtype=bool)
    mask[::3, 3] = False
    parts = {"labels": files.npy(y), "mask": files.npy(mask)}
    query = {"kind": "features", "name": "x.npy", "target": "0.95"}
    for role, body in parts.items():
        query |= {role: f"{role}.npy", f"{role}_size": str(len(body))}
    answer = application.client.post("/upload", query_string=query, data=b"".join([*parts.values(), files.npy(X)]))
    job = finish(application, answer)
    assert job.status == "done", job.error
    direct = sp.report(X, y, mask=mask, target=0.95, random_state=0)
    assert job.result["record"] == direct.to_dict()
    assert [part["answered"] for part in job.result["answers"]] == [True, True, True]
    assert all(part["pictures"] and part["pictures"][0].startswith("<svg") for part in job.result["answers"])
    # everything can be taken away, and only by who has the job's name
    for kind, content in (("csv", "text/csv"), ("json", "application/json"), ("html", "text/html")):
        export = application.client.get(f"/export/your-data.{kind}?job={job.id}")
        assert export.status_code == 200
        assert export.content_type.startswith(content)
        assert application.client.get(f"/export/your-data.{kind}?job=other").status_code == 404
    assert export.get_data(as_text=True).count("<svg") >= 3
    assert application.client.get(f"/export/your-data.exe?job={job.id}").status_code == 404


@pytest.mark.parametrize(
    ("sizes", "status"),
    [
        ({"labels_size": "10"}, 400),
        ({"labels_size": "999999"}, 400),
        ({"labels_size": "0"}, 400),
        ({"labels_size": "-1"}, 400),
    ],
)
def test_lengths_that_do_not_add_up_are_refused_or_explained(application, sizes, status):
    query = {"kind": "features", "name": "x.npy", "labels": "y.npy", **sizes}
    answer = application.client.post("/upload", query_string=query, data=b"0123456789")
    assert answer.status_code == status
    assert not list(application.folder.iterdir())


def test_no_number_is_shown_that_the_verdict_disowns():
    """A poor fit has no numbers in the library; the page adds none."""
    result = {
        "kind": "features",
        "source": "rows",
        "answers": [
            {
                "name": "trust", "question": "?", "answered": True, "verdict": "v", "advice": "a",
                "notes": [], "numbers": "", "pictures": [],
            }
        ],
    }  # fmt: skip
    text = str(present(result, "light"))
    assert not any(
        character.isdigit() for character in text.replace("tabIndex='0'", "").replace("h2", "").replace("H2", "")
    )


def test_the_chart_of_a_table_counts_what_it_leaves_out():
    """Outliers up to the end of the axis are drawn; the others are counted, with the largest named."""
    result = {
        "kind": "table", "shape": [100, 10], "verdict": "A. B.", "edge": 0.27, "curve": [[0.0, 0.2], [1.0, 0.0]],
        "histogram": {"edges": [0.0, 0.1, 0.27], "density": [1.0, 2.0]}, "counts": {"white": 23},
        "outlier_count": 23,
        "outliers": [
            {"eigenvalue": v, "population_eigenvalue": v, "distance": 1.0} for v in [5.0, 1.09, 1.05, *[0.4] * 17]
        ],
    }  # fmt: skip
    figure = _spectrum(result, "light")
    right = figure["layout"]["xaxis"]["range"][1]
    drawn = next(part["x"] for part in figure["data"] if part["name"] == "outliers")
    assert right > 1.09
    assert max(drawn) == 1.09
    notes = [note["text"] for note in figure["layout"]["annotations"]]
    assert "4 more, up to 5 →" in notes  # 23 in all, 19 drawn
    assert outlier_caption(result).startswith("The 20 largest of 23 outliers")
    result["outliers"], result["outlier_count"] = result["outliers"][1:3], 2
    assert not any("more" in note["text"] for note in _spectrum(result, "light")["layout"]["annotations"])
    assert outlier_caption(result).startswith("All 2 outliers")


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
    table = files.embedding_table()
    np.save(tmp_path / "t.npy", table)
    spectrum = upload_task({"kind": "table", "paths": {"data": str(tmp_path / "t.npy")}}, quietly)
    text = str(present(spectrum, theme))
    assert "280 tokens in 60 dimensions" in text
    for outlier in spectrum["outliers"]:
        assert f"{outlier['eigenvalue']:.4g}" in text
    assert spectrum["verdict"].partition(". ")[0] in text
    assert "white" in outlier_caption(spectrum)
    assert spectrum["record"]["n_outliers"] == 2
    assert "<svg" in spectrum["html"]


def test_fitted_curve_and_histogram_have_the_same_mass(tmp_path):
    table = files.embedding_table()
    np.save(tmp_path / "a.npy", table)
    result = upload_task({"kind": "table", "paths": {"data": str(tmp_path / "a.npy")}}, quietly)
    x, y = map(np.asarray, result["curve"])
    curve = np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2)
    edges, density = (np.asarray(result["histogram"][key]) for key in ("edges", "density"))
    total = np.sum(np.diff(edges) * density)
    assert total == pytest.approx(1.0)
    outliers = result["outlier_count"] / table.shape[1]
    assert curve == pytest.approx(total - outliers, abs=0.05)


@pytest.mark.parametrize(
    ("kind", "name", "body", "message"),
    [
        ("features", "a.npy", b"not a numpy file at all", "damaged"),
        ("features", "a.npy", files.npy(np.array([{"a": 1}], dtype=object)), "(?i)object|pickle|number"),
        ("features", "a.npy", files.npy(np.zeros((3, 3))), "at least 4"),
        ("features", "a.npy", files.npy(np.ones((20, 8))), "equal"),
        ("features", "a.npy", files.npy(np.full((20, 8), np.nan)), "NaN"),
        ("features", "a.npy", files.npy(np.ones(20)), "(?i)shape|dimension|table"),
        ("features", "a.csv", b"a,b\nc,d\n", "not a table of numbers"),
        ("features", "a.csv", b"1,2\n3\n", "row 1 is too short"),
        ("features", "a.csv", b"\xff\xfe\x00", "damaged"),
        ("features", "a.csv", b"nan,1,1,1\n" + b"2,3,4,5\n" * 9, "NaN"),
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
    assert str(application.folder) not in job.error
    import re

    assert re.search(message, job.error), job.error


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"kind": "features"},
        {"kind": "other", "name": "a.npy"},
        {"kind": "features", "name": "a.pkl"},
        {"kind": "features", "name": "a.gguf"},
        {"kind": "table", "name": "model.bin"},
        {"kind": "table", "name": "../../etc/passwd"},
        {"kind": "features", "name": "a.npy", "target": "x"},
        {"kind": "features", "name": "a.npy", "target": "1.5"},
        {"kind": "features", "name": "a.npy", "target": "nan"},
        {"kind": "features", "name": "a.npy", "target": ".٣"},
        {"kind": "features", "name": "a.npy", "labels": "y.pkl", "labels_size": "1"},
        {"kind": "features", "name": "a.npy", "labels": "y.npy", "labels_size": "٣"},
        {"kind": "features", "name": "a.npy", "mask": "m.csv", "mask_size": "1"},
    ],
)
def test_bad_requests_are_refused(application, query):
    with pytest.raises(UploadError):
        check_upload(query)
    assert application.client.post("/upload", query_string=query, data=b"x").status_code == 400


def test_an_empty_upload_is_refused(application):
    assert send(application, "features", "a.npy", b"").status_code == 411


def test_a_name_is_only_an_ending():
    upload = check_upload({"kind": "table", "name": "../../../home/x/y.NPY", "labels": "../y.npy"})
    assert upload == Upload("table", (Part("data", ".npy", None),), None)


def test_a_file_that_is_too_large_is_refused(application):
    answer = send(application, "features", "a.npy", b"x" * (application.settings.upload_limit + 1))
    assert answer.status_code == 413
    assert not list(application.folder.iterdir())


def test_csv_with_and_without_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2\n3,4.5\n")
    np.testing.assert_array_equal(open_blocks(path).whole(), [[1, 2], [3, 4.5]])
    path.write_text("first,second\n1,2\n3,4.5\n")
    np.testing.assert_array_equal(open_blocks(path).whole(), [[1, 2], [3, 4.5]])


def test_uploads_leave_nothing_behind(application):
    finish(application, send(application, "features", "a.npy", files.npy(files.pooled_features())))
    assert not list(application.folder.iterdir())


def test_the_limit_of_uploads_follows_the_address():
    assert Settings().upload_limit == 2**30
    assert Settings(host="0.0.0.0", token="a-long-enough-token").upload_limit == 64 * 2**20
    assert Settings(max_upload_bytes=1000).upload_limit == 1000
