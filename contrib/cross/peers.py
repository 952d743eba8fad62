"""Peers of try-static on loopback: a name server at 127.0.0.1 and 127.0.0.2, port 53, and an Eco server over HTTPS.

    peers.py FOLDER     the folder has certificate.pem and key.pem
"""

import http.server
import json
import socket
import ssl
import struct
import sys
import threading

SERVER = bytes([127, 0, 0, 1])
NAMES = {b"play.example.test", b"eco.example.test"}
SRV = b"_minecraft._tcp.play.example.test"


def encoded(name):
    return b"".join(bytes([len(part)]) + part for part in name.split(b".")) + b"\0"


def reply(query):
    """Returns the reply to a DNS query with one question."""
    place, labels = 12, []
    while query[place]:
        labels.append(query[place + 1 : place + 1 + query[place]])
        place += 1 + query[place]
    question = query[12 : place + 5]
    kind = struct.unpack(">H", query[place + 1 : place + 3])[0]
    name = b".".join(labels).lower()
    data = None
    if kind == 1 and name in NAMES:
        data = SERVER
    elif kind == 33 and name == SRV:
        data = struct.pack(">HHH", 0, 0, 25571) + encoded(b"play.example.test")
    is_known = name in NAMES or name == SRV
    # A response, recursion available, and an error if the name does not exist.
    flags = 0x8180 if is_known else 0x8183
    answer = b"" if data is None else b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(data)) + data
    return query[:2] + struct.pack(">HHHHH", flags, 1, int(data is not None), 0, 0) + question + answer


def serve_names(address):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    while True:
        query, client = server.recvfrom(512)
        server.sendto(reply(query), client)


class Eco(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        info = {"Description": "An Eco server", "OnlinePlayers": 1, "TotalPlayers": 9, "OnlinePlayersNames": ["Alice"]}
        body = json.dumps({"Info": info, "Graphs": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    folder = sys.argv[1]
    for address in ("127.0.0.1", "127.0.0.2"):
        threading.Thread(target=serve_names, args=(address,), daemon=True).start()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 3443), Eco)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/certificate.pem", f"{folder}/key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print("ready", flush=True)
    server.serve_forever()


main()
