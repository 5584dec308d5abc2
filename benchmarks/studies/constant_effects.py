"""Halve and double every numeric constant of trust and forecasting, and record what changes on development tasks.

    python benchmarks/studies/constant_effects.py forecasting    # about ten minutes on one core
    python benchmarks/studies/constant_effects.py trust
    python benchmarks/studies/constant_effects.py forecasting --only rounds --multiples 0 4

A constant is a numeric literal, a tuple of them, or a grid, assigned to a capital name at the top of a module. Each
variant runs in a separate process in which the literal is multiplied while the module is imported, so that whatever
is derived from it follows. Of a grid the number of points (or the step) is multiplied. Four numbers are printed for
each variant: mean change of the answers, mean error, coverage of the 90 % intervals, and answers with other words
(verdict, warnings). A constant whose variants change nothing can be derived, merged or removed.
"""

from __future__ import annotations

import argparse
import ast
import importlib.machinery
import importlib.util
import json
import multiprocessing
import sys
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "spikepool"
RESULTS = HERE.parent / "results"
GRIDS = ("arange", "linspace", "geomspace", "logspace")
PLAN_KINDS = (
    "two Gaussians, 300 features, distance 3",
    "thirty Gaussians, 100 features, 200 rows",
    "t rows, ten classes",
    "word counts, five classes",
    "flat curve",
    "regression, variances 1/rank",
    "exclusive or",
)
TRUST_KINDS = (
    "variances 1/rank, 100 rows of 300",
    "variances rank^-2",
    "five clusters, unequal noise",
    "12 factors over isotropic noise",
    "three levels",
    "two close spikes",
    "t rows, 3 degrees, 1/rank",
    "lognormal columns, 1/rank",
    "one-hot columns with a factor",
    "Pareto columns, nearly equal",
    "groups of four, correlation .94",
)


def is_numeric(node: ast.expr) -> bool:
    """Whether an expression is a number, a tuple of numbers, a grid, or a declared constant."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_numeric(node.operand)
    if isinstance(node, ast.Tuple | ast.List):
        return bool(node.elts) and all(is_numeric(e) for e in node.elts)
    if isinstance(node, ast.BinOp):
        return is_numeric(node.left) and is_numeric(node.right)
    name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
    return name in (*GRIDS, "array", "constant")


def constants_of(package: str) -> list[tuple[str, str, int]]:
    """Module, name and place in the assigned tuple (0 for a single name) of every constant."""
    found = []
    for path in sorted((SOURCE / package).glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            for target, value, place in assigned(node):
                if target.lstrip("_").isupper() and is_numeric(value):
                    found.append((path.stem, target, place))
    return found


def assigned(node: ast.stmt) -> list[tuple[str, ast.expr, int]]:
    """Names and values of an assignment, those of tuples one by one."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return []
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        return [(t.id, v, i) for i, (t, v) in enumerate(zip(target.elts, node.value.elts, strict=True))]
    return [(target.id, node.value, 0)] if isinstance(target, ast.Name) else []


def multiply(node: ast.expr, factor: float) -> ast.expr:
    """The expression with its number, all numbers of a tuple, or the last number of a grid multiplied."""
    if isinstance(node, ast.Constant):
        value = node.value * factor
        return ast.Constant(max(round(value), 0) if isinstance(node.value, int) else value)
    if isinstance(node, ast.UnaryOp):
        return ast.UnaryOp(node.op, multiply(node.operand, factor))
    if isinstance(node, ast.Tuple | ast.List):
        return type(node)([multiply(e, factor) for e in node.elts], ast.Load())
    if isinstance(node, ast.BinOp):
        return ast.BinOp(multiply(node.left, factor), node.op, node.right)
    if not isinstance(node, ast.Call):  # infinity
        return node
    place = 1 if getattr(node.func, "id", "") == "constant" else len(node.args) - 1
    arguments = list(node.args)
    arguments[place] = multiply(arguments[place], factor)
    return ast.Call(node.func, arguments, node.keywords)


class Patch(importlib.machinery.SourceFileLoader):
    """Loads a module with one constant multiplied."""

    change: tuple[str, int, float] = ("", 0, 1.0)

    def get_code(self, fullname: str) -> Any:
        """Compile the changed source."""
        name, place, factor = self.change
        tree = ast.parse(Path(self.path).read_text())
        for node in tree.body:
            for target, value, at in assigned(node):
                if (target, at) == (name, place):
                    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                        assert isinstance(node.value, ast.Tuple)
                        node.value.elts[place] = multiply(value, factor)
                    else:
                        node.value = multiply(value, factor)
        return compile(ast.fix_missing_locations(tree), self.path, "exec")


class Finder:
    """Finds the one module that is patched."""

    def __init__(self, module: str, change: tuple[str, int, float]) -> None:
        self.module, self.change = module, change

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """The module's place, with a loader that changes it."""
        if fullname != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None
        assert spec.origin is not None
        loader = Patch(fullname, spec.origin)
        loader.change = self.change
        return importlib.util.spec_from_file_location(fullname, spec.origin, loader=loader)


def plan_answers(truths: dict[str, list[float]]) -> dict[str, dict]:
    """Forecasts of the development kinds, of a measured curve and of another classifier."""
    from sklearn.datasets import load_digits
    from sklearn.neighbors import KNeighborsClassifier

    import spikepool as sp
    from plan_worlds import KINDS

    found = {}
    for name in PLAN_KINDS:
        sample, rows, numbers = KINDS[name]
        x, y = sample(rows, np.random.default_rng(zlib.crc32(name.encode())))
        task = "regression" if numbers else "classification"
        found[name] = (sp.forecast(x, y, n=[rows * m for m in (2, 4, 8)], task=task, target=0.85), truths[name][1:])
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:200]
    model = KNeighborsClassifier()
    # truth: mean over 40 training sets of so many rows
    found["digits, neighbours"] = (sp.forecast(x[order], y[order], n=[400, 800], estimator=model), [0.948, 0.968])
    n = 2.0 ** np.arange(5, 10)
    noise = 0.01 * np.random.default_rng(1).standard_normal((5, 3))
    curve = sp.forecast_curve(n, (0.95 - 0.9 * n**-0.4)[:, None] + noise, at=[1024, 4096], target=0.93)
    found["curve"] = (curve, [0.95 - 0.9 * m**-0.4 for m in (1024, 4096)])
    plan = curve.rounds()
    answers = {
        name: {
            "numbers": [*f.score, *f.interval.ravel()],
            "truth": truth,
            "words": [f.verdict, f.self_check.ok, *f.warnings, f.target_line()],
        }
        for name, (f, truth) in found.items()
    }
    answers["rounds"] = {
        "numbers": [np.log2(plan.next_total) / 10, np.log2(plan.expected_total) / 10, plan.probability],
        "truth": [],
        "words": [],
    }
    return answers


def trust_answers(truths: dict[str, list[float]]) -> dict[str, dict]:
    """Spans of the development kinds; truths are the overlaps of the sample's spans with the population's."""
    import spikepool as sp
    from trust_worlds import KINDS

    answers = {}
    for name in TRUST_KINDS:
        sample, rows, _ = KINDS[name]
        x = sample(rows, np.random.default_rng(zlib.crc32(name.encode())))
        d = sp.diagnose(x, target=0.9)
        spans = list(d.spans or ())
        known = {int(k): v for k, v in truths[name]}
        answers[name] = {
            "numbers": [*(s.overlap for s in spans), *(end for s in spans for end in s.interval)],
            "truth": [known[s.k] for s in spans],
            "words": [d.verdict, len(d.outliers), len(spans), *sorted(w.kind for w in d.warnings)],
        }
    return answers


def known_truths(package: str) -> dict[str, Any]:
    """Truths of the tasks, measured once and kept."""
    path = RESULTS / f"constant_effects_{package}.truth.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    if package == "forecasting":
        from plan_worlds import truth_of

        for name in PLAN_KINDS:
            truth_of(name, known)
    else:
        from trust_worlds import KINDS, truth_of

        for name in set(TRUST_KINDS) - set(known):
            sample, rows, _ = KINDS[name]
            truth = truth_of(name)
            x = sample(rows, np.random.default_rng(zlib.crc32(name.encode())))
            u = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2].T
            ks = [k for k in (1, 2, 5, 10, 20, 50) if k <= min(u.shape)]
            known[name] = [(k, float(np.linalg.norm(u[:, :k].T @ truth[:, :k]) ** 2 / k)) for k in ks]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(known))
    return known


def variant(package: str, change: tuple[str, str, int, float] | None, truths: dict[str, Any], pipe: Any) -> None:
    """Run the tasks with one constant changed, in this process, and send the answers."""
    warnings.simplefilter("ignore")
    if change is not None:
        module, name, place, factor = change
        sys.meta_path.insert(0, Finder(f"spikepool.{package}.{module}", (name, place, factor)))
    try:
        pipe.send((plan_answers if package == "forecasting" else trust_answers)(truths))
    except Exception as error:  # a constant that must not be changed raises
        pipe.send(f"{type(error).__name__}: {error}"[:90])


def run(package: str, change: tuple[str, str, int, float] | None, truths: dict[str, Any]) -> Any:
    """Answers of a variant, from a fresh process that has not imported the package."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=variant, args=(package, change, truths, there))
    process.start()
    there.close()
    try:
        found = here.recv()
    except EOFError:
        found = "the process ended"
    process.join()
    return found


def quality(answers: dict[str, dict]) -> tuple[float, float]:
    """Mean error and coverage."""
    errors, inside = [], []
    for a in answers.values():
        m = len(a["truth"])
        score, ends = np.array(a["numbers"][:m]), np.array(a["numbers"][m : 3 * m]).reshape(m, 2)
        errors += list(np.abs(score - a["truth"]))
        inside += list((ends[:, 0] <= a["truth"]) & (a["truth"] <= ends[:, 1]))
    return float(np.mean(errors)), float(np.mean(inside))


def effect(base: dict[str, dict], other: dict[str, dict]) -> tuple[float, int]:
    """Mean change of the numbers, and the answers whose words changed."""
    change, words = [], 0
    for name, a in base.items():
        b = other[name]
        words += a["words"] != b["words"]
        same = len(a["numbers"]) == len(b["numbers"])
        change.append(np.mean(np.abs(np.subtract(a["numbers"], b["numbers"]))) if same and a["numbers"] else 0.0)
    return float(np.mean(change)), words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", nargs="?", default="forecasting", choices=("trust", "forecasting"))
    parser.add_argument("--only", default="", help="constants whose module.NAME contains this")
    parser.add_argument("--multiples", type=float, nargs="+", default=[0.5, 2.0])
    options = parser.parse_args()
    truths = run_truths(options.package)
    start = time.perf_counter()
    base = run(options.package, None, truths)
    if isinstance(base, str):
        raise SystemExit(base)
    error, inside = quality(base)
    took = time.perf_counter() - start
    print(f"{options.package}: mean error {error:.4f}, coverage {inside:.3f}, {took:.0f} s for each variant\n")
    print("| constant | times | mean change | mean error | coverage | other words |\n" + "| --- " * 6 + "|")
    for module, name, place in constants_of(options.package):
        if options.only not in f"{module}.{name}":
            continue
        for factor in options.multiples:
            found = run(options.package, (module, name, place, factor), truths)
            if isinstance(found, str):
                print(f"| {module}.{name} | {factor:g} | {found} | | | |", flush=True)
                continue
            (change, words), (error, inside) = effect(base, found), quality(found)
            print(f"| {module}.{name} | {factor:g} | {change:.4f} | {error:.4f} | {inside:.3f} | {words} |", flush=True)


def run_truths(package: str) -> dict[str, Any]:
    """The truths, from a separate process: this one must not import the package."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(known_truths, (package,))


if __name__ == "__main__":
    main()
