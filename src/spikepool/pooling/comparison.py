"""Compare candidates (layer, pooling, head) on rows left out, weigh them, and keep the mean unless they are better.

1. **Propose.** Of one layer, every registered candidate pooling. Of several, the mean of the last layer and attention
   in three middle layers, or in each of at most four. The mean of the last layer comes first: it is the reference.
2. **Judge.** Each head is fitted to a pooling without each fold, the pooling learned without the fold as well, and
   scores the rows of the fold. A classifier has two heads: logistic regression and ridge regression.
3. **Rank.** Where more poolings are proposed than `Rules.most_heads`, ridge regression judges all of them, and logistic
   regression the reference and the others of largest likelihood: it takes several times as long.
4. **Weigh.** Each candidate's scores are brought to their best scale. The candidates then have the weights of largest
   likelihood on rows left out, or more equal ones where these are few (:mod:`spikepool.pooling.judging`).
5. **Decide.** The weighted candidates predict if their likelihood is above that of the reference, its heads weighed in
   the same way, by more than `Rules.errors_required` standard errors of the paired difference; else the reference
   predicts alone. Likelihoods are corrected for the number of weights that were found (Akaike, 1974). Fewer than
   `Rules.fewest_to_judge` rows left out cannot tell: of several layers, attention in the middle ones is used then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spikepool.kit.progress import Progress
from spikepool.kit.threads import Map
from spikepool.pooling.catalogue import poolings
from spikepool.pooling.decision import Decision, Rules, decide
from spikepool.pooling.heads import Head, RidgeHead
from spikepool.pooling.judged import Judged, Options, Proposal, judge, likelihood, pool
from spikepool.pooling.judging import Task
from spikepool.pooling.learning_rows import LearningRows


def proposals(layers: Sequence[Any], pooling: str, rules: Rules, *, single_token: bool = False) -> list[Proposal]:
    """What to compare: the reference first. A pooling asked for by name, or the mean of one token, in every layer."""
    last, earlier = layers[-1], list(layers[:-1])[::-1]
    if pooling != "auto" or single_token:
        name = "mean" if pooling == "auto" else pooling
        return [(layer, name) for layer in (last, *earlier)]
    specs = poolings()
    if not earlier:
        return [(last, name) for name, spec in specs.items() if spec.candidate]
    middle: Any = layers
    if len(layers) > len(rules.middle) + 1:
        middle = dict.fromkeys(layers[round(place * (len(layers) - 1))] for place in rules.middle)
    return [(last, "mean"), *((layer, name) for layer in middle for name, spec in specs.items() if spec.in_layers)]


def compare(
    proposed: Sequence[Proposal],
    rows_of: Callable[[Any], LearningRows],
    task: Task,
    heads: Sequence[Head],
    options: Options,
    rules: Rules,
    over: Map,
    progress: bool | None = None,
) -> Decision:
    """Judge the proposals and decide; see the module's docstring.

    Parameters
    ----------
    proposed : sequence of (layer, name)
        The reference first.
    rows_of : callable
        Learning rows of a layer.
    task : Task
        Targets, weights and folds.
    heads : sequence of Head
        The linear models; that of the reference first.
    options : Options
        How poolings are learned.
    rules : Rules
        The deciding numbers.
    over : callable
        Map over folds; they share nothing, so threads do not change the numbers.
    progress : bool, optional
        Show a progress bar.
    """
    judged: list[Judged] = []
    several = len({layer for layer, _ in proposed}) > 1
    ranking = len(proposed) > rules.most_heads and not isinstance(heads[0], RidgeHead)
    first = (RidgeHead(),) if ranking else heads
    with Progress(len(proposed), "comparing poolings", show=progress) as bar:
        for proposal in proposed:
            pooled = pool(proposal, rows_of(proposal[0]), task, options, over)
            judged += judge(pooled, first, task, over, settled=several)
            bar.advance()
    if not ranking:
        return decide(judged, (), task, rules)
    order = sorted(judged[1:], key=lambda one: -likelihood(one, task))[: rules.most_heads - 1]
    best = [one.pooled for one in (judged[0], *order)]
    slow = [head for head in heads if not isinstance(head, RidgeHead)]
    found = [one for pooled in best for one in judge(pooled, slow, task, over, settled=several)]
    if len(slow) < len(heads):
        return decide([*found, *judged], (), task, rules)
    return decide(found, [one for one in judged if one.pooled not in best], task, rules)
