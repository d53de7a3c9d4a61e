"""The init container that keeps a worker from starting before its head can be joined.

A worker that starts too early fails, restarts and backs off, so that it joins later than if it had waited. KubeRay
waits with `ray health-check`, which imports all of Ray for every attempt; under the container's 200m of CPU that takes
seconds. Here an attempt is one gRPC health check (`grpc.health.v1.Health/Check`) written to the GCS port by hand: a few
milliseconds in the image's own Python, which has to import nothing of Ray. Where that cannot work (TLS, token
authentication, no Python, an answer that is not understood) `ray health-check` does it as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kuberay.build import names
from kuberay.build.container import bash

if TYPE_CHECKING:
    from kuberay.build.options import BuildOptions

_RESOURCES = {"cpu": "200m", "memory": "256Mi"}

# Exit codes: 0 the GCS serves, 1 it does not yet, 2 the answer is not understood. It stands in single quotes in the
# script below, so it must hold none itself; and no `$(`, which Kubernetes would take for a variable.
PROBE = """
import socket, struct, sys

host, port = sys.argv[1], int(sys.argv[2])

def field(name, value):
    return name + bytes([len(value)]) + value

def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

headers = (
    b"\\x83\\x86"
    + field(b"\\x04", b"/grpc.health.v1.Health/Check")
    + field(b"\\x01", b"gcs")
    + field(b"\\x0f\\x10", b"application/grpc")
    + field(b"\\x00\\x02te", b"trailers")
)
request = (
    b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"
    + frame(4, 0, 0, b"")
    + frame(1, 4, 1, headers)
    + frame(0, 1, 1, bytes(5))
)

def read(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            sys.exit("%s:%d closed the connection" % (host, port))
        data += part
    return data

try:
    with socket.create_connection((host, port), timeout=5) as connection:
        connection.sendall(request)
        message = b""
        while True:
            head = read(connection, 9)
            size, stream = int.from_bytes(head[:3], "big"), int.from_bytes(head[5:], "big")
            kind, flags = head[3], head[4]
            if size > 16384:
                break
            payload = read(connection, size)
            if stream == 1 and kind == 0:
                message += payload
            if stream == 1 and (flags & 1 or kind == 3) or kind == 7:
                break
except OSError as error:
    sys.exit("%s:%d: %s" % (host, port, error))
if message == b"\\x00\\x00\\x00\\x00\\x02\\x08\\x01":
    sys.exit(0)
if message[:5] in (b"\\x00\\x00\\x00\\x00\\x00", b"\\x00\\x00\\x00\\x00\\x02"):
    sys.exit("%s:%d answers, but does not serve yet" % (host, port))
sys.exit(2)
"""

_SCRIPT = """
probe='{probe}'
python=
if [[ "${{RAY_USE_TLS:-0}}" =~ ^(0|false|False)$ && "${{RAY_AUTH_MODE:-disabled}}" == disabled ]]; then
  for name in python3 python; do
    if type "$name" > /dev/null 2>&1; then python=$name; break; fi
  done
fi
check() {{
  if [[ -n "$python" ]]; then
    "$python" -I -S -c "$probe" {host} {port}
    code=$?
    if (( code < 2 )); then return $code; fi
  fi
  ray health-check --address {host}:{port}
}}
SECONDS=0
while true; do
  if (( SECONDS <= 120 )); then
    if check > /dev/null 2>&1; then
      echo "GCS is ready."
      break
    fi
    echo "$SECONDS seconds elapsed: waiting for the GCS at {host}:{port}."
  else
    if check; then
      echo "GCS is ready. Errors above can be ignored."
      break
    fi
    echo "$SECONDS seconds elapsed: still waiting for the GCS at {host}:{port}. For help, see" \\
      "https://docs.ray.io/en/master/cluster/kubernetes/troubleshooting.html"
  fi
  sleep 1
done
"""


def script(host: str, port: str) -> str:
    """Bash that ends when the GCS at `host:port` serves. Silent about failures for two minutes, then not."""
    return _SCRIPT.format(probe=PROBE, host=host, port=port)


def container(ray: dict[str, Any], host: str, port: str, options: BuildOptions) -> dict[str, Any]:
    """The init container for the Ray container `ray` as the user wrote it.

    It runs in the same image with the same environment and mounts, where a user may have put certificates; but with
    resources of its own, or it would ask for the worker's GPUs.
    """
    result: dict[str, Any] = {
        "name": names.WAIT_GCS_READY,
        "command": bash(options),
        "args": [script(host, port)],
        "resources": {"limits": dict(_RESOURCES), "requests": dict(_RESOURCES)},
    }
    for key in ("image", "imagePullPolicy", "securityContext"):
        if key in ray:
            result[key] = ray[key]
    for key in ("env", "volumeMounts"):
        if ray.get(key):
            result[key] = list(ray[key])
    return result
