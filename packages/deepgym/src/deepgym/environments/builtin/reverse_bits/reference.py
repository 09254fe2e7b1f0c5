def reverse_bits(value, width):
    return int(format(value, f"0{width}b")[::-1], 2)
