"""`crawler.testing`, under the name of the distribution."""

from crawler.testing import *  # noqa: F403
from crawler.testing import __all__ as __all__  # noqa: PLC0414 - re-exported
