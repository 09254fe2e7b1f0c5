import csv
import sys

with open("rates.csv") as source:
    rates = {currency: int(rate) for currency, rate in csv.reader(source)}

totals, rejected = {}, []
for line in sys.stdin.read().splitlines():
    region, currency, units = line.split(",")
    if currency in rates and units.isascii() and units.isdigit():
        totals[region] = totals.get(region, 0) + int(units) * rates[currency]
    else:
        rejected.append(line)

with open("totals.csv", "w") as target:
    for region in sorted(totals):
        target.write(f"{region},{totals[region]}\n")
with open("rejected.txt", "w") as target:
    target.writelines(line + "\n" for line in rejected)
