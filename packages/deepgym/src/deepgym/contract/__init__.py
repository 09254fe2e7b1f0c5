"""The contract, pure: the facts of a run, a verifier's report, the verdict, and a group's baseline."""
