"""What trainer adapters share."""
