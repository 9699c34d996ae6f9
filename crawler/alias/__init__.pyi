from crawler import *
from crawler import __all__ as __all__
