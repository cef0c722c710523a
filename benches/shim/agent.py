#!/usr/bin/env python3
"""Takes the place of the agent: reads what ranks send, so that the shim does its work as usual.

    agent.py SOCKET

When a rank has gone, prints `RANK KIND BYTES MESSAGES` for the sums of its rows of each matrix.
"""
import selectors
import socket
import struct
import sys

HEADER = struct.Struct("<IHHIIqq")
FIELD = struct.Struct("<HH")
PEER = struct.Struct("<IIQQ")
HELLO, PEERS, RANK = 1, 4, 2
MAGIC, VERSION, WELCOME = 0x314D4C54, 2, 2
KINDS = {0: "logical", 1: "wire", 2: "read"}


def take(rank, message):
    kind, body = HEADER.unpack_from(message)[2], message[HEADER.size :]
    if kind == HELLO:
        at = 0
        while at < len(body):
            tag, length = FIELD.unpack_from(body, at)
            at += FIELD.size
            if tag == RANK:
                rank["number"] = int.from_bytes(body[at : at + length], "little")
            at += length
    elif kind == PEERS:
        for peer, kind, size, messages in PEER.iter_unpack(body[8:]):
            rank["rows"][kind, peer] = (size, messages)


def tell(rank):
    for kind, name in KINDS.items():
        rows = [row for (of, _), row in rank["rows"].items() if of == kind]
        if rows:
            print(rank["number"], name, sum(row[0] for row in rows), sum(row[1] for row in rows), flush=True)


def main():
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(sys.argv[1])
    listening.listen(64)
    waiting = selectors.DefaultSelector()
    waiting.register(listening, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is listening:
                waiting.register(listening.accept()[0], selectors.EVENT_READ, {"number": -1, "rows": {}})
                continue
            try:
                data = key.fileobj.recv(65536)
            except ConnectionError:
                data = b""
            if data:
                take(key.data, data)
                if HEADER.unpack_from(data)[2] == HELLO:
                    key.fileobj.send(HEADER.pack(MAGIC, VERSION, WELCOME, HEADER.size, 0, 0, 0))
            else:
                tell(key.data)
                waiting.unregister(key.fileobj)
                key.fileobj.close()


main()
