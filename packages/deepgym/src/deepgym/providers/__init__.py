"""Where runs happen: the provider interface, and the local sandbox."""
