"""%%rprof in a real notebook, run by nbclient."""

import unittest

import nbformat
from nbclient import NotebookClient

WORK = """
x = 0
for i in range(4_000_000):
    x += i * i % 7
print("x is", x)
"""


def outputs(cell):
    """Texts and pages of a cell."""
    text = "".join(output.get("text", "") for output in cell.outputs)
    pages = [output["data"]["text/html"] for output in cell.outputs if "text/html" in output.get("data", {})]
    return text, "".join(pages)


def notebook(*sources):
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(book, timeout=200, kernel_name="python3").execute()
    return book.cells


class Magic(unittest.TestCase):
    def check(self, cell):
        text, page = outputs(cell)
        self.assertIn("x is ", text)
        self.assertIn("more: rprof report", text, "the verdict")
        self.assertIn("<iframe srcdoc=", page)
        self.assertIn("&lt;!DOCTYPE html&gt;", page)

    def test_a_cell_keeps_the_variables_of_the_notebook(self):
        cells = notebook(
            "%load_ext rprof\nlimit = 4_000_000",
            "%%rprof\n" + WORK.replace("4_000_000", "limit"),
            "print(x, len(rprof_profile.functions) > 5, rprof_profile.functions.attrs['units']['cpu_s'])",
        )
        self.check(cells[1])
        text, _ = outputs(cells[2])
        self.assertTrue(text.endswith(" True s\n"), text)

    def test_a_cell_alone_is_counted_exactly(self):
        cells = notebook("%load_ext rprof", "%%rprof --alone\n" + WORK, "f = rprof_profile.functions; print(f['instructions'].sum() > 1e7)")
        self.check(cells[1])
        self.assertEqual(outputs(cells[2])[0], "True\n")

    def test_a_wrong_option_and_a_failing_cell_are_told(self):
        book = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(s) for s in ("%load_ext rprof", "%%rprof --nosuch\n1", "%%rprof --alone\n1 / 0")]
        )
        NotebookClient(book, timeout=200, kernel_name="python3", allow_errors=True).execute()
        told = book.cells[1].outputs[0]
        shown = told.get("text") or told.get("evalue")
        self.assertIn("%%rprof: unrecognized arguments: --nosuch", shown)
        self.assertIn("ZeroDivisionError", outputs(book.cells[2])[0])


if __name__ == "__main__":
    unittest.main()
