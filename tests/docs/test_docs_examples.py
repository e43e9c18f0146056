"""Every Python example in the documentation runs, and prints what the page says it prints."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(
    page
    for folder in ("tutorial", "how-to", "explanation")
    for page in (ROOT / "docs" / folder).rglob("*.md")
    if "```python\n" in page.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_examples_of_a_page_run_and_print_what_it_says(page: Path, tmp_path: Path) -> None:
    """A page's Python blocks, taken together, run in a fresh process and print its text blocks."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    script = tmp_path / "example.py"
    script.write_text("\n".join(code for language, code in blocks if language == "python"), encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    expected = "".join(text for language, text in blocks if language == "text")
    if expected:
        assert done.stdout == expected


def test_there_are_examples() -> None:
    """The tutorial is among the pages that are run."""
    assert "first-dead-letter" in [page.stem for page in PAGES]
