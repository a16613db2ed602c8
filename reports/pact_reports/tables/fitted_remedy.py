"""A fitted remedy as a table: the addition of its model to the log-probability of each letter."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pact_eval.data.records import position_name
from pact_eval.remedies.fitted import FittedRemedy
from pact_eval.remedies.letter_priors import LetterPrior
from pact_eval.remedies.temperatures import temperature_of
from pact_reports.table import Cell, Column, Line, Part, Row, Table
from pact_reports.tables.cells import count_cell


def fitted_remedy_parts(fitted: FittedRemedy) -> Iterator[Part]:
    """Lay out a fitted remedy: its letter prior by number of answers, and its temperature."""
    if fitted.prior is not None:
        yield _prior_table(fitted, fitted.prior)
    if fitted.calibrator is None:
        text = "No temperature can be fitted on these items."
    else:
        text = f"Temperature after it: {temperature_of(fitted.calibrator):.3f}."
    yield Line(f"{fitted.remedy.title}. {text}")


def _prior_table(fitted: FittedRemedy, prior: LetterPrior) -> Table:
    widest = max(prior.log_prior)
    letters = [position_name(place) for place in range(widest)]
    return Table(
        name="letter-prior",
        title=f"Letter prior: {fitted.remedy.title}",
        caption="What the model adds to the log-probability of a letter, in nats, with a mean of "
        "0. Views: of each item of the fit.",
        columns=(
            Column("Answers", numbers=("answers",)),
            Column("Items", numbers=("items",)),
            Column("Views", numbers=("views",)),
            *(Column(letter, numbers=(f"{letter} (nats)",)) for letter in letters),
        ),
        rows=tuple(
            Row(
                (
                    count_cell(count),
                    count_cell(prior.items[count]),
                    count_cell(prior.views[count]),
                    *(
                        Cell(f"{value:+.3f}", (float(value),))
                        for value in prior.log_prior[count].tolist()
                    ),
                    *(Cell("", (math.nan,)) for _ in range(widest - count)),
                )
            )
            for count in sorted(prior.log_prior)
        ),
    )
