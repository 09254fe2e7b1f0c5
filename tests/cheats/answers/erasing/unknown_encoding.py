"""Says that its text is in an encoding that always fails."""
# shape: program
# masks on: masks_source
# generated
ANSWER = "# -*- coding: undefined -*-\nprint(7)\n"
