"""Log levels in addition to those of `logging`, for what kube-scheduler logs at -v 2 and -v 10."""

from __future__ import annotations

import logging

OUTCOME = 15  # results for pods: at -v 2
TRACE = 5  # scores: at -v 10
logging.addLevelName(OUTCOME, "OUTCOME")
logging.addLevelName(TRACE, "TRACE")
