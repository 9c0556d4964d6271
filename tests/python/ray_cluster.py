"""A Ray cluster for a test: several raylets on this machine, with small object stores."""

import logging
import os

from support import HERE, Folder

STORE = 80 << 20
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(HERE.parent.parent / "python"), str(HERE)]),
               "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4,
               "RAY_USAGE_STATS_ENABLED": "0", "RAY_TRAIN_V2_ENABLED": "1",
               "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "15",
               # On Linux, too, "0" makes Ray use loopback for all of its nodes.
               "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class RayCluster(Folder):
    """A head without CPUs, where this script is, and `NODES` nodes."""

    NODES = 2

    def setUp(self):
        super().setUp()
        os.environ.update(ENVIRONMENT)
        import ray
        from ray.cluster_utils import Cluster
        self.ray = ray
        self.cluster = Cluster(initialize_head=True, head_node_args={
            "num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False, **self.head()})
        self.addCleanup(self.cluster.shutdown)
        self.nodes = [self.add_node() for _ in range(self.NODES)]
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level=logging.WARNING)
        self.addCleanup(ray.shutdown)

    def head(self):
        """More options of the head."""
        return {}

    def add_node(self, **options):
        return self.cluster.add_node(**{"num_cpus": 3, "object_store_memory": STORE, **options})
