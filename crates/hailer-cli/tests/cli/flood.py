# Sends A2S info requests from forged sources to a server, next to an honest client that queries it and a
# player who joins. Arguments: address, port, datagrams per second, seconds. Begins when it reads a line.
# Prints one line of JSON.
import json
import os
import random
import signal
import socket
import struct
import sys
import time

HOST, PORT = sys.argv[1], int(sys.argv[2])
RATE, SECONDS = float(sys.argv[3]), float(sys.argv[4])
INFO = b"\xff\xff\xff\xffTSource Engine Query\x00"


def forge(write_to):
    """Sends from random sources until it is killed, and counts in a pipe."""
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    udp = struct.pack("!HHHH", 27005, PORT, 8 + len(INFO), 0) + INFO
    target = socket.inet_aton(HOST)
    start, sent = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - start) * RATE)
        for _ in range(min(due - sent, 512)):
            # 11.0.0.0/8 to 99.0.0.0/8: none of these is local.
            source = struct.pack("!I", random.randrange(11 << 24, 100 << 24))
            head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0)
            try:
                raw.sendto(head + source + target + udp, (HOST, 0))
            except OSError:
                pass  # The queue of the link is full.
            sent += 1
        os.pwrite(write_to, struct.pack("!Q", sent), 0)
        time.sleep(0.002)


def exchange(sock, request, is_reply):
    """Sends a request up to twice. Returns the reply, or None."""
    for _ in range(2):
        sock.sendto(request, (HOST, PORT))
        end = time.monotonic() + 0.5
        while (left := end - time.monotonic()) > 0:
            sock.settimeout(left)
            try:
                reply = sock.recv(2048)
            except (TimeoutError, ConnectionError):
                break
            if is_reply(reply):
                return reply
    return None


def query(sock):
    """Returns whether an info request is answered, with a challenge in between."""
    reply = exchange(sock, INFO, lambda reply: reply[4:5] in (b"A", b"I"))
    if reply is not None and reply[4:5] == b"A":
        reply = exchange(sock, INFO + reply[5:9], lambda reply: reply[4:5] == b"I")
    return reply is not None and reply[4:5] == b"I"


def client():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((HOST, PORT))
    return sock


def main():
    sys.stdin.readline()
    # Until the server knows the status of the game.
    end = time.monotonic() + 10
    while not query(client()):
        assert time.monotonic() < end, "no answer before the flood"
    counts = os.memfd_create("counts")
    pid = os.fork()
    if pid == 0:
        forge(counts)
    try:
        result = {"queries": 0, "answered": 0, "pings": 0, "pongs": 0}
        player = client()
        start = time.monotonic()
        while (now := time.monotonic()) < start + SECONDS:
            result["queries"] += 1
            result["answered"] += query(client())
            # A packet of the game, not of its query.
            ping = b"game %f " % now + b"." * 32
            result["pings"] += 1
            result["pongs"] += exchange(player, ping, lambda reply: reply == ping) is not None
            time.sleep(0.02)
        result["seconds"] = time.monotonic() - start
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    result["forged"] = struct.unpack("!Q", os.pread(counts, 8, 0))[0]
    print(json.dumps(result))


main()
