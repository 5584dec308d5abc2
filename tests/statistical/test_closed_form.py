"""The closed form against a slow simulation written from the definition, at the paper's size."""

import numpy as np
import pytest
from references import prefix_signs, slow_simulation

import spikepool as sp

pytestmark = pytest.mark.statistical

R = sp.prefix_correlation(T=10, L=3)
WEIGHTS = {"mean": sp.mean_weights(10), "causal": sp.causal_weights(10), "optimal": sp.optimal_weights(R)}
TRIALS = 6
# At d = 500 the alignment differs from its limit by less than this: 5/d, the order of the correction (terms of
# relative size 1/d times the O(1) derivatives of the map; the size sweep over d is in test_problems). The optimal
# weights live on three positions, so that the spread-out limit itself is off by about as much again.
BIAS = {"mean": 0.01, "causal": 0.012, "optimal": 0.015}


def simulate(name, mu, **options):
    runs = [
        slow_simulation(
            500, 800, 1000, prefix_signs(10, 3), WEIGHTS[name], mu, rng=np.random.default_rng([7, trial]), **options
        )
        for trial in range(TRIALS)
    ]
    return np.array([run[0][:3] for run in runs]), np.array([run[1][:3] for run in runs])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mu"), [("mean", 1.6), ("causal", 1.0), ("causal", 1.3), ("optimal", 0.8), ("optimal", 2.5)]
)
def test_exact_prediction_holds_and_the_published_one_does_not(name, mu):
    model = sp.SequenceModel(500, 800, 1000, R, mu)
    exact = model.predict(WEIGHTS[name])
    published = model.replace(table="class_centered").predict(WEIGHTS[name])
    eigenvalues, alignments = simulate(name, mu)
    mean, error = alignments[:, 0].mean(), alignments[:, 0].std(ddof=1) / np.sqrt(TRIALS)
    assert abs(mean - exact.alignment) < 3 * error + BIAS[name]
    assert abs(mean - published.alignment) > 3 * error + 2 * BIAS[name]
    top, top_error = eigenvalues[:, 0].mean(), eigenvalues[:, 0].std(ddof=1) / np.sqrt(TRIALS)
    assert abs(top / exact.eigenvalue - 1) < 3 * top_error / exact.eigenvalue + 0.02


def test_published_formulas_hold_for_class_centred_tables():
    model = sp.SequenceModel(500, 800, 1000, R, 1.3, table="class_centered")
    _, alignments = simulate("causal", 1.3, class_centered=True)
    mean, error = alignments[:, 0].mean(), alignments[:, 0].std(ddof=1) / np.sqrt(TRIALS)
    assert abs(mean - model.predict(WEIGHTS["causal"]).alignment) < 3 * error + BIAS["causal"]


def test_second_outlier_takes_the_top_without_centring():
    model = sp.SequenceModel(500, 800, 1000, R, 1.2, centered=False)
    prediction = model.predict(WEIGHTS["mean"])
    assert [outlier.kind for outlier in prediction.outliers] == ["mean", "signal"]
    eigenvalues, alignments = simulate("mean", 1.2, centered=False)
    error = eigenvalues.std(axis=0, ddof=1) / np.sqrt(TRIALS)
    for position, outlier in enumerate(prediction.outliers):
        assert abs(eigenvalues[:, position].mean() - outlier.eigenvalue) < 3 * error[position] + 0.02
    # The two directions overlap by about 1/sqrt(d), which mixes the eigenvectors by (1/sqrt(d))/(gap of 0.25): a
    # squared angle of a few percent. Nearer to the crossing, at mu = 1.6, it averages 0.05 to 0.15.
    assert alignments[:, 0].mean() < 0.08
    assert eigenvalues[:, 2].max() < prediction.edge * 1.05
