"""From an environment and an answer to evidence: one run, its cases, and the order of many."""
