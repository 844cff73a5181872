"""A script that knows only what the tools say of themselves finds the causes of ten programs (fixtures/diagnosis)."""

import asyncio
import csv
import json
import os
import re
import subprocess
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

SOURCES = os.environ["FIXTURES"] + "/diagnosis"
# Those that must be right: a host's caches may make one of them another program.
LEAST = 9


async def cause(session, program):
    """The cause and the place, from the tool whose description says that it runs a program."""
    tools = (await session.list_tools()).tools
    runs = next(tool for tool in tools if "Runs a program" in tool.description)
    result = await session.call_tool(runs.name, {"program": [f"./{program}"], "output": f"{program}.out"})
    text = "".join(part.text for part in result.content)
    assert len(text.encode()) <= 4096, f"{program}: {len(text)} bytes"
    try:
        answer = json.loads(text)
    except ValueError:
        return text, None
    return answer["cause"], (answer["where"] or {}).get("function")


async def main():
    with open(f"{SOURCES}/answers.tsv") as file:
        cases = list(csv.DictReader(file, delimiter="\t"))
    for case in cases:
        name = case["case"]
        command = ["gcc", "-O2", "-g", *case["flags"].split(), f"{SOURCES}/{name}.c", "-o", name, "-lm"]
        subprocess.run(command, check=True)
    server = StdioServerParameters(command=os.environ["RPROF"], args=["mcp"], env=dict(os.environ))
    right = 0
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        for case in cases:
            found, place = await cause(session, case["case"])
            is_right = bool(re.fullmatch(case["cause"], found))
            right += is_right
            print(f"{case['case']:10} {'ok' if is_right else 'NO'} {found} in {place}", flush=True)
    print(f"{right} of {len(cases)}")
    sys.exit(right < LEAST)


asyncio.run(main())
