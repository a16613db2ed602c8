"""Verdicts of scorecards if nothing differs: by value, and by what is shown.

    python benchmarks/coverage_verdicts.py --sets 400

prints a Markdown table. All arms are runs of one model (`tests/null_arms.py`), so whatever is shown
is shown by chance. H1, H2 and H4 are those of the paper. The others ask for a lower ECE, a lower
NLL, and a higher accuracy at each of three seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common import chosen_options
from null_arms import null_hypotheses, null_scorecard

from pact_eval.evaluation.decoding import SINGLE
from pact_eval.evaluation.registry import metric_spec
from pact_eval.preregistration.criteria import Check, Hypotheses, Hypothesis, Instead, Relation

SEEDS: Final = (17, 18, 19)
CLAIMS: Final[tuple[tuple[str, Relation], ...]] = (
    ("ece", "lower"),
    ("nll_nats", "lower"),
    ("accuracy", "higher"),
)


def at_every_seed(metric: str, relation: Relation) -> Hypothesis:
    """Return the claim that one arm is better than another at every seed."""
    says = f"{relation} {metric_spec(metric).title} at {len(SEEDS)} seeds"
    check = Check(
        says=says,
        metric=metric,
        arms=("pact_full",),
        decodings=(SINGLE,),
        groups=("all",),
        relation=relation,
        than=Instead(arm="ce_only"),
        judged_on="matched",
        seeds=SEEDS,
    )
    return Hypothesis(says, says, says, (check,))


def count(sets: int, resamples: int) -> dict[str, Counter[str]]:
    """Count verdicts by value and what is shown, by hypothesis."""
    claims = tuple(at_every_seed(*claim) for claim in CLAIMS)
    hypotheses = Hypotheses((*null_hypotheses("H1", "H2", "H4").hypotheses, *claims))
    outcomes: dict[str, Counter[str]] = {
        hypothesis.id: Counter() for hypothesis in hypotheses.hypotheses
    }
    for seed in range(sets):
        for result in null_scorecard(seed, hypotheses, resamples).results:
            outcomes[result.hypothesis.id].update([result.verdict, f"shown {result.shown}"])
    return outcomes


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=400, help="simulated data sets")
    parser.add_argument("--resamples", type=int, default=2_000, help="of each interval")
    options = chosen_options(parser, sets=1, resamples=100)
    titles = ("SUPPORTED", "CONTRADICTED", "shown supported", "shown refuted")
    error = 100 * (0.05 * 0.95 / options.sets) ** 0.5
    sys.stdout.write(
        f"{options.sets:,} data sets on which no arm differs; % of verdicts (standard error of 5% "
        f"is {error:.1f} points).\n\n"
    )
    sys.stdout.write(f"| claim | {' | '.join(titles)} | shown |\n|---|{'---|' * 5}\n")
    for name, counted in count(options.sets, options.resamples).items():
        shares = [100 * counted[title] / options.sets for title in titles]
        shares.append(shares[2] + shares[3])
        sys.stdout.write(f"| {name} | {' | '.join(f'{share:.1f}' for share in shares)} |\n")


if __name__ == "__main__":
    main()
