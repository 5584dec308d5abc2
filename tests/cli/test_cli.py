"""The command line: same numbers as the library, one-line errors, documented exit codes."""

import json
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

import spikepool as sp
from spikepool.kit.results import plain

SMALL = ["--d", "60", "--V", "96", "--N", "120"]


@pytest.fixture
def model():
    return sp.SequenceModel(d=60, V=96, N=120, R=sp.prefix_correlation(10, 3), mu=2.0)


def test_version_needs_no_imports():
    code = (
        "import sys\n"
        "from spikepool.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "assert not {'numpy', 'typer', 'scipy', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"spikepool {sp.__version__}\n")


def test_runs_as_a_module():
    command = [sys.executable, "-m", "spikepool", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"spikepool {sp.__version__}\n")


@pytest.mark.slow
def test_help_and_citation(run):
    code, out, _ = run("--help")
    assert code == 0
    for command in (
        *("predict", "simulate", "sweep", "reproduce", "spectrum", "explore"),
        *("diagnose", "forecast", "report", "encode", "fit", "apply", "evaluate", "export"),
    ):
        assert command in out
        assert run(command, "--help")[0] == 0
    code, out, _ = run("--cite")
    assert code == 0
    assert "@article{seddik2026attention" in out
    assert f"version = {{{sp.__version__}}}" in out
    assert run("predict", "--version")[0] == 2  # a global option
    assert run("--version", "predict")[1].startswith("spikepool ")


@pytest.mark.slow
def test_shell_completion_is_offered():
    done = subprocess.run(
        [sys.executable, "-c", "from spikepool.cli import main; main()"],
        env={"_SPIKEPOOL_COMPLETE": "complete_bash", "COMP_WORDS": "spikepool re", "COMP_CWORD": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert sorted(done.stdout.split()) == ["report", "reproduce"]


def test_predict_prints_the_library_numbers(run, model):
    code, out, err = run("predict", *SMALL, "--mu", 2, "--json", "--uncentered")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["model"]["delta"] == 60 / 96
    weights = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(model.R)}
    assert [p["weights"] for p in answer["predictions"]] == list(weights)
    for entry in answer["predictions"]:
        p = model.replace(centered=False).predict(weights[entry["weights"]])
        assert entry["alignment"] == p.alignment
        assert entry["edge"] == p.edge
        assert entry["mu_sample"] == p.mu_sample
        assert [o["eigenvalue"] for o in entry["outliers"]] == [o.eigenvalue for o in p.outliers]
    table = run("predict", *SMALL, "--mu", 2)[1]
    assert f"{model.predict(weights['causal']).alignment:.4g}" in table


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict", "simulate"])
def test_commands_about_a_model_share_its_options_and_defaults(run, command):
    plain_text = " ".join(run(command, "--help")[1].split())
    for name in (
        "--d ",
        "--V ",
        "--N ",
        "--T ",
        "--mu ",
        "-R",
        "-w",
        "--table ",
        "--uncentered ",
        "--latent ",
        "--json",
    ):
        assert name in plain_text
    own = {"predict": (), "simulate": ("--trials", 2)}[command]
    described = json.loads(run(command, "--d", 40, "--N", 80, *own, "--json")[1])["model"]
    default = {"d": 40, "V": 800, "N": 80, "T": 10, "mu": 2.5, "correlation": "prefix:3", "table": "sampled"}
    assert {name: described[name] for name in default} == default


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prefix:3", sp.prefix_correlation(10, 3)),
        ("markov:0.5", sp.markov_correlation(10, 0.5)),
        ("equi:0.2", sp.equicorrelation(10, 0.2)),
        ("identity", np.eye(10)),
    ],
)
def test_correlations(run, model, text, expected):
    answer = json.loads(run("predict", *SMALL, "--mu", 2, "-R", text, "-w", "causal", "--json")[1])
    assert answer["predictions"][0]["alpha"] == sp.gains(sp.causal_weights(10), expected)[0]


def test_weights_and_correlation_from_files(run, tmp_path):
    R = sp.markov_correlation(4, 0.3)
    w = np.array([0.4, 0.3, 0.2, 0.1])
    np.save(tmp_path / "R.npy", R)
    np.savetxt(tmp_path / "mine.csv", w, delimiter=",")
    arguments = ("predict", *SMALL, "--T", 4, "-R", tmp_path / "R.npy", "--json")
    answer = json.loads(run(*arguments, "-w", tmp_path / "mine.csv", "-w", "0.4,0.3,0.2,0.1", "-w", "causal:2")[1])
    names = [p["weights"] for p in answer["predictions"]]
    assert names == ["mine", "0.4,0.3,0.2,0.1", "causal:2"]
    assert answer["predictions"][0]["alpha"] == answer["predictions"][1]["alpha"] == sp.gains(w, R)[0]
    assert answer["predictions"][2]["kappa"] == sp.gains(sp.causal_weights(4, layers=2), R)[1]


def test_json_has_null_where_there_is_no_finite_number(run, tmp_path):
    # weights 3/2 and -1/2 cancel what the positions share when the second has three times the latent of the first
    np.savetxt(tmp_path / "R.csv", [[1.0, 3.0], [3.0, 9.0]], delimiter=",")
    arguments = (*SMALL, "--T", 2, "-R", tmp_path / "R.csv", "--latent", "gaussian", "--mu", 2, "-w", "1.5,-0.5")
    (entry,) = json.loads(run("predict", *arguments, "--json")[1])["predictions"]
    assert entry["alpha"] == 0
    assert (entry["mu_population"], entry["mu_sample"]) == (None, None)
    assert "∞" in run("predict", *arguments)[1]


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, np.float32("inf")])
def test_json_numbers_are_numbers_or_null(value):
    assert plain({"a": [1.5, np.array([value, 2.0])], "b": (value,)}) == {"a": [1.5, [None, 2.0]], "b": [None]}


def test_simulate_is_reproducible_and_near_the_prediction(run, model):
    arguments = ("simulate", *SMALL, "--mu", 2, "--trials", 6, "--seed", 3, "-w", "causal", "--json")
    first, second = run(*arguments)[1], run(*arguments)[1]
    assert first == second
    (entry,) = json.loads(first)["simulations"]
    s = model.simulate(sp.causal_weights(10), trials=6, rng=3)
    assert entry["alignment"] == pytest.approx(s.alignment.mean())
    assert entry["alignment_standard_error"] == pytest.approx(s.alignment.std(ddof=1) / np.sqrt(6))
    # 6 draws at d = 60: three standard errors and a bias of 6/d
    gap = abs(entry["alignment"] - entry["predicted_alignment"])
    assert gap < 3 * entry["alignment_standard_error"] + 6 / 60


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["predict", "-R", "prefix:30"], 2, "L must be at most T = 10"),
        (["predict", "-R", "block:3"], 2, "correlation is not understood"),
        (["predict", "-R", "missing.npy"], 2, "there is nothing at"),
        (["predict", "-w", "median"], 2, "weights are not understood"),
        (["predict", "-w", "0.5,0.6"], 2, "must have one entry for each of the 10 positions"),
        (["predict", "--V", "7"], 2, "V must be even"),
        (["predict", "--mu", "nan"], 2, "mu must be finite"),
        (["predict", "--table", "none"], 2, "table must be one of"),
        (["predict", "--nonsense"], 2, "No such option"),
        (["simulate", "--trials", "1"], 2, "trials must be at least 2"),
        (["sweep", "missing.toml"], 2, "cannot read the sweep missing.toml"),
        (["reproduce", "99"], 2, "no such figure"),
        (["spectrum", "table.npy", "--out", "picture.bmp"], 2, "--out must end in"),
        (["unknown"], 2, "No such command"),
    ],
)
def test_errors_are_one_line_with_a_code(run, tmp_path, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    got, out, err = run(*arguments)
    assert got == code
    assert words in err
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("spikepool: error: ")


@pytest.mark.parametrize("place", [0, 3])
def test_debug_shows_the_traceback_wherever_it_stands(run, place):
    arguments = ["predict", "--V", "7"]
    arguments.insert(place, "--debug")
    code, _, err = run(*arguments)
    assert code == 2
    assert "Traceback" in err
    assert "SizeError" in err


def test_no_arguments_gives_help_and_a_usage_code(run):
    code, out, _ = run()
    assert code == 2
    assert "Usage" in out


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error():
    done = subprocess.run(
        f"{sys.executable} -m spikepool.cli predict --json | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == "{\n"


@pytest.mark.slow
def test_a_closed_pipe_loses_neither_the_picture_nor_the_exit_code(tmp_path):
    """A reader that is gone before anything is printed; without care rich ends the process with code 1."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "table.npy", rng.standard_normal((300, 40)))
    for arguments, wanted in (
        (["predict", "--out", tmp_path / "p.svg"], 0),
        (["spectrum", tmp_path / "table.npy"], 0),
        (["predict", "--V", "7"], 2),
    ):
        command = [sys.executable, "-m", "spikepool.cli", *map(str, arguments)]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.stdout.close()
        err = running.stderr.read()
        running.stderr.close()
        assert running.wait(timeout=120) == wanted, err
        assert "Traceback" not in err
        assert "Broken" not in err
    assert (tmp_path / "p.svg").is_file()


@pytest.mark.slow
def test_spectrum_reads_a_file(run, tmp_path):
    rng = np.random.default_rng(0)
    E = rng.standard_normal((300, 40)) + 4 * np.outer(rng.standard_normal(300), np.eye(40)[0])
    np.save(tmp_path / "table.npy", E)
    code, out, _ = run("spectrum", tmp_path / "table.npy", "--json", "--out", tmp_path / "picture.svg")
    assert code == 0
    assert json.loads(out) is not None
    assert (tmp_path / "picture.svg").read_text().lstrip().startswith("<?xml")
    code, out, _ = run("spectrum", tmp_path / "table.npy")
    assert code == 0
    assert len(out.splitlines()) > 2
    assert run("spectrum", tmp_path / "absent.npy")[0] == 2


def test_explore_passes_its_options(run, monkeypatch):
    explorer = pytest.importorskip("spikepool.explorer")
    called = {}
    monkeypatch.setattr(explorer, "serve", lambda **options: called.update(options), raising=False)
    assert run("explore", "--port", 8051, "--no-browser")[0] == 0
    assert called == {"port": 8051, "open_browser": False}
    for gone in ("--host", "--token-file", "--base-path", "--allowed-host"):
        assert run("explore", gone, "x")[0] == 2


def test_figures_can_be_listed(run):
    pytest.importorskip("xarray")
    code, out, _ = run("reproduce", "--list", "--json")
    assert code == 0
    numbers = [figure["number"] for figure in json.loads(out)["figures"]]
    assert numbers == sorted(set(numbers))
    assert set(range(1, 13)) <= set(numbers)
    assert "Phase diagrams" in run("reproduce", "--list")[1]


@pytest.mark.parametrize(("signal_name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
def test_a_signal_while_the_command_line_is_built_ends_in_one_line(signal_name, code):
    """The signal arrives when the first package of the command line is imported."""
    program = (
        "import os, signal, sys\n"
        "from spikepool.cli import main\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        os.kill(os.getpid(), signal.{signal_name}) if name == 'typer' else None\n"
        "sys.meta_path.insert(0, Finder())\n"
        "main(['predict'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


@pytest.mark.parametrize("command", [("spectrum",), ("spectrum", "--list"), ("diagnose",), ("report",)])
def test_the_root_of_the_file_system_is_refused_at_once(run, command):
    code, out, err = run(command[0], "/", *command[1:])
    assert (code, out) == (2, "")
    assert "neither a Zarr array nor holds one safetensors model" in err
