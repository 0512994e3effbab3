"""Implements `kscheduler whatif`: simulates a scenario as it is and a changed one, and prints the difference."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext

import msgspec

from kscheduler.command.interruption import report_interruption
from kscheduler.command.report_files import check_writable, indented_json, save
from kscheduler.compare.comparing import silently
from kscheduler.compare.sides import Side
from kscheduler.simulator.progress import progress_on
from kscheduler.simulator.run import Progress
from kscheduler.ui.page_file import to_html
from kscheduler.whatif.answer import Answer, difference
from kscheduler.whatif.capacity import Needed, Trial, fewest_nodes
from kscheduler.whatif.options import WhatIfArguments
from kscheduler.whatif.played_side import PlayedSide
from kscheduler.whatif.reading import WhatIf
from kscheduler.whatif.words import changes_in_words, to_text, trial_in_words


def whatif(arguments: WhatIfArguments) -> int:
    """Answer a what-if, print the answer and return the exit code.

    Raises ConfigError for wrong input, NotMet if no number of nodes meets the objectives.
    """
    check_writable(arguments.html)
    scenarios = WhatIf(arguments)
    try:
        answer = _answer(arguments, scenarios)
    except KeyboardInterrupt:
        return report_interruption("there is no answer")
    if arguments.html is not None:
        save(arguments.html, to_html(msgspec.json.encode(answer)))
    print(indented_json(answer) if arguments.output == "json" else to_text(answer), end="")
    return 0


def _answer(arguments: WhatIfArguments, scenarios: WhatIf) -> Answer:
    needed, after = _changed(arguments, scenarios)
    return difference(
        scenarios.as_it_is(),
        after,
        list(changes_in_words(arguments, None if needed is None else needed.nodes)),
        limit=arguments.limit,
        command=arguments.command,
        needed=needed,
        other_seed=(lambda: scenarios.as_it_is(seed=scenarios.seed + 1)) if arguments.by_chance else None,
        shown=silently if arguments.quiet else _shown,
    )


def _shown(side: Side) -> AbstractContextManager[Progress | None]:
    if (isinstance(side, PlayedSide) and side.is_played) or not side.arrivals:
        return nullcontext()
    print(f"simulating {side.name}", file=sys.stderr)
    return progress_on(side.arrivals)


def _changed(arguments: WhatIfArguments, scenarios: WhatIf) -> tuple[Needed | None, PlayedSide]:
    if not arguments.find:
        return None, scenarios.changed()

    def show(trial: Trial) -> None:
        if not arguments.quiet:
            print(f"{arguments.sought}: {trial_in_words(trial)}", file=sys.stderr)

    return fewest_nodes(
        arguments.sought, arguments.objectives, scenarios.changed, arguments.most, show, scenarios.estimated()
    )
