"""What agents do to their own sandboxes, one and many times, and with what they leave running."""

from __future__ import annotations

from .episode_tasks import ENV

__all__ = ["DOINGS", "HASTY"]

#: Little time for a step.
HASTY = ENV.model_copy(update={"limits": ENV.limits.model_copy(update={"step": 0.5, "actions": 30.0})})

_PRLIMIT = """python3 - > /dev/null 2>&1 <<'END' &
import os, resource
while True:
    mine = os.getpid()
    for pid in (1, *range(max(1, mine - 20), mine + 200)):
        if pid == mine:
            continue
        for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_STACK):
            try:
                resource.prlimit(pid, kind, (0, 0))
            except (OSError, ValueError):
                pass
END
"""
_KILLER = "(trap '' TERM HUP INT; while :; do kill -9 -1; done) > /dev/null 2>&1 &"
_EATER = "python3 -c 'import time; held = [bytearray(1 << 20) for _ in range({})]; time.sleep(99)' &"

#: What an agent does, by what it is; each is followed by further steps and by the copy.
DOINGS: dict[str, str] = {
    "kills all": "kill -9 -1",
    "kills all the time": f"{_KILLER} {_KILLER}",
    "signals the first process": "for n in 1 2 3 6 9 11 13 14 15 17 18 19 20 31 34 64; do kill -$n 1; done",
    "stops all": "(while :; do kill -STOP -1; sleep 0.01; done) &",
    "stops its shell": "kill -STOP $$",
    "limits others": _PRLIMIT,
    "takes every process": "for i in $(seq 200); do sleep 99 & done",
    "bombs": "bomb() { bomb | bomb & }; bomb",
    "takes all memory": _EATER.format(4096),
    "takes nearly all memory": _EATER.format(180),
    "fills the disk": "head -c 1G /dev/zero > full; head -c 1G /dev/zero > /tmp/full",
    "takes every name": "i=0; while mkdir d$i; do i=$((i+1)); done 2> /dev/null",
    "keeps the disk in the dark": "exec 9> gone; rm gone; head -c 1G /dev/zero >&9",
    "has no work directory": "cd / && rm -rf /box/work; rmdir /box/work; chmod 000 /box/work",
    "replaces its home": "rm -rf /box/home /tmp/*; ln -s / /box/home",
    "closes what it has": "exec >&- 2>&- <&-",
    "writes to the first process": "for fd in /proc/1/fd/* /proc/$PPID/fd/*; do echo x > $fd & done 2> /dev/null",
    "reads the first process": "cat /proc/1/mem /proc/1/environ /proc/1/maps",
    "says what the shell says": "for i in $(seq 1 9); do for fd in $(seq 3 60); do echo $i:0 >&$fd; done; done 2> /dev/null",
    "prints anything": "head -c 60000 /dev/urandom; printf '\\0\\033[2J\\377\\r'",
    "leaves odd names": "touch -- -rf $'a\\nb' $'\\377' $'\\033[2J' 'a b' '*'; ln -s $'\\377' l",
    "leaves a deep folder": "d=.; for i in $(seq 200); do d=$d/$(printf 'n%.0s' $(seq 15)); done; mkdir -p $d",
    "leaves no room": "for i in $(seq 60); do head -c 1M /dev/urandom > f$i; done 2> /dev/null",
    "floods": "yes",
    "floods in the dark": "yes > /dev/stderr & yes &",
    "never ends": "trap '' INT TERM HUP; while :; do :; done",
    "has no descriptors": "ulimit -n 0",
    "has no processes": "ulimit -u 0",
    "writes nothing": "ulimit -f 0; echo x > x",
    "is another shell": "exec python3 -c 'while True: pass'",
    "redefines": "printf() { :; }; eval() { :; }; trap() { :; }; exec() { :; }; alias exit=:",
    "sets traps": "trap 'kill -9 $$' DEBUG; trap 'while :; do :; done' EXIT; set -o noexec",
    "grows a log for ever": "(while :; do head -c 100000 /dev/zero; done >> log) &",
    "changes what is copied": "while :; do rm -rf a; mkdir -p a/b/c; ln -s /etc a/e; mv a z; ln -s z a; rm -rf z a; done &",
}
