"""Lines of orders."""

from dataclasses import dataclass


@dataclass
class Line:
    """Some pieces of one article, at a price in cents for each."""

    sku: str
    qty: int
    price: int

    def as_dict(self):
        """The line as data."""
        return {"sku": self.sku, "qty": self.qty, "price": self.price}
