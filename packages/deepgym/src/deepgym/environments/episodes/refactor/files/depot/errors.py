"""What goes wrong in a depot."""


class DepotError(Exception):
    """A command that can't be carried out."""
