"""The page about the checks has a section for each, where the messages of the checks say it is."""

from __future__ import annotations

import re

import pytest

from cera_core.testing import DRAFTER_CHECKS, MODEL_CHECKS
from cera_core.testing.checking import PAGE
from support.pages import ROOT

TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


@pytest.mark.parametrize("check", [*DRAFTER_CHECKS, *MODEL_CHECKS], ids=lambda check: check.__name__)
def test_each_check_has_a_section_with_its_words(check) -> None:
    found = re.search(rf"^### {check.__name__}\n\n(.*?)(?=^#|^<!--)", TEXT, re.M | re.S)
    assert found
    assert " ".join(found[1].split()) == " ".join(check.__doc__.split())


def test_there_are_no_other_checks() -> None:
    names = re.findall(r"^### (check_\w+)$", TEXT, re.M)
    assert names == [check.__name__ for check in (*DRAFTER_CHECKS, *MODEL_CHECKS)]
