"""Exits with the status of a command that timed out."""
# shape: program
# masks on: masks_status
raise SystemExit(124)
