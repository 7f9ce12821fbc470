"""The steps behind the chapters on few or no labels: encoders, zero-shot answers, few-shot curves, open sets."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from reefcore import profiles, recipes
from reefcore.errors import ReefcoreError
from reefcore.files import atomic, read_parquet, write_parquet
from reefcore.profiles import Profile
from reefcore.recipes import zero_shot as asked
from reefcore.tables import positions
from reefcore.workflow import keys, steps

logger = logging.getLogger(__name__)
