"""The listener: TLS, connections and the gunicorn worker that serves them.

One thread, the loop, waits for every peer; it serves reviews, and a small pool does whatever takes
longer. Nothing but the loop's one wait ever waits for a peer: a TLS handshake is a series of
non-blocking steps, a request is served only when all of it has arrived, and a response that the peer
does not take is finished later. So slow, silent or malicious peers can hold a socket until their
deadline, and nothing else.
"""
