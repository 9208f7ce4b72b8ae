"""Certificates for tests of HTTPS."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


class Certificates:
    """Of an authority, of a server, and of a client that one of two authorities knows."""

    def __init__(self, folder: Path) -> None:
        ours, others = trustme.CA(), trustme.CA()
        server = ours.issue_cert("127.0.0.1")
        self.authority = str(folder / "ca.pem")
        ours.cert_pem.write_to_path(self.authority)
        self.key, self.cert = str(folder / "key.pem"), str(folder / "cert.pem")
        server.private_key_pem.write_to_path(self.key)
        server.cert_chain_pems[0].write_to_path(self.cert)
        self._clients = {"known": ours, "unknown": others}

    def context(self, client: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority)
        if client in self._clients:
            self._clients[client].issue_cert("client").configure_cert(context)
        return context
