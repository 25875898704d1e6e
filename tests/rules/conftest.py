"""The small models that the rules are tested on."""

from __future__ import annotations

import pytest

from support.small_models import NAMES, SmallModel
from support.small_models import small_model as make_small_model


@pytest.fixture(scope="session", params=NAMES)
def small_model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SmallModel:
    """A model on each backend that is batch-invariant, and a table of logits."""
    return make_small_model(request.param, tmp_path_factory.getbasetemp())
