"""HTTP: replicas answer by themselves, on one port that they share.

     clients ───► one listening socket ◄─── accept ─── replica of the ingress of app A
                       ▲      ▲                             │ connection for app B: its descriptor
              opened by│      │accept                       ▼ (Unix socket), with what was read
           port owner ─┘      └──────────── replica of the ingress of app B

A request comes through `listener` (accepts), `protocol` (reads, limits, moves the connection),
`asgi` (whose is it?), `admission` (may it begin?), `replica_app` (calls the user's code) and
`answers` (values as responses); or `forwarding`, to a replica elsewhere. `peer` and `port_owner`
are the processes that share the port, and `fd_passing` their messages. `ingress` puts FastAPI
applications into classes; `control_socket` answers `skate serve status`.
"""
