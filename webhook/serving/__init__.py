"""Serves connections: adds deadlines, limits, TLS and long work to gunicorn's gevent worker.

gunicorn accepts connections, parses requests and writes responses, with a greenlet for each connection. This
package adds deadlines, closes connections above the limits (`peers`), loads the certificate (`tls`), and runs
long work in another process (`longwork`, `process`).
"""
