"""Returns a NaN of its own making, negative and with a payload."""
# shape: function
# pays on: loose_reply
import struct


def ENTRY(*args, **kwargs):
    return struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\xff")[0]
