"""rprof.read on recorded profiles."""

import json
import math
import os
import tempfile
import unittest

import rprof

FIXTURES = os.environ["FIXTURES"]
KERNELS = f"{FIXTURES}/profiles/kernels.json"
RECORDED = f"{FIXTURES}/profiles/recorded"


class Frames(unittest.TestCase):
    def test_functions_have_their_figures_units_and_sources(self):
        frame = rprof.read(KERNELS).functions
        with open(KERNELS) as file:
            data = json.load(file)
        self.assertEqual(list(frame["name"]), [f["name"] for f in data["functions"]])
        triad = frame[frame["name"] == "triad"].iloc[0]
        recorded = data["functions"][0]
        self.assertEqual(triad["cpu_s"], recorded["cpu_s"])
        self.assertEqual(triad["flops"], recorded["flops"]["total"])
        self.assertEqual(triad["bytes_dram"], recorded["bytes"]["dram"])
        units = frame.attrs["units"]
        wanted = {"cpu_s": "s", "flops": "flop", "bytes_dram": "byte", "instructions": "count", "flop_rate": "flop/s"}
        self.assertEqual({column: units[column] for column in wanted}, wanted)
        numbers = [column for column in frame.columns if frame[column].dtype == float and column != "line"]
        self.assertEqual([column for column in numbers if column not in units], [])
        sources = frame.attrs["sources"]
        self.assertEqual(sources["bytes_dram"][0], {"how": "simulated", "error": 0.03, "reason": None})
        self.assertEqual(frame.attrs["schema"], "rprof-profile/1")

    def test_what_was_not_measured_is_nan_with_a_reason(self):
        frame = rprof.read(KERNELS).functions
        row = frame.index[frame["name"] == "jit_code"][0]
        self.assertTrue(math.isnan(frame.at[row, "flops"]))
        source = frame.attrs["sources"]["flops"][row]
        self.assertEqual(source["how"], "not measured")
        self.assertTrue(source["reason"])

    def test_loops_and_lines_name_their_function(self):
        profile = rprof.read(KERNELS)
        functions = profile.functions
        self.assertEqual(len(profile.loops), 1)
        self.assertTrue(functions.at[profile.loops.at[0, "function"], "name"])
        line = profile.lines.iloc[0]
        self.assertEqual((line["name"], line["line"], line["cpu_s"]), ("triad", 14, 1.64))
        self.assertEqual(profile.lines.attrs["units"]["dram_bytes"], "byte")
        self.assertEqual(profile.lines.attrs["sources"]["dram_bytes"][0]["how"], "simulated")

    def test_ceilings_have_values_intervals_and_reasons(self):
        frame = rprof.read(KERNELS).ceilings
        with open(KERNELS) as file:
            recorded = json.load(file)["machine"]["ceilings"]
        self.assertEqual(len(frame), len(recorded))
        one = frame[(frame["id"] == "dp.fma.scalar") & (frame["threads"] == 1)].iloc[0]
        self.assertEqual((one["value"], one["unit"], one["spread"]), (16.8e9, "flop/s", 0.01))
        self.assertEqual(frame.attrs["sources"]["value"][0]["how"], "measured")

    def test_accounts_add_up_to_the_model(self):
        profile = rprof.read(RECORDED)
        with open(f"{RECORDED}/profile.json") as file:
            data = json.load(file)
        accounts = profile.accounts
        modelled = {i: f["account"]["model_s"] for i, f in enumerate(data["functions"]) if f.get("account")}
        self.assertTrue(modelled)
        sums = accounts.groupby("function")["seconds"].sum()
        for function, seconds in modelled.items():
            self.assertAlmostEqual(sums[function], seconds, delta=1e-9 + 1e-6 * seconds)
        self.assertEqual(accounts.attrs["units"]["seconds"], "s")
        self.assertEqual(accounts.attrs["sources"]["seconds"][0]["how"], "modelled")

    def test_call_sites_of_products(self):
        frame = rprof.read(RECORDED).call_sites
        self.assertEqual(list(frame["kind"].unique()), ["product"])
        row = frame.iloc[0]
        self.assertEqual((row["call"], row["shape"], row["calls"]), ("cblas_dgemm", "300 × 200 × 100 NN", 40))
        self.assertEqual(frame.attrs["units"]["calls"], "count")

    def test_frames_are_made_once_and_follow_pandas(self):
        profile = rprof.read(KERNELS)
        self.assertIs(profile.functions, profile.functions)
        held = profile.functions[profile.functions["share"] > 0.1]
        self.assertEqual(held.attrs["units"]["share"], "ratio")


class BadInput(unittest.TestCase):
    def told(self, path):
        with self.assertRaises(rprof.ProfileError) as caught:
            rprof.read(path)
        text = str(caught.exception)
        self.assertEqual(text.count("\n"), 0)
        return text

    def test_each_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("profile.json: No such file", self.told(folder))
            self.assertIn("No such file", self.told(f"{folder}/none"))
            path = f"{folder}/profile.json"

            def written(text):
                with open(path, "w") as file:
                    file.write(text)
                return self.told(folder)

            self.assertIn("is not JSON", written('{"schema": "rprof-pro'))
            self.assertIn("names no schema", written("[1, 2]"))
            self.assertIn("its schema is rprof-profile/0; this version reads", written('{"schema": "rprof-profile/0"}'))
            self.assertIn("run is missing", written('{"schema": "rprof-profile/2"}'))


if __name__ == "__main__":
    unittest.main()
