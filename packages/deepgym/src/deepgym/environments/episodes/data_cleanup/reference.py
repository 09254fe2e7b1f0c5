import csv
import datetime
import decimal
import re

GRAMS = {"g": "1", "kg": "1000", "lb": "453.59237", "oz": "28.349523125"}
SOURCES = (
    ("raw/shop_a.csv", "utf-8-sig", ",", ("%m/%d/%Y", "%Y-%m-%d"), "USD"),
    ("raw/shop_b.csv", "latin-1", ";", ("%d.%m.%Y", "%d.%m.%y"), "EUR"),
    ("raw/shop_c.tsv", "utf-16", "\t", ("%d %b %Y", "%Y-%m-%d"), "GBP"),
)


def day(text, forms):
    for form in forms:
        try:
            return datetime.datetime.strptime(text, form).date().isoformat()
        except ValueError:
            pass
    raise ValueError("no date")


def number(text, currency):
    if currency == "EUR":
        text = text.translate({44: ".", 46: None})
    return decimal.Decimal(text.replace(",", ""))


def rounded(value):
    return int(value.quantize(decimal.Decimal(1), decimal.ROUND_HALF_UP))


def cleaned(row, forms, currency):
    weight = re.fullmatch(r"([0-9.,]+) *(g|kg|lb|oz)", row["weight"].strip().lower())
    price = re.fullmatch(r"[$\u00a3]?([0-9.,]+)( EUR)?", row["price"].strip())
    if not weight or not price:
        raise ValueError("no weight or no price")
    grams = number(weight[1], currency) * decimal.Decimal(GRAMS[weight[2]])
    if grams <= 0:
        raise ValueError("no weight")
    customer = re.sub(" +", " ", row["customer"].strip(" "))
    cents = rounded(number(price[1], currency) * 100)
    return day(row["date"].strip(), forms), customer, rounded(grams), cents, currency


seen, best = set(), {}
for name, encoding, separator, forms, currency in SOURCES:
    with open(name, encoding=encoding, newline="") as source:
        for row in csv.DictReader(source, delimiter=separator):
            letter, digits = re.fullmatch(r" *([a-c])-?([0-9]+) *", row["order"].lower()).groups()
            order = "%s-%05d" % (letter.upper(), int(digits))
            seen.add(order)
            try:
                clean = cleaned(row, forms, currency)
            except ValueError:
                continue
            if order not in best or int(row["rev"]) > best[order][0]:
                best[order] = int(row["rev"]), clean

with open("clean.csv", "w", encoding="utf-8", newline="") as target:
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(["order", "date", "customer", "grams", "cents", "currency"])
    writer.writerows([order, *best[order][1]] for order in sorted(best))
with open("rejected.txt", "w") as target:
    target.writelines(order + "\n" for order in sorted(seen - set(best)))
print(len(best), "clean,", len(seen) - len(best), "rejected")
