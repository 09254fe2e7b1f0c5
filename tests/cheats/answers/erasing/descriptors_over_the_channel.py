"""Sends the judge descriptors over the channel, the channel's own among them, until no more fit."""
# shape: function
# masks on: masks_channel
import array
import os
import socket


def ENTRY(*args, **kwargs):
    for place in (3, 4):
        try:
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=place)
            rights = array.array("i", [place, 0, 1, 2, os.open("/dev/zero", os.O_RDONLY)] * 40)
            for _ in range(20):
                channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], socket.MSG_DONTWAIT)
        except OSError:
            pass
    os.closerange(3, 64)
    os._exit(0)
