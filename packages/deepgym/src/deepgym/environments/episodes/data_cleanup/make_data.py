"""Makes the raw files of a seed. The verifier imports the same file to know what their clean form is."""

import codecs
import csv
import io
import os
import random
from datetime import date, timedelta
from fractions import Fraction

GRAMS = {"g": Fraction(1), "kg": Fraction(1000), "lb": Fraction("453.59237"), "oz": Fraction("28.349523125")}
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
FIRST = ["Zoë", "Jürgen", "Ana", "François", "Liv", "Søren", "Mia", "Álvaro", "Tom", "Inês"]
LAST = ["Müller", "O'Brien", "García", "Smith-Jones", "Næss", "d'Arc", "Lee", "Ibarra", "Weiß", "van", "Dyk"]
FIRMS = (
    "Kr\u00fcger, S\u00f6hne & Co",
    'The "Blue" Door, Ltd',
    "Caf\u00e9; Bar",
    "H\u00f8st|Vinter",
    "Smith, John",
)
MISSING = ("", "-", "n/a")


class Shop:
    """One source: how it writes, its rows as text, and what is true of them."""

    def __init__(self, letter, file, rng):
        self.letter, self.file, self.rng = letter, file, rng
        self.rows, self.clean, self.rejected = [], {}, set()
        numbers = rng.sample(range(1, 3000), 110)
        for number in numbers:
            self.order(number)
        rng.shuffle(self.rows)
        self.columns = ["order", "rev", "date", "customer", "weight", "price"]
        rng.shuffle(self.columns)

    def order(self, number):
        rng = self.rng
        name = "%s-%05d" % (self.letter, number)
        kind = rng.choice(("one", "one", "one", "one", "two", "two", "copy", "newest bad", "bad", "bad"))
        best = rng.randint(1, 4)
        revisions = {
            "one": [(best, True)],
            "two": [(rng.randint(0, best - 1), True), (best, True)],
            "copy": [(best, True), (best, "copy")],
            "newest bad": [(best, True), (best + rng.randint(1, 9), False)],
            "bad": [(best + extra, False) for extra in range(rng.randint(1, 2))],
        }[kind]
        if kind == "two" and rng.random() < 0.5:
            revisions.append((12, True))
        for rev, valid in revisions:
            if valid != "copy":
                values = self.values()
                if not valid:
                    self.spoil(values)
            self.rows.append({"order": self.number(number), "rev": str(rev), **self.texts(values)})
            if valid is True:
                self.clean[name] = (name, *self.cleaned(values))
        if kind == "bad":
            self.rejected.add(name)

    def values(self):
        rng = self.rng
        customer = rng.choice(FIRMS) if rng.random() < 0.2 else rng.choice(FIRST) + " " + rng.choice(LAST)
        if rng.random() < 0.1:
            customer += " " + rng.choice(("Jr.", "III", "& Co"))
        unit = rng.choice(("g", "kg") if self.letter == "B" else ("g", "kg", "lb", "oz"))
        while True:
            amount = Fraction(rng.randint(1, 4000))
            if unit != "g":
                amount = Fraction(rng.randint(1, 9999), 10 ** rng.randint(1, 2 if unit != "kg" else 3))
            grams = amount * GRAMS[unit]
            # Not so near to half a gram that a computation with floats could round otherwise.
            if abs(grams % 1 - Fraction(1, 2)) > Fraction(1, 1000) and grams >= 1:
                break
        return {
            "date": date(2023, 1, 1) + timedelta(days=rng.randint(0, 729)),
            "customer": customer,
            "amount": amount,
            "unit": unit,
            "cents": rng.choice((rng.randint(1, 9999), rng.randint(10**4, 10**7), 100 * rng.randint(0, 300))),
        }

    def spoil(self, values):
        rng = self.rng
        what = rng.choice(("date", "day", "amount", "unit", "sign", "cents", "negative"))
        if what in ("date", "amount", "cents"):
            values[what] = None
        elif what == "day":
            values["date"] = (2023, *rng.choice(((2, 29), (2, 30), (4, 31), (11, 31), (6, 31))))
        elif what == "unit":
            values["unit"] = rng.choice(("st", "t", "", "mg"))
        elif what == "sign":
            values["amount"] = rng.choice((Fraction(0), Fraction(-5)))
        else:
            values["cents"] = -rng.randint(1, 9999)

    def cleaned(self, values):
        grams = int(values["amount"] * GRAMS[values["unit"]] + Fraction(1, 2))
        currency = {"A": "USD", "B": "EUR", "C": "GBP"}[self.letter]
        return values["date"].isoformat(), values["customer"], str(grams), str(values["cents"]), currency

    def number(self, number):
        letter = self.rng.choice((self.letter, self.letter.lower()))
        form = self.rng.choice(("%s-%05d", "%s-%05d", "%s%d", "%s-%d", " %s-%04d "))
        return form % (letter, number)

    def texts(self, values):
        rng = self.rng
        gaps = ["  " if rng.random() < 0.25 else " " for _ in values["customer"].split(" ")]
        customer = "".join(word + gap for word, gap in zip(values["customer"].split(" "), gaps))
        customer = rng.choice(("", "", " ")) + (customer if rng.random() < 0.2 else customer.rstrip(" "))
        weight = rng.choice(MISSING)
        if values["amount"] is not None:
            unit = rng.choice((values["unit"], values["unit"].upper()))
            weight = self.decimal(values["amount"]) + rng.choice((" ", "")) + unit
        return {
            "date": self.day(values["date"]),
            "customer": customer,
            "weight": weight,
            "price": self.price(values["cents"]),
        }

    def decimal(self, amount):
        whole, rest = divmod(abs(amount), 1)
        text = str(int(whole))
        if rest:
            text += "." + ("%03d" % int(rest * 1000)).rstrip("0")
        text = ("-" if amount < 0 else "") + text
        return text.replace(".", ",") if self.letter == "B" else text

    def price(self, cents):
        if cents is None:
            return self.rng.choice(MISSING)
        text = format(abs(cents) // 100, ",")
        if cents % 100 or self.rng.random() < 0.5:
            text += ".%02d" % (abs(cents) % 100)
        sign = "-" if cents < 0 else ""
        if self.letter == "B":
            return sign + text.translate({44: ".", 46: ","}) + " EUR"
        return sign + {"A": "$", "C": "\u00a3"}[self.letter] + text

    def day(self, day):
        if day is None:
            return self.rng.choice(MISSING)
        year, month, number = day if isinstance(day, tuple) else (day.year, day.month, day.day)
        iso = "%04d-%02d-%02d" % (year, month, number)
        if self.letter == "A":
            return self.rng.choice((iso, "%02d/%02d/%d" % (month, number, year)))
        if self.letter == "B":
            return self.rng.choice(
                ("%02d.%02d.%d" % (number, month, year), "%d.%d.%02d" % (number, month, year % 100))
            )
        return self.rng.choice((iso, "%d %s %d" % (number, MONTHS[month - 1], year)))

    def data(self):
        """The file's bytes."""
        text = io.StringIO()
        separator = {"A": ",", "B": ";", "C": "\t"}[self.letter]
        writer = csv.DictWriter(text, self.columns, delimiter=separator, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        if self.letter == "A":
            return text.getvalue().encode("utf-8-sig")
        if self.letter == "B":
            return text.getvalue().encode("latin-1")
        return codecs.BOM_UTF16_LE + text.getvalue().encode("utf-16-le")


def shops(seed):
    """The three sources."""
    rng = random.Random(seed)
    return [Shop("A", "shop_a.csv", rng), Shop("B", "shop_b.csv", rng), Shop("C", "shop_c.tsv", rng)]


def main():
    os.makedirs("raw", exist_ok=True)
    for shop in shops(int(os.environ["DEEPGYM_SEED"])):
        with open("raw/" + shop.file, "wb") as target:
            target.write(shop.data())


if __name__ == "__main__":
    main()
