# Builds two images: `serving` (the default) for the webhook, and `controllers` for the programs that call the API server. The base is
# pinned by the digest of its index of all platforms, as in ten public files of September 2026. This build was never tested with this
# base, because the project had no image registry. If the registry does not have the digest, the build fails.
ARG BASE=python:3.13.15-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE} AS build
# Installs only packages whose hash is in a lock. The provenance of a release lists these files, from wheels.sha256.
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 \
    LOCKED="install --require-hashes --only-binary :all:" \
    INTO="/opt/ultraserver-webhook/bin/python" \
    HASHES="import json; [print(item['download_info']['archive_info']['hashes']['sha256'], item['download_info']['url'].rpartition('/')[2], sep='  ') for item in json.load(open('/tmp/report.json'))['install']]"
WORKDIR /src
RUN python -m venv --without-pip /opt/ultraserver-webhook
# The dependencies are in a layer of their own, so that a change of the code does not install them again.
COPY locks/build.txt locks/serving.txt locks/
RUN python -m pip $LOCKED --target /tmp/build --requirement locks/build.txt \
 && python -m pip --python $INTO $LOCKED --report /tmp/report.json --requirement locks/serving.txt \
 && python -c "$HASHES" > /opt/ultraserver-webhook/wheels.sha256 \
# Removes unused files of packages: tests, C sources, two event loops and the resolver of gevent, Werkzeug's debugger, gunicorn's ASGI
# worker, pydantic's copy of its version 1, and cffi except _cffi_backend, which cryptography needs.
 && rm -f /opt/ultraserver-webhook/bin/cffi-gen-src \
 && find /opt/ultraserver-webhook/lib \( -type d \( -name tests -o -name testing -o -name benchmarks -o -name libuv \
        -o -path '*/site-packages/cffi' -o -name pycparser -o -path '*/werkzeug/debug' -o -path '*/gunicorn/asgi' \
        -o -path '*/pydantic/v1' \) -prune -o -name '*.[ch]' -o -name '*.[ch]pp' \
        -o -name '*.p[xy][xdi]' -o -name 'cares.*.so' -o -name '_corecffi.*.so' \) -exec rm -r {} +
COPY pyproject.toml LICENSE README.md ./
COPY webhook webhook
COPY certs certs
COPY common common
COPY contract contract
COPY kube kube
COPY placement placement
COPY kubectl_ultraserver kubectl_ultraserver
# The wheel is compiled to bytecode here, because the running container cannot write files.
RUN PYTHONPATH=/tmp/build python -m hatchling build --target wheel --directory /tmp/wheel \
 && python -m pip --python $INTO install --no-deps /tmp/wheel/*.whl \
 && /opt/ultraserver-webhook/bin/python -m compileall -q -j 0 /opt/ultraserver-webhook/lib \
 && /opt/ultraserver-webhook/bin/ultraserver-webhook rules lint \
 && /opt/ultraserver-webhook/bin/python -c 'import webhook.compose'

# Only the programs that call the API server need the client of the API server.
FROM build AS build-controllers
COPY locks/controllers.txt locks/
RUN python -m pip --python $INTO $LOCKED --report /tmp/report.json --requirement locks/controllers.txt \
 && python -c "$HASHES" >> /opt/ultraserver-webhook/wheels.sha256 \
# Removes unused files of these packages, too, and the asyncio part of the client.
 && find /opt/ultraserver-webhook/lib \( -type d \( -name tests -o -path '*/kubernetes/aio' \) -prune \
        -o -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.p[xy][xdi]' \) -exec rm -r {} + \
 && /opt/ultraserver-webhook/bin/python -m compileall -q -j 0 /opt/ultraserver-webhook/lib \
 && /opt/ultraserver-webhook/bin/python -m certs run --help > /dev/null \
 && /opt/ultraserver-webhook/bin/python -m placement run --help > /dev/null

FROM ${BASE} AS runtime
# Removes pip, and the setuid and setgid programs of the base, such as su and mount.
RUN python -m pip uninstall --yes --root-user-action ignore pip \
 && rm -rf /usr/local/lib/python3*/ensurepip \
 && find / -xdev -type f -perm /6000 -delete
ENV PATH=/opt/ultraserver-webhook/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /opt/ultraserver-webhook
# The user is a number, so that Kubernetes can check that it is not root (runAsNonRoot).
USER 65532:65532

# docker build --target controllers --tag ultraserver-webhook-controllers:VERSION .
FROM runtime AS controllers
COPY --from=build-controllers /opt/ultraserver-webhook /opt/ultraserver-webhook
CMD ["python", "-m", "certs", "run"]

# docker build --tag ultraserver-webhook:VERSION .
FROM runtime AS serving
COPY --from=build /opt/ultraserver-webhook /opt/ultraserver-webhook
ENV ULTRASERVER_WEBHOOK_SERVE_TLS_CERT=/etc/ultraserver-webhook/tls/tls.crt \
    ULTRASERVER_WEBHOOK_SERVE_TLS_KEY=/etc/ultraserver-webhook/tls/tls.key
EXPOSE 8443
# This check is for other container runtimes, because Kubernetes uses the probes of the Deployment. The check does not verify the
# certificate, which has the name of the Service and not 127.0.0.1. ULTRASERVER_WEBHOOK_SERVE_PORT sets a port other than 8443.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["python", "-c", "import os, ssl, urllib.request; \
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE; \
port = os.environ.get('ULTRASERVER_WEBHOOK_SERVE_PORT', '8443'); \
urllib.request.urlopen('https://127.0.0.1:' + port + '/livez', context=context, timeout=2)"]
ENTRYPOINT ["ultraserver-webhook"]
CMD ["serve"]
