"""The reference client of the Model Context Protocol talks to `rprof mcp`."""

import asyncio
import json
import os
import shutil
import subprocess
import time
import unittest

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

RPROF = os.environ["RPROF"]
FIXTURES = os.environ["FIXTURES"]
TOOLS = ["profile", "verdict", "explain", "source", "ceilings", "compare", "gate"]
USUAL = 4096


class Answer:
    def __init__(self, result):
        self.text = "".join(part.text for part in result.content)
        self.is_error = getattr(result, "isError", None) or getattr(result, "is_error", False)
        self.json = None if self.is_error else json.loads(self.text)


def talk(conversation, folder="."):
    """Runs `conversation(call, session)` against a server of `folder`."""

    async def run():
        server = StdioServerParameters(command=RPROF, args=["mcp", "--folder", folder], env=dict(os.environ))
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()

            async def call(tool, **arguments):
                return Answer(await session.call_tool(tool, arguments))

            return await conversation(call, session)

    return asyncio.run(run())


class Recorded(unittest.TestCase):
    """Questions about profiles that are there."""

    @classmethod
    def setUpClass(cls):
        shutil.copy(f"{FIXTURES}/profiles/kernels.json", "kernels.json")
        with open("kernels.json") as file:
            slower = json.load(file)
        for function in slower["functions"]:
            if function["name"] == "triad":
                function["instructions"] *= 2
        with open("slower.json", "w") as file:
            json.dump(slower, file)
        with open("outside.txt", "w") as file:
            file.write("secret")
        os.makedirs("inner", exist_ok=True)
        shutil.copy("kernels.json", "inner/kernels.json")

    def test_the_tools_are_described(self):
        async def conversation(call, session):
            return (await session.list_tools()).tools

        tools = talk(conversation)
        self.assertEqual([tool.name for tool in tools], TOOLS)
        for tool in tools:
            schema = getattr(tool, "inputSchema", None) or tool.input_schema
            self.assertIn("max_bytes", schema["properties"])
            self.assertTrue(tool.description)

    def test_answers_are_bounded_and_figures_have_sources(self):
        async def conversation(call, session):
            verdict = await call("verdict", profile="kernels.json")
            explain = await call("explain", profile="kernels.json", function="triad")
            top = await call("explain", profile="kernels.json")
            ceilings = await call("ceilings", profile="kernels.json")
            more = await call("ceilings", profile="kernels.json", max_bytes=60000)
            least = await call("explain", profile="kernels.json", function="triad", max_bytes=512)
            return verdict, explain, top, ceilings, more, least

        verdict, explain, top, ceilings, more, least = talk(conversation)
        for answer in (verdict, explain, top, ceilings):
            self.assertFalse(answer.is_error, answer.text)
            self.assertLessEqual(len(answer.text.encode()), USUAL)
        self.assertLessEqual(len(least.text.encode()), 512)
        for field in ("cause", "where", "advice", "saves_s", "confidence", "because", "ruled_out", "others"):
            self.assertIn(field, verdict.json)
        figures = {figure["name"]: figure for figure in explain.json["figures"]}
        self.assertEqual(figures["bytes.dram"]["value"], 38539999744)
        self.assertEqual((figures["bytes.dram"]["source"], figures["bytes.dram"]["error"]), ("simulated", 0.03))
        self.assertEqual(figures["instructions"]["source"], "counted")
        self.assertIn("ci95_s", figures["time_s"])
        self.assertTrue(all(figure["source"] for figure in figures.values() if figure["value"] is not None))
        shown, cut = ceilings.json["ceilings"]["items"], ceilings.json["ceilings"]["cut"]
        self.assertEqual(len(shown) + cut, ceilings.json["ceilings"]["total"])
        self.assertGreater(cut, 0)
        self.assertEqual(more.json["ceilings"]["cut"], 0)
        self.assertTrue(all(ceiling["spread"] is not None and ceiling["how"] for ceiling in shown if ceiling["value"]))

    def test_comparisons_and_gates(self):
        async def conversation(call, session):
            pair = {"before": "kernels.json", "after": "slower.json"}
            return [
                await call("compare", **pair),
                await call("gate", **pair, fail_if=["instructions(triad)>50%", "flops>1%"]),
                await call("gate", **pair, fail_if=["flops>1%"]),
                await call("gate", **pair, fail_if=["bytes.dram(jit_code)>1%"]),
            ]

        compare, failed, passed, unknown = talk(conversation)
        change = compare.json["changed"]["items"][0]
        self.assertEqual((change["name"], change["figures"]["instructions"]["outcome"]), ("triad", "grew"))
        self.assertIn("flops", change["figures"]["unchanged"])
        self.assertIs(failed.json["passed"], False)
        self.assertIs(passed.json["passed"], True, passed.text)
        self.assertIsNone(unknown.json["passed"], unknown.text)
        for answer in (compare, failed, passed, unknown):
            self.assertLessEqual(len(answer.text.encode()), USUAL)

    def test_what_cannot_be_answered_is_told_in_a_line(self):
        async def conversation(call, session):
            told = []
            for tool, arguments, words in [
                ("verdict", {"profile": "../outside.txt"}, "is outside of the folder"),
                ("verdict", {"profile": "/etc/passwd"}, "/etc/passwd is outside of the folder"),
                ("source", {"profile": "kernels.json", "function": "triad"}, "is outside of the folder"),
                ("verdict", {"profile": "none"}, "none: No such file"),
                ("verdict", {"profile": "."}, "profile.json: No such file"),
                ("explain", {"profile": "kernels.json", "function": "nosuch"}, "none of the 11 functions"),
                ("ceilings", {"profile": "kernels.json", "prefix": "nosuch"}, "no ceiling has an id"),
                ("gate", {"before": "kernels.json", "after": "kernels.json", "fail_if": ["nonsense"]}, "fail_if"),
                ("gate", {"after": "kernels.json", "fail_if": ["time>1%"]}, "missing field `before`"),
                ("verdict", {"profile": "kernels.json", "max_bytes": 1}, "max_bytes is at least 512"),
                ("verdict", {"wrong": 1}, "unknown field `wrong`"),
                ("profile", {"program": []}, "program is empty"),
                ("profile", {"program": ["/bin/ls"]}, "/bin/ls is outside of the folder"),
                ("profile", {"program": ["../app"]}, "is outside of the folder"),
                ("profile", {"program": ["nosuchprogram"]}, "nosuchprogram"),
                ("profile", {"program": ["true"], "output": "../elsewhere"}, "not the name of a folder"),
            ]:
                told.append((words, await call(tool, **arguments)))
            return told

        for words, answer in talk(conversation, "inner"):
            self.assertTrue(answer.is_error, f"{words}: {answer.text}")
            self.assertIn(words, answer.text)
            self.assertEqual(answer.text.count("\n"), 0, answer.text)
        self.assertEqual(sorted(os.listdir("inner")), ["kernels.json"])


class Programs(unittest.TestCase):
    """Programs that the server starts."""

    def test_a_program_is_profiled_and_its_lines_are_shown(self):
        with open("sum.c", "w") as file:
            file.write(SUM)
        subprocess.run(["gcc", "-O2", "-g", "sum.c", "-o", "sum"], check=True)

        async def conversation(call, session):
            profiled = await call("profile", program=["./sum", "3"], passes="both")
            return profiled, await call("source", function="sum"), await call("verdict")

        profiled, source, verdict = talk(conversation)
        self.assertFalse(profiled.is_error, profiled.text)
        self.assertEqual((profiled.json["exit_status"], profiled.json["stdout_end"]), (3, "131072\n"))
        self.assertEqual(profiled.json["cause"], verdict.json["cause"])
        self.assertFalse(source.is_error, source.text)
        lines = source.json["files"][0]["lines"]
        hot = [line for line in lines if line.get("cpu_s")]
        self.assertTrue(any("s += x[i]" in line["text"] or "for" in line["text"] for line in hot), source.text)

    def test_a_program_without_end_is_interrupted(self):
        with open("endless.c", "w") as file:
            file.write("int main(void) { for (volatile int i = 0;; i++); }")
        subprocess.run(["gcc", "-O1", "-g", "endless.c", "-o", "endless"], check=True)

        async def conversation(call, session):
            return await call("profile", program=["./endless"], output="cut", timeout_s=3)

        answer = talk(conversation)
        self.assertFalse(answer.is_error, answer.text)
        self.assertTrue(answer.json["interrupted"])
        running = subprocess.run(["pgrep", "-x", "endless"], capture_output=True, text=True).stdout
        self.assertEqual(running, "")

    def test_a_program_does_not_outlive_its_client(self):
        with open("orphan.c", "w") as file:
            file.write("int main(void) { for (volatile int i = 0;; i++); }")
        subprocess.run(["gcc", "-O1", "-g", "orphan.c", "-o", "orphan"], check=True)
        server = subprocess.Popen([RPROF, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        call = {"name": "profile", "arguments": {"program": ["./orphan"], "output": "gone"}}
        for message in (
            {"id": 1, "method": "initialize", "params": start},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": call},
        ):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()
        is_running = lambda: subprocess.run(["pgrep", "-x", "orphan"], capture_output=True).returncode == 0
        deadline = time.monotonic() + 60
        while not is_running():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        server.stdin.close()
        self.assertEqual(server.wait(120), 0)
        self.assertFalse(is_running())


SUM = """
#include <stdio.h>
#include <stdlib.h>
static double x[1 << 16];
__attribute__((noinline)) double sum(void)
{
    double s = 0;
    for (int i = 0; i < 1 << 16; i++)
        s += x[i];
    return s;
}
int main(int argc, char **argv)
{
    for (int i = 0; i < 1 << 16; i++)
        x[i] = 2;
    double total = 0;
    for (int times = 0; times < 8000; times++) {
        x[times] = 2;
        total = sum();
    }
    printf("%g\\n", total);
    return atoi(argv[1]);
}
"""

if __name__ == "__main__":
    unittest.main()
