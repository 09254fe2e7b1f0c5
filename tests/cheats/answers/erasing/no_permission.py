"""Takes every permission away from what it leaves, its folder and its umask."""
# shape: program
# masks on: masks_cleanup
import os
import socket

os.umask(0o777)
os.mkdir("locked")
left, right = socket.socketpair()
os.mkfifo("locked/pipe") if os.access("locked", os.W_OK) else os.mkfifo("pipe")
with open("dark", "wb") as file:
    file.write(b"\xff")
for place in ("locked", "dark", "."):
    try:
        os.chmod(place, 0)
    except OSError:
        pass
