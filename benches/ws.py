"""Figures of live notices, beside those of node `ws` and of a raw write() loop in the same run.

One program (benches/load) listens to all of them: one thread, which counts frames and looks no further into them. The
three take turns. Notices have 250 bytes: a lock's are a little longer, an unlock's a little shorter.

- Processor time per delivery is the server's (user and system), over the notices that arrived.
- Resident memory per idle socket is what the server has grown by, over the sockets, a few seconds after they subscribed.
- Commit to receipt, p50: the raw loop says in each notice when it began to write to the room. When doclock commits
  cannot be seen from outside, so it is derived from the same requests in rooms that nobody hears, where only the answer
  is sent.
  Request to commit is their time from request to answer, less half the time of a request that does nothing (that is how
  long an answer travels). Commit to receipt is the time from request to receipt, less request to commit. All three are
  taken at the same rate, one after the other.
- Heartbeats: each of 256 sockets sends the next when the last is answered, as wrk does with its connections.
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
LOAD = FOLDER.parent / "target/release/load"
TICK = os.sysconf("SC_CLK_TCK")
NOTICE_BYTES = 250
SOCKETS = 10_000
# Names of a length that makes a lock's and an unlock's notice 250 bytes on average.
DOCUMENT = "first-chapter-1"
BURST = [f"first-chapter-{n}" for n in range(8)]


class Peer:
    """A server that says where it listens, and what makes it send notices to a room."""

    def __init__(self, process, base, one, eight):
        self.process, self.address, self.one, self.eight = process, base.removeprefix("http://"), one, eight

    def cpu(self):
        """Seconds of all its threads so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def resident(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024


def doclock(server):
    one = f"/api/documents/{{room}}/{DOCUMENT}/lock"
    eight, body = "/api/rooms/{room}/locks", json.dumps({"documents": BURST}, separators=(",", ":"))
    peer = Peer(
        server.process,
        server.base,
        [f"POST {one}", f"DELETE {one}"],
        [f"POST {eight} {body}", f"DELETE {eight} {body}"],
    )
    peer.token, peer.listener, peer.texts = server.token, server.token_for("listener", "viewer"), 2
    return peer


def other(process):
    """One of the two peers, which understand the same requests."""
    base = process.stdout.readline().split()[-1]
    one, eight = (f"POST /notices/{{room}}/{count}/{NOTICE_BYTES}" for count in (1, 8))
    peer = Peer(process, base, [one], [eight])
    peer.token, peer.listener, peer.texts = "-", "-", 0
    return peer


@contextlib.contextmanager
def started(command, **options):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def node():
    """Node's `ws`, installed from npm into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "install", "--silent", "--no-fund", "--prefix", folder, "ws@8"], check=True)
        environment = {**os.environ, "NODE_PATH": f"{folder}/node_modules"}
        with started(["node", FOLDER / "ws.js"], env=environment) as process:
            yield other(process)


class Sockets:
    """The listening program, told line by line what to do."""

    def __init__(self, peer, sockets, rooms, path="/ws/{room}", texts=None, token=None, calls=None):
        calls = calls or peer
        texts = peer.texts if texts is None else texts
        arguments = [peer.address, path, sockets, rooms, texts, token or peer.listener, calls.address, calls.token]
        command = [LOAD, "sockets", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("benches/load has ended, see above")
        return json.loads(line)

    def run(self, *fields):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\t".join(map(str, fields)) + "\n")
            self.process.stdin.flush()
        return self.answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def median(values):
    return statistics.median(values)


def one_room(bench, rounds):
    """Everyone in one room: notices one at a time, bursts, and the memory of those who only listen."""
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        peers = {
            "doclock": doclock(enter(bench.sqlite_server())),
            "node": enter(node()),
            "raw": other(enter(started([LOAD, "raw"]))),
        }
        sockets = {}
        for name, peer in peers.items():
            # What the server allocates once, at its first sockets, is not counted.
            with Sockets(peer, 100, 1):
                pass
            time.sleep(1)
            before = peer.resident()
            sockets[name] = enter(Sockets(peer, SOCKETS, 1))
            time.sleep(3)
            if name != "raw":
                bench.figure(f"{name}_idle_rss_per_socket", (peer.resident() - before) / SOCKETS / 1000, "KB")
        cpu, rates, sizes = ({name: {1: [], 8: []} for name in peers} for _ in range(3))
        for _ in range(rounds + 1):
            for count, times in ((1, 20), (8, 8)):
                for name, peer in peers.items():
                    requests = [request.replace("{room}", "0") for request in (peer.one if count == 1 else peer.eight)]
                    begin = peer.cpu()
                    run = sockets[name].run("fan", times, count, *requests)
                    cpu[name][count].append((peer.cpu() - begin) / run["deliveries"] * 1e6)
                    rates[name][count].append(run["deliveries"] / run["seconds"])
                    sizes[name][count].append(run["bytes"])
        report(bench, cpu, rates, sizes)


def report(bench, cpu, rates, sizes):
    def of(figures, name, count):
        # The first round only warms up.
        return median(figures[name][count][1:])

    bench.figure("doclock_notice", of(sizes, "doclock", 1), "bytes")
    for name in cpu:
        bench.figure(f"{name}_cpu_per_delivery", of(cpu, name, 1), "us")
        bench.figure(f"{name}_deliveries", of(rates, name, 1), "deliveries/s")
        bench.figure(f"{name}_burst_cpu_per_delivery", of(cpu, name, 8), "us")
        bench.figure(f"{name}_burst_deliveries", of(rates, name, 8), "deliveries/s")
    bench.figure("cpu_per_delivery_of_node", of(cpu, "doclock", 1) / of(cpu, "node", 1), "ratio")
    bench.figure("cpu_per_delivery_of_raw", of(cpu, "doclock", 1) / of(cpu, "raw", 1), "ratio")
    bench.figure("burst_deliveries_of_node", of(rates, "doclock", 8) / of(rates, "node", 8), "ratio")


def many_rooms(bench, seconds, rounds):
    """A thousand rooms of ten, a thousand events a second."""
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        peers = {"doclock": doclock(enter(bench.sqlite_server())), "raw": other(enter(started([LOAD, "raw"])))}
        sockets = {name: enter(Sockets(peer, SOCKETS, 1000)) for name, peer in peers.items()}
        kinds = {"heard": ("doclock", 10), "unheard": ("doclock", 0), "raw": ("raw", 10)}
        runs = {kind: [] for kind in kinds}
        for _ in range(rounds):
            for kind, (name, heard) in kinds.items():
                runs[kind].append(paced(peers[name], sockets[name], seconds, 1000, heard))
        of = {kind: medians(runs[kind]) for kind in kinds}
        receipt = of["heard"]["receipt_us"] - commit_us(of["unheard"])
        bench.figure("rooms_cpu", of["heard"]["cores"], "cores")
        bench.figure("rooms_unheard_cpu", of["unheard"]["cores"], "cores")
        bench.figure("rooms_raw_cpu", of["raw"]["cores"], "cores")
        bench.figure("rooms_request_to_receipt_p50", of["heard"]["receipt_us"], "us")
        bench.figure("rooms_request_to_commit_p50", commit_us(of["unheard"]), "us")
        bench.figure("rooms_commit_to_receipt_p50", receipt, "us")
        bench.figure("rooms_raw_write_to_receipt_p50", of["raw"]["written_us"], "us")
        bench.figure("rooms_commit_to_receipt_of_raw", receipt / of["raw"]["written_us"], "ratio")


def paced(peer, sockets, seconds, rate, heard, calls=None):
    """One run at a steady rate; whole turns of locking and unlocking every room."""
    requests = (calls or peer).one
    if not heard:
        requests = [request.replace("{room}", "unheard-{room}") for request in requests]
    begin = peer.cpu()
    run = sockets.run("paced", 2 * ((seconds + 1) // 2), rate, heard, *requests)
    return {**run, "cores": (peer.cpu() - begin) / run["seconds"]}


def medians(runs):
    return {key: median([run[key] for run in runs]) for key in runs[0]}


def commit_us(unheard):
    return unheard["answer_us"] - unheard["noop_us"] / 2


def two_servers(bench, seconds, rounds):
    """Locked on one server, heard on the other."""
    with bench.postgres_server() as first:
        second = bench.Server(first.folder, first.database)
        try:
            here, there = doclock(first), doclock(second)
            with Sockets(there, 500, 500, calls=here) as sockets:
                heard, unheard = [], []
                for _ in range(rounds):
                    heard.append(paced(there, sockets, seconds, 500, 1, calls=here))
                    unheard.append(paced(there, sockets, seconds, 500, 0, calls=here))
        finally:
            second.stop()
    receipt, commit = medians(heard)["receipt_us"], commit_us(medians(unheard))
    bench.figure("other_server_request_to_receipt_p50", receipt / 1000, "ms")
    bench.figure("other_server_commit_to_receipt_p50", (receipt - commit) / 1000, "ms")


def heartbeats(bench, seconds, rounds):
    lock = {"type": "lock", "room": "beat-{room}", "session_id": "bench"}
    extend = {**lock, "type": "extend"}
    rates = {"http": [], "sockets": []}
    with bench.sqlite_server() as server:
        peer = doclock(server)
        with Sockets(peer, 256, 256, path="/ws", texts=1, token=server.token) as sockets:
            bench.Load(server, "heartbeat", 1, connections=256)
            for _ in range(rounds):
                rates["http"].append(bench.Load(server, "heartbeat", seconds, connections=256).rate)
                run = sockets.run("extend", seconds, json.dumps(lock), json.dumps(extend))
                rates["sockets"].append(run["rate"])
    http, live = median(rates["http"]), median(rates["sockets"])
    bench.figure("heartbeats_http", http, "requests/s")
    bench.figure("heartbeats_sockets", live, "messages/s")
    bench.figure("heartbeats_sockets_of_http", live / http, "ratio")


KEPT = 5000


def kept(bench, seconds):
    """Locks that the server keeps for sockets, beside the same locks kept by HTTP heartbeats every ten seconds."""
    lock = {"type": "lock", "room": "kept-{room}", "session_id": "bench", "keep": "connection"}
    seconds = max(seconds, 20)
    with bench.sqlite_server() as server:
        peer = doclock(server)
        with Sockets(peer, KEPT, KEPT, path="/ws", texts=1, token=server.token) as sockets:
            idle = cpu_while(peer, seconds)
            sockets.run("say", json.dumps(lock))
            time.sleep(12)
            by_socket = cpu_while(peer, seconds)
    with bench.sqlite_server() as server:
        peer = doclock(server)
        with Sockets(peer, 1, KEPT, path="/ws", texts=1, token=server.token) as sockets:
            path = "/api/documents/kept-{room}/main/lock"
            sockets.run("paced", KEPT // 500, 500, 0, f"POST {path}")
            begin = peer.cpu()
            run = sockets.run("paced", seconds, KEPT // 10, 0, f"PUT {path}")
            by_http = (peer.cpu() - begin) / run["seconds"]

    def of_lock(cores):
        return cores * 10 / KEPT * 1e6

    bench.figure("idle_socket_cpu", of_lock(idle), "us per socket and 10 s")
    bench.figure("kept_lock_cpu", of_lock(by_socket), "us per lock and 10 s")
    bench.figure("heartbeat_lock_cpu", of_lock(by_http), "us per lock and 10 s")
    bench.figure("kept_cpu_of_heartbeats", by_socket / by_http, "ratio")


def cpu_while(peer, seconds):
    begin = peer.cpu()
    time.sleep(seconds)
    return (peer.cpu() - begin) / seconds


def measure(bench, arguments):
    """Runs the parts that are asked for. `bench` is benches/run, which starts servers and prints figures."""
    bench.need("node", "nodejs npm")
    bench.need("wrk", "wrk")
    parts = {
        "room": lambda: one_room(bench, arguments.rounds),
        "rooms": lambda: many_rooms(bench, arguments.seconds, arguments.rounds),
        "servers": lambda: two_servers(bench, arguments.seconds, arguments.rounds),
        "heartbeats": lambda: heartbeats(bench, arguments.seconds, arguments.rounds),
        "kept": lambda: kept(bench, arguments.seconds),
    }
    for name, part in parts.items():
        if arguments.only in (None, name):
            part()
