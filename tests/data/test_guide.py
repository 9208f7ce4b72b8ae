"""Every snippet of docs/data.md runs, one after the other, as a reader would type them."""

import re
from pathlib import Path

import pytest

from tests.support import local_only

GUIDE = Path(__file__).parents[2] / "docs" / "data.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


@local_only
@pytest.mark.usefixtures("engine")
@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")
def test_the_guide(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for number, snippet in enumerate(s for s in SNIPPETS if ">>>" not in s):
        exec(compile(snippet, f"snippet {number} of {GUIDE.name}", "exec"), namespace)
    assert "image   numpy.ndarray(shape=(3, 32, 32), dtype=float32)" in capsys.readouterr().out


def test_the_examples_at_the_prompt():
    import doctest

    (example,) = (s for s in SNIPPETS if ">>>" in s)
    parsed = doctest.DocTestParser().get_doctest(example, {}, "guide", str(GUIDE), 0)
    import skate.data

    parsed.globs["skate"] = skate
    results = doctest.DocTestRunner(verbose=False).run(parsed)
    assert results.attempted == 1
    assert results.failed == 0
