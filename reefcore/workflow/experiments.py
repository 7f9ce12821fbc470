"""The steps behind the chapters on few or no labels: encoders, zero-shot answers, few-shot curves, open sets."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)
