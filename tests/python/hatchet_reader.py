"""The reader for Hatchet on a recorded profile."""

import json
import os
import unittest

import rprof
import rprof.hatchet

KERNELS = os.environ["FIXTURES"] + "/profiles/kernels.json"


class Reader(unittest.TestCase):
    def setUp(self):
        self.tree = rprof.hatchet.graphframe(KERNELS)
        with open(KERNELS) as file:
            self.data = json.load(file)

    def test_times_are_those_of_the_samples(self):
        work = sum(s["weight_s"] for s in self.data["samples"] if not s.get("waiting"))
        frame = self.tree.dataframe
        self.assertAlmostEqual(frame["time"].sum(), work, places=6)
        main = frame[frame["name"] == "main"].iloc[0]
        self.assertAlmostEqual(main["time (inc)"], work, places=6)

    def test_counts_are_those_of_the_functions(self):
        frame = self.tree.dataframe
        for function in self.data["functions"]:
            own = frame.loc[frame["name"] == function["name"], "instructions"]
            if function["instructions"] is None:
                self.assertTrue(own.isna().all())
            else:
                self.assertAlmostEqual(own.sum(), function["instructions"], delta=1)

    def test_hatchet_compares_two_trees(self):
        other = rprof.hatchet.graphframe(rprof.read(KERNELS))
        difference = self.tree - other
        self.assertAlmostEqual(difference.dataframe["time"].abs().sum(), 0.0)
        hot = self.tree.filter(lambda row: row["time"] > 0.5)
        self.assertIn("triad", list(hot.dataframe["name"]))
        self.assertIn("triad", self.tree.tree())


if __name__ == "__main__":
    unittest.main()
