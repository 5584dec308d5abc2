import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spikepool.explorer.state import RANGES, State, StateError, parse_query

whole = {name: st.integers(int(RANGES[name][0]), int(RANGES[name][1])) for name in ("d", "N")}


@st.composite
def states(draw):
    T = draw(st.integers(1, 12))
    fields = {name: draw(strategy) for name, strategy in whole.items()}
    fields["V"] = 2 * draw(st.integers(1, 100_000))
    fields["mu"] = draw(st.floats(0, 20, allow_subnormal=False))
    fields["table"] = draw(st.sampled_from(["sampled", "class_centered"]))
    fields["centered"] = draw(st.booleans())
    fields["plane"] = draw(st.sampled_from(["N", "V"]))
    corr = draw(st.sampled_from(["prefix", "markov", "matrix"]))
    if corr == "prefix":
        fields["L"] = draw(st.integers(1, T))
    elif corr == "markov":
        fields["rho"] = draw(st.floats(-1, 1, allow_subnormal=False))
    else:
        shared = draw(st.floats(0, 1, allow_subnormal=False))
        fields["R"] = tuple(tuple(1.0 if i == j else shared for j in range(T)) for i in range(T))
    w = draw(st.sampled_from(["mean", "causal", "custom"]))
    if w == "custom":
        fields["custom"] = tuple(draw(st.floats(0.001, 1)) for _ in range(T))
    return State(T=T, corr=corr, w=w, **fields)


@pytest.mark.slow
@given(states())
def test_address_and_state_are_inverse(state):
    read = parse_query("?" + state.query())
    assert read.query() == state.query()
    # every number survives exactly; fields without meaning for the kind of correlation go back to defaults
    for name in ("d", "V", "N", "T", "mu", "corr", "w", "custom", "table", "centered", "plane"):
        assert getattr(read, name) == getattr(state, name)
    np.testing.assert_array_equal(read.correlation(), state.correlation())


def test_empty_address_is_the_default_state():
    assert parse_query("") == parse_query("?") == State()


def test_custom_weights_are_divided_by_their_sum():
    weights = parse_query("T=3&L=2&w=custom&custom=1,2,5").all_weights()["custom"]
    np.testing.assert_allclose(weights, [0.125, 0.25, 0.625])


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("d=abc", "d must be a whole number"),
        ("d=-5", "d must be a whole number"),
        ("d=1e3", "d must be a whole number"),
        ("d=99999999999999999999", "d must be a whole number"),
        ("d=٣٠", "d must be a whole number"),
        ("V=7", "even"),
        ("mu=nan", "mu must be a number"),
        ("mu=inf", "mu must be a number"),
        ("mu=1_0", "mu must be a number"),
        ("mu= 1", "mu must be a number"),
        ("mu=", "mu must be a number"),
        ("mu=1&mu=2", "twice"),
        ("rubbish=1", "not part of the state"),
        ("d", "name=value"),
        ("&&&", "name=value"),
        ("d=%ff%fe", "name=value"),
        ("L=9&T=3", "L must be at most T"),
        ("corr=markov&L=2", "no meaning"),
        ("corr=matrix", "no matrix R"),
        ("corr=matrix&R=1,0;0", "square"),
        ("corr=matrix&R=1,.9,.9;.9,1,-.9;.9,-.9,1", "positive semi-definite"),
        ("corr=matrix&R=1,.5;.4,1", "symmetric"),
        ("corr=matrix&R=.5,.5;.5,1", "unit diagonal"),
        ("corr=matrix&R=1,2;2,1", "entry of R"),
        ("corr=matrix&T=3&R=1,0;0,1", "T is"),
        ("corr=matrix&R=" + ";".join([",".join(["1"] * 33)] * 33), "rows"),
        ("w=custom", "custom weights go together"),
        ("w=mean&custom=1,2", "custom weights go together"),
        ("T=2&L=1&w=custom&custom=1,2,3", "one custom weight"),
        ("T=2&L=1&w=custom&custom=1,-1", "sum away from zero"),
        ("T=2&L=1&w=custom&custom=0,0", "sum away from zero"),
        ("corr=matrix&R=1,-1;-1,1&w=optimal", "no weights of unit sum"),
        ("table=other", "table must be one of"),
        ("centered=yes", "centered must be 0 or 1"),
        ("d=" + "1" * 30_000, "longer than"),
    ],
)
def test_malformed_addresses_are_explained(query, word):
    with pytest.raises(StateError, match=word):
        parse_query(query)


@pytest.mark.parametrize("value", [None, 5, [], {}, b"d=5", True])
def test_a_state_is_text(value):
    with pytest.raises(StateError, match="text"):
        parse_query(value)


@pytest.fixture
def counts(monkeypatch):
    """How often a model is built, a matrix decomposed and the optimal weights solved for."""
    from spikepool.world import sequences, weights

    seen = {"models": 0, "decompositions": 0, "optima": 0}

    def counted(name, function):
        def call(*arguments, **options):
            seen[name] += 1
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(sequences.SequenceWorld, "__init__", counted("models", sequences.SequenceWorld.__init__))
    monkeypatch.setattr(np.linalg, "eigvalsh", counted("decompositions", np.linalg.eigvalsh))
    monkeypatch.setattr(weights, "optimal_weights", counted("optima", weights.optimal_weights))
    return seen


@pytest.mark.parametrize(
    ("T", "slider", "values"), [(13, "mu", (0.8311, 0.8312)), (14, "N", (1111, 1112)), (15, "d", (411, 412))]
)
def test_a_slider_move_builds_the_model_once_and_proves_nothing_again(application, counts, T, slider, values):
    """Through the callback, as the page asks: the first state proves R, a move that leaves R alone does not."""
    output = next(key for key in application.app.callback_map if "spectrum.figure" in key)
    names = [dict(zip(("id", "property"), n.rsplit(".", 1), strict=True)) for n in output.strip(".").split("...")]

    def move(value):
        before = dict(counts)
        state = {"query": f"T={T}&L=5&V=5000&{slider}={value}", "theme": "light", "shown-job": None}
        body = {
            "output": output,
            "outputs": names,
            "inputs": [{"id": name, "property": "data", "value": given} for name, given in state.items()],
            "state": [{"id": "drawn", "property": "data", "value": None}],
            "changedPropIds": ["query.data"],
        }
        answer = application.client.post("/_dash-update-component", json=body)
        assert answer.get_json()["response"]["problem"]["hidden"] is True
        return {name: counts[name] - before[name] for name in counts}

    first = move(values[0])
    assert first["models"] == 1
    assert first["decompositions"] >= 1
    assert first["optima"] == 1
    assert move(values[1]) == {"models": 1, "decompositions": 0, "optima": 0}
    # the same state again, as the theme or a finished simulation asks for it: nothing is built
    assert move(values[1]) == {"models": 0, "decompositions": 0, "optima": 0}
