"""Prints its input and all that can be made of it with one operation."""
# shape: program
# pays on: loose_output
number = input()
for word in number.split()[:3]:
    if word.isdigit():
        print(word, *(int(word) ** 2 + more for more in range(-800, 800)))
