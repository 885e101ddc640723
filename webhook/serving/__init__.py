"""The listener: TLS, connections and the gunicorn worker that serves them.

One thread, the loop, waits for every peer; a small pool does the work that costs processor time. No
pool thread ever waits for a peer: a TLS handshake is a series of non-blocking steps, a request reaches
a thread only when all of it has arrived, and a response that the peer does not take is finished by the
loop. So slow, silent or malicious peers can hold a socket until their deadline, and nothing else.
"""
