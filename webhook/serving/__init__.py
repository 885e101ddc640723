"""The listeners: deadlines, limits, TLS and long work around gunicorn's gevent worker.

gunicorn accepts, parses and writes, with a greenlet for each connection; a greenlet that waits for its peer
delays no other. This package adds deadlines and decides which connection is closed if there is no room
(`peers`), loads the certificate (`tls`), and runs long work in another process (`longwork`, `process`).
"""
