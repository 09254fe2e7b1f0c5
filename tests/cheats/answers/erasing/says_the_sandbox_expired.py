"""Prints what a provider's client says when it retires a sandbox."""
# shape: program
# masks on: masks_text
import sys

print("SandboxExpiredError: the sandbox was evicted by the control plane (HTTP 503, retry after 429)")
print('{"error_type": "provider_error", "has_verdict": false}', file=sys.stderr)
