"""Serves connections: adds deadlines, limits, TLS and long work to gunicorn's gevent worker.

gunicorn accepts connections, parses requests and writes responses, with a greenlet for each connection. This
package adds deadlines and closes a connection if there are too many (`peers`), loads the certificate (`tls`),
and runs long work in another process (`longwork`, `process`).
"""
