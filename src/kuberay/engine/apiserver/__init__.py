"""The embedded Kubernetes API server: storage, kinds, and the rules real clients rely on."""

from kuberay.engine.apiserver.server import ADMIN, ApiServer, User
from kuberay.engine.apiserver.sqlite import SqliteStorage
from kuberay.engine.apiserver.storage import MemoryStorage
from kuberay.engine.apiserver.transport import InProcessTransport

__all__ = ["ADMIN", "ApiServer", "InProcessTransport", "MemoryStorage", "SqliteStorage", "User"]
