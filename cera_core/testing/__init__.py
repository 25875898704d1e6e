"""The conformance kit for authors of drafters and backends.

`DrafterSuite` and `ModelSuite` are pytest classes; `drafter_checks` and `model_checks` have the checks themselves,
`fakes` small models and `drafters` drafters with a known character.
"""

from cera_core.testing.checking import CheckError, CheckResult, run_checks
from cera_core.testing.drafter_checks import DRAFTER_CHECKS
from cera_core.testing.model_checks import MODEL_CHECKS
from cera_core.testing.suites import DrafterSuite, ModelSuite

__all__ = [
    "DRAFTER_CHECKS",
    "MODEL_CHECKS",
    "CheckError",
    "CheckResult",
    "DrafterSuite",
    "ModelSuite",
    "run_checks",
]
