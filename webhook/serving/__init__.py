"""The listeners: what is put around gunicorn's gevent worker.

gunicorn accepts, parses and writes, with a greenlet for each connection; a greenlet that waits for its peer
holds up nobody. Ours are the deadlines, and which connection is closed when there is no room (`peers`), the
certificate (`tls`), and another process for work that takes long (`longwork`, `process`).
"""
