"""A switch in user space between network namespaces: each direction of each link can be made bad.

Every namespace has a TUN device, and so has the root namespace, where the clients are; a process of its own reads the
packets of all devices and writes each to the device of its receiver. `Switch` makes the namespaces and that process,
and commands it. A TCP connection stays open when its link is cut: its packets are lost without an answer.

The process: python switch.py DESCRIPTOR ..
"""

import errno
import fcntl
import heapq
import json
import os
import random
import select
import struct
import subprocess
import sys
import time

from replica_set import Namespaces, run

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
MTU = 16000
PRIORITY = -10
# Packets that are read from a device at a time, so that no other waits for long.
BURST = 64
# How long a packet that is to be reordered waits: others overtake it.
REORDER_S = 0.02


class Switch(Namespaces):
    """A network namespace for each member, joined by the switch; the clients are outside, as number `self.clients`."""

    def begin_links(self):
        self.clients, self.process, self.links = self.members, None, {}
        self.devices = [self.device(number) for number in range(self.members + 1)]
        self.take_address(self.clients, ["ip"])
        words = [sys.executable, os.path.abspath(__file__), *map(str, self.devices)]
        self.process = subprocess.Popen(words, pass_fds=self.devices, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def device(self, number):
        """A new TUN device, by its file descriptor."""
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        name = f"{self.name}t{number}".encode()
        fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", name, IFF_TUN | IFF_NO_PI))
        return descriptor

    def take_address(self, number, ip):
        device = f"{self.name}t{number}"
        run(*ip, "addr", "add", f"{self.host(number)}/24", "dev", device)
        run(*ip, "link", "set", device, "mtu", str(MTU), "txqueuelen", "5000", "up")

    def connect(self, number):
        run("ip", "link", "set", f"{self.name}t{number}", "netns", self.space(number))
        self.take_address(number, [*self.command(number), "ip"])

    def set(self, sender, receiver, **how):
        """Makes one direction of a link as the fields of `Link` tell; none for a sound one."""
        self.links.pop((sender, receiver), None)
        if how:
            self.links[sender, receiver] = how
        self.say({"sender": sender, "receiver": receiver, "how": how})

    def set_both(self, one, other, **how):
        self.set(one, other, **how)
        self.set(other, one, **how)

    def cut(self, sender, receiver):
        """Loses what one member sends to another."""
        self.set(sender, receiver, cut=True)

    def heal(self):
        for sender, receiver in list(self.links):
            self.set(sender, receiver)

    def is_sound(self, one, other):
        """Whether packets go both ways between two, at once and in order."""
        return (one, other) not in self.links and (other, one) not in self.links

    def say(self, words):
        """Tells the process, and waits until it has heard."""
        self.process.stdin.write(json.dumps(words).encode() + b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"ok\n", "the switch ended by itself"

    def end(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
        for descriptor in self.devices:
            os.close(descriptor)
        super().end()


class Link:
    """How one direction of a link is."""

    def __init__(self, cut=False, reset=False, loss=0.0, duplicate=0.0, reorder=0.0, delay=0.0, jitter=0.0, flap=None):
        """`loss`, `duplicate` and `reorder` are chances; `delay` and `jitter` seconds, `jitter` at most as much more;
        `flap` is how many seconds the link is cut, and then is not, in turn; `reset` answers TCP with resets."""
        self.cut, self.reset, self.loss, self.duplicate, self.reorder = cut, reset, loss, duplicate, reorder
        self.delay, self.jitter, self.flap = delay, jitter, flap
        # When the last packet is due, which later ones do not overtake.
        self.last_due = 0.0

    def is_cut(self, now):
        return self.cut or (self.flap is not None and now % sum(self.flap) < self.flap[0])

    def due(self, now):
        """When a packet of this moment goes on: one time for each copy of it; none when it is lost."""
        if self.is_cut(now) or random.random() < self.loss:
            return []
        due = max(self.last_due, now + self.delay + random.uniform(0, self.jitter))
        if random.random() < self.reorder:
            return [due + REORDER_S]
        self.last_due = due
        return [due, due] if random.random() < self.duplicate else [due]


class Process:
    """The process of the switch: it forwards until its standard input ends."""

    def __init__(self, devices):
        self.devices, self.links, self.late, self.packets = devices, {}, [], 0

    def run(self):
        # A switch that waits for a processor is a slow network.
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        poll = select.epoll()
        for descriptor in [0, *self.devices]:
            poll.register(descriptor, select.EPOLLIN)
        numbers = {descriptor: number for number, descriptor in enumerate(self.devices)}
        while True:
            wait = max(0, self.late[0][0] - time.monotonic()) if self.late else -1
            for descriptor, _ in poll.poll(wait):
                if descriptor != 0:
                    self.read(numbers[descriptor], descriptor)
                elif not self.command():
                    return
            while self.late and self.late[0][0] <= time.monotonic():
                self.write(*heapq.heappop(self.late)[2:])

    def command(self):
        line = sys.stdin.buffer.readline()
        if line:
            words = json.loads(line)
            link = Link(**words["how"]) if words["how"] else None
            self.links[words["sender"], words["receiver"]] = link
            sys.stdout.write("ok\n")
            sys.stdout.flush()
        return bool(line)

    def read(self, sender, descriptor):
        for _ in range(BURST):
            try:
                packet = os.read(descriptor, 1 << 16)
            except BlockingIOError:
                return
            # IPv4 only; the last byte of an address is the number of its device, from 1 on.
            receiver = packet[19] - 1 if packet[0] >> 4 == 4 and len(packet) >= 20 else -1
            if 0 <= receiver < len(self.devices):
                self.forward(sender, receiver, packet)

    def forward(self, sender, receiver, packet):
        link = self.links.get((sender, receiver))
        if link is None:
            self.write(receiver, packet)
        elif link.reset:
            for back, answer in zip((sender, receiver), resets(packet)):
                self.write(back, answer)
        else:
            for due in link.due(time.monotonic()):
                self.packets += 1
                heapq.heappush(self.late, (due, self.packets, receiver, packet))

    def write(self, receiver, packet):
        try:
            os.write(self.devices[receiver], packet)
        except OSError as error:
            # The queue of the device is full, or its namespace is gone: a packet that is lost.
            if error.errno not in (errno.EAGAIN, errno.ENOBUFS, errno.EIO, errno.EINVAL):
                raise


FIN, SYN, RST, ACK = 1, 2, 4, 16
TCP = 6


def resets(packet):
    """The segments that end the connection of a TCP packet: to its sender, and to its receiver, when that has one."""
    header = (packet[0] & 15) * 4
    if packet[9] != TCP:
        return []
    source, target, sequence, acknowledged, offset, flags = struct.unpack_from("!HHIIBB", packet, header)
    if flags & RST:
        return []
    here, there = packet[12:16], packet[16:20]
    count = len(packet) - header - (offset >> 4) * 4 + bool(flags & SYN) + bool(flags & FIN)
    if not flags & ACK:
        return [segment(there, here, target, source, 0, sequence + count, RST | ACK)]
    return [
        segment(there, here, target, source, acknowledged, 0, RST),
        segment(here, there, source, target, sequence, 0, RST),
    ]


def segment(source, target, source_port, target_port, sequence, acknowledged, flags):
    """An IPv4 packet with a TCP segment without data."""
    tcp = struct.pack(
        "!HHIIBBHHH", source_port, target_port, sequence & 0xFFFFFFFF, acknowledged & 0xFFFFFFFF, 5 << 4, flags, 0, 0, 0
    )
    pseudo = source + target + struct.pack("!BBH", 0, TCP, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, TCP, 0) + source + target
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + tcp


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def test_links():
    """Each way in which a link can be bad does what it says, without a device."""
    assert Link().due(5.0) == [5.0] and Link(cut=True).due(5.0) == [] and Link(loss=1.0).due(5.0) == []
    assert Link(flap=[1, 2]).due(3.5) == [] and Link(flap=[1, 2]).due(4.5) == [4.5]
    assert Link(duplicate=1.0).due(1.0) == [1.0, 1.0] and Link(reorder=1.0).due(1.0) == [1.0 + REORDER_S]
    slow = Link(delay=0.1, jitter=0.2)
    times = [slow.due(1.0)[0] for _ in range(100)]
    assert times == sorted(times) and times[0] >= 1.1 and times[-1] <= 1.3, "jitter overtakes"
    here, there = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    sent = segment(here, there, 1000, 2000, 7, 9, ACK)
    assert checksum(sent[:20]) == 0 and len(resets(sent)) == 2
    back, on = resets(sent)
    assert (back[12:16], back[16:20], on[12:16]) == (there, here, here), "a reset in the wrong direction"
    assert struct.unpack_from("!HHII", back, 20) == (2000, 1000, 9, 0) and back[33] == RST
    assert struct.unpack_from("!HHII", on, 20) == (1000, 2000, 7, 0)
    (refused,) = resets(segment(here, there, 1000, 2000, 7, 0, SYN))
    assert struct.unpack_from("!HHII", refused, 20) == (2000, 1000, 0, 8) and refused[33] == RST | ACK
    assert resets(back) == [], "a reset is not answered"


if __name__ == "__main__":
    Process(list(map(int, sys.argv[1:]))).run()
