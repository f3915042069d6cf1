"""Programs that are interrupted, and how fast the machine is that they run on.

pace(): a factor, at least 1, by which a program is slower here than where the suites' limits were
set, in processor time: of a sanitized build, of a slow machine, of one whose processors others use
too. A limit of time on the wall would hold on an idle machine only. What is timed is the kind of work
whose Ctrl-C the suites judge: host statements, a kernel on the evaluator, a product, an elementwise
operation. Program: one that is sent a SIGINT once it is at work. resident(): what it holds.
"""
import ctypes
import os
import re
import select
import signal
import subprocess
import tempfile
import time

HANGS = 600  # seconds after which a program hangs, on any machine
TICK = os.sysconf("SC_CLK_TCK")

NOMINAL = 0.25  # seconds, measured when the limits were set
WORK = """var n = 0
while n < 150000 { n += 1 }
kernel f(n: i32) -> (y: f32[1] = 0) { for i in range(n) { y[0] += 1 } }
let y = f(1500000)
let z = zeros(f32, 1000, 1000)
let p = z @ z
let e = tan(zeros(f64, 1000000))"""


def used(*command, **how):
    """Seconds of processor time, all threads and the system's, and the status."""
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, **how)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, p.returncode


def pace(tilesh):
    seconds, status = used(tilesh, "--device", "cpu", "--threads", "2", "-e", WORK)
    if status != 0:
        raise SystemExit(f"the work to time ended with status {status}")
    return max(1.0, seconds / NOMINAL)


def small_pages():
    """Between fork and exec: no huge pages, which come at their own time and of which one is more than
    the growth that is looked for."""
    ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE


def resident(pid):
    """KiB of a program's own memory, swapped out or not, where the system tells it apart: pages of
    files come and go by what else the machine does."""
    with open(f"/proc/{pid}/status") as f:
        found = dict(re.findall(r"^(\w+):\s+(\d+) kB", f.read(), re.M))
    return int(found.get("RssAnon", found["VmRSS"])) + int(found.get("VmSwap", 0))


class Program:
    """Standard output is read as it comes; standard error goes to a file, which no reader holds up."""

    def __init__(self, *command, **how):
        self.err = tempfile.TemporaryFile("w+", errors="replace")
        self.out, self.sent, self.after = "", None, None
        self.p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.err, **how)

    def read(self, limit):
        """One piece of output; None if none comes within the seconds, False at the end."""
        if not select.select([self.p.stdout], [], [], limit)[0]:
            return None
        data = os.read(self.p.stdout.fileno(), 65536)
        self.out += data.decode(errors="replace")
        return bool(data)

    def says(self, words):
        """Whether it prints them."""
        while words not in self.out and self.read(HANGS):
            pass
        return words in self.out

    def used(self):
        """Seconds of processor time so far, of a program that was not waited for yet."""
        with open(f"/proc/{self.p.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def interrupt_after(self, seconds):
        """Once it has used so much more time: it is at work. A program that has ended meanwhile gets no
        signal that does anything."""
        since, end = self.used(), time.monotonic() + HANGS
        while self.used() - since < seconds and time.monotonic() < end and self.read(0.01) is not False:
            pass
        self.sent = self.used()
        self.p.send_signal(signal.SIGINT)

    def end(self):
        """Status, output and errors; status None: it had to be killed. after: what it used after the
        signal."""
        end = time.monotonic() + HANGS
        while self.read(1) is not False and time.monotonic() < end:
            pass
        killed = time.monotonic() >= end
        if killed:
            self.p.kill()
        _, status, usage = os.wait4(self.p.pid, 0)
        self.p.returncode = os.waitstatus_to_exitcode(status)
        self.p.stdout.close()
        if self.sent is not None:
            self.after = usage.ru_utime + usage.ru_stime - self.sent
        self.err.seek(0)
        return None if killed else self.p.returncode, self.out, self.err.read()
