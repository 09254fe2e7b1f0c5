"""What ``deepgym doctor`` has an answer try."""

from __future__ import annotations

from .attack import Attack

__all__ = ["ATTACKS", "LEFTOVERS", "PLACES", "STEALS"]

ATTACKS: tuple[Attack, ...] = (
    Attack("reads a file of this user", "files", "return works(lambda: read(FILE))"),
    Attack("lists a directory of this user", "files", "return works(lambda: os.listdir(FOLDER))"),
    Attack(
        "writes outside its own directory",
        "files",
        """
        new = lambda: write(FOLDER + "/new")
        return works(new, lambda: write(FILE, "a"), lambda: os.truncate(FILE, 0))
        """,
    ),
    Attack(
        "changes a file's mode or times",
        "files",
        "return works(lambda: os.chmod(FILE, 0o777), lambda: os.utime(FILE))",
    ),
    Attack(
        "removes, moves or links a file of this user",
        "files",
        """
        link = lambda: os.link(FILE, "link")
        return works(link, lambda: os.rename(FILE, FILE + "2"), lambda: os.unlink(FILE))
        """,
    ),
    Attack(
        "reads the host's own files",
        "files",
        "return works(lambda: read('/etc/passwd'), lambda: os.listdir('/var'), lambda: os.listdir('/home'))",
    ),
    Attack("reads an installed package", "files", "return works(lambda: read(PACKAGE))"),
    Attack(
        "opens an IP socket",
        "network",
        """
        kinds = ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM),
                 (socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_DGRAM))
        return works(*[lambda kind=kind: opens(*kind) for kind in kinds])
        """,
    ),
    Attack(
        "opens a raw, netlink or packet socket",
        "network",
        """
        kinds = ((socket.AF_INET, socket.SOCK_RAW, 1), (16, socket.SOCK_RAW, 0), (17, socket.SOCK_RAW, 0))
        return works(*[lambda kind=kind: opens(*kind) for kind in kinds])
        """,
    ),
    Attack(
        "reaches a local socket of this host",
        "network",
        """
        def connect():
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(ABSTRACT)
        return works(connect)
        """,
    ),
    Attack(
        "reads another process's command line or environment",
        "files",
        """
        paths = ["/proc/%d/%s" % (PID, name) for name in ("cmdline", "environ", "maps")]
        return works(*[lambda path=path: read(path) for path in paths])
        """,
    ),
    Attack("signals another process", "files", "return works(lambda: os.kill(PID, 0))"),
    Attack(
        "traces another process",
        "files",
        "return call(101 if X86 else 117, 0x4206, PID, 0, 0)",
    ),
    Attack(
        "reads another process's memory",
        "files",
        """
        def peek():
            with open("/proc/%d/mem" % PID, "rb") as memory:
                memory.seek(ADDRESS)
                return memory.read(4) != b""
        own = ctypes.create_string_buffer(8)
        vectors = [ctypes.create_string_buffer(iovec(at, 8)) for at in (ctypes.addressof(own), ADDRESS)]
        ours, theirs = map(ctypes.addressof, vectors)
        return call(310 if X86 else 270, PID, ours, 1, theirs, 1, 0) or works(peek)
        """,
    ),
    Attack(
        "takes a descriptor of another process",
        "files",
        """
        pidfd = libc.syscall(ctypes.c_long(434), PID, 0)
        return pidfd >= 0 and call(438, pidfd, 1, 0)
        """,
    ),
    Attack(
        "changes another process's limits or priority",
        "files",
        """
        return works(
            lambda: resource.prlimit(PID, resource.RLIMIT_CORE, (0, 0)),
            lambda: os.setpriority(os.PRIO_PROCESS, PID, 19),
            lambda: os.sched_setaffinity(PID, os.sched_getaffinity(0)),
        )
        """,
    ),
    Attack(
        "has or can gain privileges",
        "files",
        """
        data = ctypes.create_string_buffer(24)
        header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
        libc.capget(header, data)
        filtered = libc.prctl(21, 0, 0, 0, 0) == 2
        locked = libc.prctl(39, 0, 0, 0, 0) == 1
        return os.geteuid() == 0 or any(data.raw[:8] + data.raw[12:20]) or not (locked and filtered)
        """,
    ),
    Attack(
        "makes a namespace",
        "files",
        "return call(272 if X86 else 97, 0x10000000) or call(272 if X86 else 97, 0x20000)",
    ),
    Attack("takes more memory than allowed", "memory", "return works(lambda: bytearray(320 << 20))"),
    Attack(
        "takes more memory in several processes",
        "memory",
        """
        done, hold = os.pipe(), os.pipe()
        children = []
        for _ in range(4):
            child = os.fork()
            if child == 0:
                try:
                    memory = b"x" * (64 << 20)
                    os.write(done[1], b"x")
                    os.close(hold[1])
                    os.read(hold[0], 1)
                finally:
                    os._exit(0)
            children.append(child)
        os.close(done[1])
        deadline = time.monotonic() + 10.0
        got = 0
        while got < 4 and time.monotonic() < deadline:
            if select.select([done[0]], [], [], 0.05)[0]:
                got += len(os.read(done[0], 4))
            if got < 4 and any(os.waitpid(child, os.WNOHANG)[0] for child in children):
                break
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except OSError:
                pass
        return got == 4
        """,
        together=True,
    ),
    Attack(
        "writes a larger file than allowed",
        "disk",
        "return works(lambda: open('large', 'wb').write(bytes(12 << 20)))",
    ),
    Attack(
        "fills the disk with many files",
        "disk",
        """
        def fill():
            for number in range(4):
                with open("part%d" % number, "wb") as target:
                    target.write(bytes(6 << 20))
        return works(fill)
        """,
        together=True,
    ),
    Attack(
        "makes more files than allowed",
        "disk",
        "return works(lambda: [open('file%d' % number, 'w').close() for number in range(400)])",
        together=True,
    ),
    Attack(
        "starts more processes than allowed",
        "pids",
        """
        def forks():
            for _ in range(400):
                if os.fork() == 0:
                    time.sleep(20)
                    os._exit(0)
        return works(forks)
        """,
    ),
    Attack(
        "finds the expected values in its memory",
        "files",
        """
        import gc
        word = "deepgym-expected" + "-"
        def is_it(text):
            digits = text[len(word):]
            return len(digits) == 32 and all(c in "0123456789abcdef" for c in digits)
        def scan():
            start = word.encode()
            with open("/proc/self/maps") as table, open("/proc/self/mem", "rb", 0) as memory:
                for line in table:
                    first, last = (int(end, 16) for end in line.split()[0].split("-"))
                    if line.split()[1][0] != "r" or "[v" in line:
                        continue
                    try:
                        memory.seek(first)
                        data = memory.read(min(last - first, 32 << 20))
                    except (OSError, OverflowError, ValueError):
                        continue
                    at = data.find(start)
                    while at >= 0:
                        if is_it(data[at : at + len(start) + 32].decode("latin-1")):
                            return True
                        at = data.find(start, at + 1)
            return False
        held = (item for thing in gc.get_objects() for item in gc.get_referents(thing))
        texts = (item for item in held if type(item) is str and item.startswith(word))
        return works(scan) or any(map(is_it, texts))
        """,
    ),
)

#: Where a run could leave something for the next one.
PLACES = (".", "tmp", "/tmp", "/var/tmp", "/dev/shm")

#: In a verifier's place lies a file called ``NAME``.
STEALS = Attack(
    "reads the verifier's files",
    "files",
    """
    import glob
    places = ("/box", ".", "..", "/tmp", "/tmp/*/*", "/tmp/*/*/*")
    places += ("/proc/[0-9]*/cwd", "/proc/[0-9]*/root/box")
    paths = [path for place in places for path in glob.glob(os.path.join(place, NAME))]
    return works(*[lambda path=path: read(path) for path in paths])
    """,
)

#: One run leaves these behind, the next one in the same place looks for them.
LEFTOVERS: tuple[Attack, Attack] = (
    Attack(
        "leaves a process behind",
        "files",
        """
        name = "deepgym-doctor-" + TOKEN
        for folder in PLACES:
            works(lambda: write(os.path.join(folder, name)))
        libc.shmget(int(TOKEN, 16), 4096, 0o1666)
        os.environ["DEEPGYM_DOCTOR"] = TOKEN
        os.deepgym_doctor = TOKEN
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                libc.prctl(15, ctypes.c_char_p(("dg" + TOKEN).encode()), 0, 0, 0)
                time.sleep(600)
            os._exit(0)
        os.wait()
        return False
        """,
    ),
    Attack(
        "finds files, memory or variables of the last run",
        "files",
        """
        name = "deepgym-doctor-" + TOKEN
        return (
            any(os.path.exists(os.path.join(folder, name)) for folder in PLACES)
            or libc.shmget(int(TOKEN, 16), 0, 0) >= 0
            or os.environ.get("DEEPGYM_DOCTOR") == TOKEN
            or getattr(os, "deepgym_doctor", None) == TOKEN
        )
        """,
    ),
)
