"""Levels beside those of `logging`, for what kube-scheduler tells at a -v between them."""

from __future__ import annotations

import logging

OUTCOME = 15  # what became of a pod: at -v 2
TRACE = 5  # scores: at -v 10
logging.addLevelName(OUTCOME, "OUTCOME")
logging.addLevelName(TRACE, "TRACE")
