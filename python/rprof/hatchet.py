"""A reader for Hatchet (`llnl-hatchet`), by which Thicket compares runs: the calling context tree of a profile.

>>> import rprof.hatchet
>>> tree = rprof.hatchet.graphframe("rprof.out")
>>> tree.dataframe[["name", "time", "time (inc)"]]
"""

import hatchet
from hatchet.frame import Frame
from hatchet.graph import Graph
from hatchet.node import Node
import pandas

from .profile import Profile, read

COUNTS = ("instructions", "flops", "bytes_dram")
COLUMNS = ("name", "module", "file", "line")


def graphframe(profile):
    """The calling context tree of `profile`, a Profile or a path, as a `hatchet.GraphFrame`.

    `time` and `waiting` are CPU seconds of the samples whose stack ends in a node; `instructions`, `flops` and `bytes_dram` are a function's own sums,
    divided among its nodes by `time`. Counts of functions without a sample are roots of their own. What was not measured is NaN.

    Raises ProfileError.
    """
    if not isinstance(profile, Profile):
        profile = read(profile)
    tree = _Tree(profile)
    tree.add_samples()
    tree.add_counts()
    return tree.graphframe()


class _Tree:
    """Nodes by their number: Hatchet's nodes are all equal until their graph is complete."""

    def __init__(self, profile):
        self.data = profile.data
        self.functions = profile.functions
        self.numbers = {}
        self.nodes = []
        self.roots = []
        self.rows = []
        self.leaves = {}
        self.by_name = {}
        for index, key in enumerate(zip(self.functions["name"], self.functions["module"])):
            self.by_name.setdefault(key, index)

    def _add(self, key, frame, parent):
        """The number of the node `key` below the node `parent`."""
        if key not in self.numbers:
            above = None if parent is None else self.nodes[parent]
            node = Node(Frame({"name": frame["name"], "module": frame["module"], "type": "function"}), above)
            if above is None:
                self.roots.append(node)
            else:
                above.add_child(node)
            self.numbers[key] = len(self.nodes)
            self.nodes.append(node)
            self.rows.append({**{column: frame.get(column) for column in COLUMNS}, "time": 0.0, "waiting": 0.0})
        return self.numbers[key]

    def _stack(self, index):
        """The node of a stack: those of its parents are made first."""
        chain = []
        while index is not None and ("stack", index) not in self.numbers:
            chain.append(index)
            index = self.data["stacks"][index]["parent"]
        node = None if index is None else self.numbers["stack", index]
        for index in reversed(chain):
            node = self._add(("stack", index), self.data["frames"][self.data["stacks"][index]["frame"]], node)
        return node

    def _host(self, stack):
        """The row of the function that holds the code at the top of `stack`."""
        while stack is not None:
            frame = self.data["frames"][self.data["stacks"][stack]["frame"]]
            if not frame.get("inlined"):
                return self.by_name.get((frame["name"], frame["module"]))
            stack = self.data["stacks"][stack]["parent"]
        return None

    def add_samples(self):
        for sample in self.data["samples"]:
            stack = sample["stack"]
            node = self._add("none", {"name": "[no stack]", "module": ""}, None) if stack is None else self._stack(stack)
            self.rows[node]["waiting" if sample.get("waiting") else "time"] += sample["weight_s"]
            host = self._host(stack)
            if host is not None and not sample.get("waiting"):
                self.leaves.setdefault(host, set()).add(node)

    def add_counts(self):
        for index, function in enumerate(self.data["functions"]):
            counts = {column: self.functions.at[index, column] for column in COUNTS}
            nodes = self.leaves.get(index)
            if nodes is None:
                if all(pandas.isna(count) for count in counts.values()):
                    continue
                nodes = {self._add(("function", index), function, None)}
            own = {node: self.rows[node]["time"] for node in nodes}
            all_s = sum(own.values())
            for node, seconds in own.items():
                part = seconds / all_s if all_s > 0 else 1 / len(own)
                row = self.rows[node]
                row["class"] = function.get("class")
                row.update({column: row.get(column, 0.0) + count * part for column, count in counts.items()})

    def graphframe(self):
        graph = Graph(self.roots)
        graph.enumerate_traverse()
        # A node that only calls has no counts of its own, which is no lack.
        rows = [{"node": node, **({} if "class" in row else dict.fromkeys(COUNTS, 0.0)), **row} for node, row in zip(self.nodes, self.rows)]
        exclusive = ["time", "waiting", *COUNTS]
        frame = pandas.DataFrame(rows, columns=["node", *COLUMNS, "class", *exclusive])
        frame[exclusive] = frame[exclusive].astype(float)
        made = hatchet.GraphFrame(graph, frame.set_index("node").sort_index(), exclusive, [])
        made.update_inclusive_columns()
        return made
