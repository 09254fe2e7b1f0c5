import csv
import io


def parse_csv(text):
    return [row or [""] for row in csv.reader(io.StringIO(text, newline=""))]
