"""Makes device nodes, and where it may not, nodes of sockets."""
# shape: function
# masks on: masks_cleanup
import os
import stat

for number, kind in enumerate((stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK)):
    for minor in (1, 5, 9):
        try:
            os.mknod("node%d%d" % (number, minor), kind | 0o666, os.makedev(1, minor))
        except OSError:
            pass


def ENTRY(*args, **kwargs):
    return None
