def prime_factors(number):
    found, divisor = set(), 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.add(divisor)
            number //= divisor
        divisor += 1
    if number > 1:
        found.add(number)
    return found
