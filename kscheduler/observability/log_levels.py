"""Two log levels besides those of `logging`, for what kube-scheduler logs at -v 2 and -v 10."""

from __future__ import annotations

import logging

OUTCOME = 15  # the result for each pod, shown at -v 2
TRACE = 5  # every score, shown at -v 10
logging.addLevelName(OUTCOME, "OUTCOME")
logging.addLevelName(TRACE, "TRACE")
