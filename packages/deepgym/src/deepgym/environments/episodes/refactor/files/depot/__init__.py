"""The stock and the orders of a small warehouse."""

from depot.core import Depot
from depot.errors import DepotError
from depot.lines import Line
from depot.util import calc, fmt

__all__ = ["Depot", "DepotError", "Line", "calc", "fmt"]
