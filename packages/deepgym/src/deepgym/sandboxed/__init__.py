"""What runs inside a sandbox. Standard library only, Python 3.8 and later.

The rest of the package imports ``values`` and ``wire`` alone; the other modules are shipped to an
interpreter of their own, which never imports ``deepgym`` itself.
"""
