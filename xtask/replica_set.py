"""The processes of a replica set, and the network between them, for the suites that play faults on one."""

import contextlib
import os
import shutil
import signal
import subprocess
import time

from pymongo import MongoClient, ReadPreference
from pymongo.errors import PyMongoError

PORT = 27217
DISK_MIB = 768
BLOCK_GROUPS = "/sys/fs/cgroup/blkio"
# How long the set may take after a fault until it writes again.
RECOVERY_S = 60


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def end(*words):
    """Runs a command that undoes what may not have been done."""
    with contextlib.suppress(OSError):
        subprocess.run(words, check=False, stderr=subprocess.DEVNULL)


class Namespaces:
    """A network namespace for each member, joined by a bridge; the clients are outside."""

    has_links = True

    def __init__(self, members):
        self.members, self.name = members, f"spr{os.getpid() % 10000}"
        self.net = f"10.{77 + os.getpid() % 100}.0"
        try:
            self.begin()
        except (OSError, subprocess.CalledProcessError):
            self.end()
            raise

    def begin(self):
        self.begin_links()
        for number in range(self.members):
            run("ip", "netns", "add", self.space(number))
            self.inside(number, "ip", "link", "set", "lo", "up")
            self.connect(number)

    def begin_links(self):
        run("ip", "link", "add", self.name, "type", "bridge")
        run("ip", "addr", "add", f"{self.net}.254/24", "dev", self.name)
        run("ip", "link", "set", self.name, "up")

    def connect(self, number):
        outer = f"{self.name}v{number}"
        run("ip", "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", self.space(number))
        run("ip", "link", "set", outer, "master", self.name, "up")
        self.inside(number, "ip", "addr", "add", f"{self.host(number)}/24", "dev", "eth0")
        self.inside(number, "ip", "link", "set", "eth0", "up")

    def space(self, number):
        return f"{self.name}m{number}"

    def inside(self, number, *words):
        run(*self.command(number), *words)

    def command(self, number):
        return ["ip", "netns", "exec", self.space(number)]

    def host(self, number):
        return f"{self.net}.{number + 1}"

    def address(self, number):
        return f"{self.host(number)}:{PORT}"

    def cut(self, sender, receiver):
        """Loses what one member sends to another."""
        self.inside(sender, "ip", "route", "add", "blackhole", f"{self.host(receiver)}/32")

    def heal(self):
        for number in range(self.members):
            for other in range(self.members):
                end(*self.command(number), "ip", "route", "del", "blackhole", f"{self.host(other)}/32")

    def end(self):
        for number in range(self.members):
            end("ip", "netns", "del", self.space(number))
        end("ip", "link", "del", self.name)


class Loopback:
    """All members on loopback, with a port each."""

    has_links = False

    def command(self, _):
        return []

    def address(self, number):
        return f"127.0.0.1:{PORT + number}"

    def heal(self):
        pass

    def end(self):
        pass


def mount(folder):
    """Mounts a new file system at a folder, and gives the file that has it."""
    image = f"{folder}.image"
    run("truncate", "-s", f"{DISK_MIB}M", image)
    run("mkfs.ext4", "-q", "-F", image)
    run("mount", "-o", "loop", image, folder)
    return image


def can_mount(folder):
    place = os.path.join(folder, "try")
    os.mkdir(place)
    try:
        mount(place)
        run("umount", place)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class SlowDisk:
    """A control group for a member's process, in which writes to the member's disk can be made slow."""

    def __init__(self, folder, number):
        self.group = os.path.join(BLOCK_GROUPS, f"spr{os.getpid()}m{number}")
        device = os.stat(folder).st_dev
        self.device = f"{os.major(device)}:{os.minor(device)}"
        os.mkdir(self.group)

    def set(self, name, value):
        with open(os.path.join(self.group, name), "w", encoding="ascii") as setting:
            setting.write(value)

    def take(self, process):
        self.set("cgroup.procs", str(process.pid))

    def slow(self, writes_per_s):
        """At most so many writes a second; 0 ends that."""
        self.set("blkio.throttle.write_iops_device", f"{self.device} {writes_per_s}")

    def end(self):
        with contextlib.suppress(OSError):
            os.rmdir(self.group)


def can_slow_disks():
    return os.access(os.path.join(BLOCK_GROUPS, "blkio.throttle.write_iops_device"), os.W_OK)


class Member:
    """A process of the set: one of those at the addresses that form it, or one that is added later."""

    def __init__(self, number, binary, network, folder, addresses, own_disk, faketime):
        self.number, self.network, self.address = number, network, network.address(number)
        self.folder = os.path.join(folder, f"member{number}")
        os.mkdir(self.folder)
        self.disk = self.slow_disk = None
        if own_disk:
            self.disk = mount(self.folder)
            if can_slow_disks():
                self.slow_disk = SlowDisk(self.folder, number)
        self.clock, self.environment = os.path.join(folder, f"clock{number}"), None
        if faketime:
            self.set_clock(0)
            self.environment = os.environ | {
                "LD_PRELOAD": faketime, "FAKETIME_TIMESTAMP_FILE": self.clock,
                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_CACHE_DURATION": "1",
            }  # fmt: skip
        self.database = os.path.join(self.folder, "db")
        words = [binary, "serve", self.database, "--listen", self.address, "--oplogSize", "64", "--replSet", "rs0"]
        # Little memory, so that the redo log is short beside the disk.
        words += ["--memory", "64MiB"]
        words += ["--members", ",".join(addresses)] if self.address in addresses else ["--join"]
        self.words = [*network.command(number), *words]
        self.process, self.times_emptied, self.log = None, 0, os.path.join(folder, f"member{number}.log")

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log, env=self.environment)
        if self.slow_disk:
            self.slow_disk.take(self.process)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.is_running():
            self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def restart(self):
        """Ends it in order, and starts it again."""
        self.signal(signal.SIGTERM)
        self.process.wait(60)
        self.start()

    def empty(self):
        """Removes its files; it must not run."""
        self.times_emptied += 1
        shutil.rmtree(self.database, ignore_errors=True)

    def set_clock(self, seconds):
        """Sets its clock so much ahead of the machine's; less than 0 for behind."""
        # The file is read at any moment.
        with open(f"{self.clock}.new", "w", encoding="ascii") as clock:
            clock.write(f"{seconds:+}")
        os.replace(f"{self.clock}.new", self.clock)

    def fill_disk(self):
        """Takes all but a little of the disk."""
        with open(os.path.join(self.folder, "filler"), "wb") as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"\1" * (1 << 16))
                filler.flush()

    def heal(self):
        self.signal(signal.SIGCONT)
        if self.slow_disk:
            self.slow_disk.slow(0)
        if self.environment:
            self.set_clock(0)
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(self.folder, "filler"))
        if not self.is_running():
            self.start()

    def end(self):
        if self.is_running():
            self.signal(signal.SIGCONT)
            self.kill()
        if self.slow_disk:
            self.slow_disk.end()
        if self.disk:
            end("umount", self.folder)

    def last_words(self):
        """The last lines of its log."""
        with open(self.log, errors="replace", encoding="utf-8") as log:
            return " | ".join(line.strip() for line in log.readlines()[-3:])

    def client(self):
        host, port = self.address.rsplit(":", 1)
        return MongoClient(host, int(port), directConnection=True, serverSelectionTimeoutMS=3000, socketTimeoutMS=20000)


class ReplicaSet:
    """The members and the network between them; `spares` are processes that may be added to the set."""

    def __init__(self, binary, folder, network, members, *, own_disks=False, faketime=None, spares=0):
        self.network = network
        self.addresses = [network.address(number) for number in range(members)]
        self.has_disks, self.has_clocks = own_disks and can_mount(folder), faketime is not None
        arguments = (binary, network, folder, self.addresses, self.has_disks, faketime)
        self.members = [Member(number, *arguments) for number in range(members)]
        self.spares = [Member(number, *arguments) for number in range(members, members + spares)]

    def client(self, answer_within_ms=15000):
        """A client of the set; without a limit it waits for each answer until it comes."""
        return MongoClient(
            f"mongodb://{','.join(self.addresses)}/?replicaSet=rs0", socketTimeoutMS=answer_within_ms,
            serverSelectionTimeoutMS=15000, connectTimeoutMS=2000, heartbeatFrequencyMS=1000,
        )  # fmt: skip

    def primary(self):
        """The member that says it is the primary of the newest term; any when none does."""
        newest = (-1, self.members[0])
        for member in self.members:
            with contextlib.suppress(PyMongoError), member.client() as client:
                status = client.admin.command("replSetGetStatus")
                if status["myState"] == 1:
                    newest = max(newest, (status["term"], member), key=lambda pair: pair[0])
        return newest[1]

    def is_whole(self):
        """Whether every member has what the primary has."""
        with self.primary().client() as client:
            members = client.admin.command("replSetGetStatus")["members"]
        if not all("optime" in member for member in members):
            return False
        newest = max(member["optime"]["ts"] for member in members)
        states = sorted(member["state"] for member in members)
        caught_up = all(member["optime"]["ts"].time >= newest.time - 1 for member in members)
        return caught_up and states == [1] + [2] * (len(members) - 1)

    def heal(self):
        self.network.heal()
        for member in self.members:
            member.heal()

    def end(self):
        for member in self.members + self.spares:
            member.end()
        self.network.end()


def until(what, check, seconds=RECOVERY_S):
    """Waits until a check holds; the errors of a server that is not there yet count as no."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        try:
            if check():
                return
        except PyMongoError as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f"{what} not within {seconds} s; the last error: {last}")


def contents(member, name):
    """All collections of a database at a member: their documents and indexes, which agree with them."""
    with member.client() as client:
        database = client.get_database(name, read_preference=ReadPreference.SECONDARY_PREFERRED)
        found = {}
        for collection in sorted(database.list_collection_names()):
            documents = list(database[collection].find().sort("_id", 1))
            indexes = sorted(str(dict(index)) for index in database[collection].list_indexes())
            told = database.command(
                "validate", collection, full=True, read_preference=ReadPreference.SECONDARY_PREFERRED
            )
            assert told["valid"], f"{collection} of member {member.number} is not valid: {told}"
            found[collection] = (documents, indexes)
        return found


def can_have_namespaces():
    try:
        network = Namespaces(1)
    except (OSError, subprocess.CalledProcessError):
        return False
    network.end()
    return True
