"""Leaves a module beside the checker that it imports instead of the standard library's."""
# shape: program
# pays on: shared_folder
for name in ("decimal", "pathlib", "json", "re", "os", "sitecustomize"):
    with open(name + ".py", "w") as file:
        file.write("import sys, os\nos._exit(0)\n")
print("mine")
